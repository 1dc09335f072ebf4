"""Perplexity on held-out sentences, against an evaluation word by word with the reference."""

import math

import corpora
import pytest
import tiny
import torch

from stelmo.corpus import folder as shards
from stelmo.corpus.windows import BEGIN, END, Sentences
from stelmo.embed.model import Model
from stelmo.lm.perplexity import perplexity
from stelmo.model.bilm import Softmax
from stelmo.ops import reference as ops
from stelmo.settings import LoadSettings
from stelmo.store.saved import SavedModel
from stelmo.text import chars
from stelmo.train.batches import Batches, word_ids
from stelmo.train.validation import validate
from stelmo.train.world import Many, World


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return shards.read(corpora.make(tmp_path_factory.mktemp("data") / "corpus", corpora.sentences(60), heldout=11))


@pytest.fixture(scope="module")
def bilm():
    return tiny.bilm(dtype=torch.float64)


@pytest.fixture(scope="module")
def softmax(corpus):
    head = Softmax(len(corpus.vocabulary), tiny.CONFIG.lstm.projection).double()
    head.reset(torch.Generator().manual_seed(3))
    return head.requires_grad_(False)


def row_of(sentences, row, rows, markers, turn):
    """The types a row reads, and those it is to guess: sentences row, row + rows, …"""
    inputs, targets = [], []
    for number in range(row, len(sentences), rows):
        types = [markers[0], *turn(list(sentences[number])), markers[1]]
        inputs += types[:-1]
        targets += types[1:]
    return inputs, targets


def brute_force(corpus, bilm, softmax, sentences, rows):
    """Σ −ln p of each direction, one word and one row at a time, all in a single pass without windows."""
    directions = (
        (bilm.lstm_forward, (BEGIN, END), lambda types: types),
        (bilm.lstm_backward, (END, BEGIN), lambda types: types[::-1]),
    )
    sums, count = [0.0, 0.0], 0
    for direction, (stack, markers, turn) in enumerate(directions):
        for row in range(rows):
            inputs, targets = row_of(sentences, row, rows, markers, turn)
            words = corpus.words.words(inputs)
            x_TP = bilm.encoder(torch.from_numpy(chars.encode_words(words, width=50)))
            state = [(torch.zeros(1, 6).double(), torch.zeros(1, 10).double()) for _ in stack]
            for x_P, target in zip(x_TP, targets, strict=True):
                x_BP = x_P[None]
                for depth, layer in enumerate(stack):
                    state[depth] = ops.lstm_step(x_BP, *state[depth], layer.weights, layer.clips)
                    x_BP = state[depth][0] + x_BP * (depth > 0)
                sums[direction] -= float(softmax(x_BP)[0, corpus.targets_S[target]])
                count += direction == 0
    return sums, count


def found(corpus, bilm, softmax, world=None, **options):
    sentences = Sentences(corpus.heldout)
    batches = Batches(word_ids(tiny.CONFIG, corpus.vocabulary), corpus.words, corpus.targets_S)
    given = {"rows": 3, "steps": 4} | options
    return validate(bilm, softmax, sentences, batches, world=world or World(), **given)


def test_it_is_what_the_reference_says_word_by_word(corpus, bilm, softmax):
    (forward, backward), count = brute_force(corpus, bilm, softmax, Sentences(corpus.heldout), rows=3)
    perplexity = found(corpus, bilm, softmax)
    assert perplexity.predictions == count == corpus.manifest.heldout.tokens + 11
    assert perplexity.forward == pytest.approx(math.exp(forward / count), rel=1e-10)
    assert perplexity.backward == pytest.approx(math.exp(backward / count), rel=1e-10)
    assert perplexity.combined == pytest.approx(math.exp((forward + backward) / (2 * count)), rel=1e-10)


@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_windows_change_nothing(steps, corpus, bilm, softmax):
    assert found(corpus, bilm, softmax, steps=steps) == pytest.approx(found(corpus, bilm, softmax))


def test_more_rows_than_sentences_are_not_needed(corpus, bilm, softmax):
    assert found(corpus, bilm, softmax, rows=500) == pytest.approx(found(corpus, bilm, softmax, rows=11))


def test_chunks_of_logits_change_nothing(corpus, bilm, softmax, monkeypatch):
    whole = found(corpus, bilm, softmax)
    monkeypatch.setattr("stelmo.ops.losses.PLACES_TOGETHER", 3)
    monkeypatch.setattr("stelmo.ops.losses.WORDS_TOGETHER", 4)
    assert found(corpus, bilm, softmax) == pytest.approx(whole)


def test_about_as_many_words_are_read_as_asked(corpus, bilm, softmax):
    assert 20 <= found(corpus, bilm, softmax, tokens=20).predictions < 20 + 3 * 4


class Apart(Many):
    """One of several processes, which keeps its sums to itself."""

    def sum_(self, *tensors):
        self.sums = [tensor.clone() for tensor in tensors]
        for tensor in tensors:
            tensor.fill_(1.0)


@pytest.mark.parametrize("size", [2, 4])
def test_processes_share_the_rows_even_where_there_are_too_few(size, corpus, bilm, softmax):
    worlds = [Apart(rank, size) for rank in range(size)]
    for world in worlds:
        found(corpus, bilm, softmax, world)
    forward, backward, tokens = sum(world.sums[0] for world in worlds).tolist()
    whole = found(corpus, bilm, softmax)
    assert math.exp(forward / tokens) == pytest.approx(whole.forward)
    assert math.exp(backward / tokens) == pytest.approx(whole.backward)
    assert tokens == whole.predictions


@pytest.mark.parametrize("kind", tiny.WITHOUT_STATE)
@pytest.mark.parametrize("size", [1, 2, 40])
def test_encoders_without_a_state_read_whole_sentences(kind, size, corpus, softmax):
    """Whatever the windows and processes: the perplexity that the loaded model reports."""
    config = tiny.WITHOUT_STATE[kind]
    bilm, worlds = tiny.bilm(config, dtype=torch.float64), [Apart(rank, size) for rank in range(size)]
    for world in worlds:
        found(corpus, bilm, softmax, world)
    forward, backward, tokens = sum(world.sums[0] for world in worlds).tolist()
    saved = SavedModel(bilm, "test", corpus.vocabulary, read_softmax=lambda: softmax)
    sentences = Sentences(corpus.heldout)
    text = [corpus.words.words(sentences[number]) for number in range(len(sentences))]
    right = perplexity(Model(saved, LoadSettings(precision="float64")).log_probs(text))
    assert tokens == right.predictions
    assert math.exp(forward / tokens) == pytest.approx(right.forward)
    assert math.exp(backward / tokens) == pytest.approx(right.backward)

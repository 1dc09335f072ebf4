"""Perplexity on held-out sentences, against an evaluation word by word with the reference."""

import dataclasses
import math
from pathlib import Path

import corpora
import pytest
import tiny
import torch

from stelmo.corpus import folder as shards
from stelmo.corpus.prepare import prepare
from stelmo.corpus.windows import BEGIN, END, Sentences
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.lm.perplexity import perplexity
from stelmo.model.bilm import Softmax
from stelmo.ops import reference as ops
from stelmo.settings import LoadSettings, PrepareSettings
from stelmo.store.saved import SavedModel
from stelmo.text import chars
from stelmo.text.ids import Vocabulary
from stelmo.train.batches import Batches, word_ids
from stelmo.train.validation import ALL, measure_heldout, validate
from stelmo.train.world import Distributed, World


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
    assert 15 <= found(corpus, bilm, softmax, tokens=20).predictions < 20 + 3 * 4


class Apart(Distributed):
    """One of several processes, which keeps its sums to itself."""

    def all_reduce_(self, *tensors):
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


# By input file


TEXTS = {"first": 0, "empty": None, "second": 1}  # a seed each


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A corpus of three files, of which one is empty; the last word of a sentence is the name of its file."""
    folder = tmp_path_factory.mktemp("mixed")
    for name, seed in TEXTS.items():
        lines = corpora.sentences(80, seed) if seed is not None else []
        (folder / name).write_text("".join(f"{line} {name}\n" for line in lines))
    prepare([folder / name for name in TEXTS], folder / "corpus", PrepareSettings(format="tokens", heldout=25))
    return shards.read(folder / "corpus")


def language_model(words, config=tiny.CONFIG, **settings):
    """Every word of the vocabulary has a random row of the softmax."""
    head = Softmax(len(words), config.projection)
    head.reset(torch.Generator().manual_seed(3))
    head.requires_grad_(False)
    saved = SavedModel(tiny.bilm(config), "test", Vocabulary(tuple(words)), read_softmax=lambda: head)
    return Model(saved, LoadSettings(precision="float64", **settings))


def held_out_words(corpus):
    """The held-out sentences of each file, known by their last word."""
    sentences = Sentences(corpus.heldout)
    text = [corpus.words.words(sentences[number]) for number in range(len(sentences))]
    files = {file.name: Path(file.name).name for file in corpus.manifest.inputs}
    found = {name: [words for words in text if words[-1] == last] for name, last in files.items()}
    return {name: own for name, own in found.items() if own}


@pytest.mark.parametrize("known", [None, 20], ids=["the corpus's vocabulary", "a smaller one"])
@pytest.mark.parametrize("rows", [1, 4])
def test_each_file_has_the_perplexity_of_its_own_sentences(rows, known, mixed, tmp_path):
    """Against a corpus that has nothing but the sentences of one file, prepared with the model's vocabulary."""
    words = mixed.vocabulary.words[:known]
    model = language_model(words)
    rest = held_out_words(mixed)
    assert len(rest) == 2
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    expected = {}
    for name, text in {**rest, ALL: [line for own in rest.values() for line in own]}.items():
        path = tmp_path / f"{len(expected)}.tok"
        path.write_text("".join(f"{' '.join(line)}\n" for line in text))
        given = PrepareSettings(format="tokens", heldout=0, vocabulary=str(tmp_path / "vocab.txt"))
        prepare([path], path.with_suffix(""), given)
        alone = shards.read(path.with_suffix(""))
        batches = Batches(word_ids(tiny.CONFIG, None), alone.words, alone.targets_S)
        found = validate(model.bilm, model.softmax, Sentences(alone.train), batches, rows=rows, steps=5, world=World())
        expected[name] = (alone.manifest.train.tokens, alone.manifest.train.unknown, found)
    measured = measure_heldout(model, mixed, rows=rows)
    assert [part.file for part in measured] == list(expected)
    for part in measured:
        assert (part.words, part.unknown) == expected[part.file][:2]
        assert part.perplexity == pytest.approx(expected[part.file][2])
    assert measured[-1].unknown == mixed.manifest.heldout.unknown or known is not None


def test_the_last_figure_is_that_of_pretraining(mixed):
    model = language_model(mixed.vocabulary.words)
    batches = Batches(word_ids(tiny.CONFIG, None), mixed.words, mixed.targets_S)
    options = {"rows": 3, "steps": 20, "world": World()}
    assert measure_heldout(model, mixed, rows=3)[-1].perplexity == validate(
        model.bilm, model.softmax, Sentences(mixed.heldout), batches, **options
    )


@pytest.mark.parametrize("kind", tiny.WITHOUT_STATE)
def test_encoders_without_a_state_are_measured_by_file_too(kind, mixed):
    model = language_model(mixed.vocabulary.words, tiny.WITHOUT_STATE[kind])
    by_file = {part.file: part.perplexity for part in measure_heldout(model, mixed, rows=4)}
    for name, text in held_out_words(mixed).items():
        assert by_file[name] == pytest.approx(perplexity(model.log_probs(text)))


def test_a_limit_holds_for_each_figure_and_only_counts_what_was_read(mixed):
    model = language_model(mixed.vocabulary.words[:20])
    everything = measure_heldout(model, mixed, rows=2)
    for part, whole in zip(measure_heldout(model, mixed, rows=2, tokens=30), everything, strict=True):
        assert 20 <= part.perplexity.predictions < 30 + 2 * 20 < whole.perplexity.predictions
        assert 0 < part.words < part.perplexity.predictions
        assert 0 < part.unknown < whole.unknown


def test_of_one_file_the_figure_is_that_of_all(corpus):
    one, everything = measure_heldout(language_model(corpus.vocabulary.words), corpus, rows=3)
    assert one.file == corpus.manifest.inputs[0].name
    assert everything == one._replace(file=ALL)


def test_what_cannot_be_measured_is_refused(mixed):
    model, headless = language_model(mixed.vocabulary.words), tiny.saved(read_softmax=None)
    older = dataclasses.replace(mixed, manifest=mixed.manifest.model_copy(update={"by_input": None}))
    wrong = dataclasses.replace(mixed, manifest=mixed.manifest.model_copy(update={"by_input": ()}))
    with pytest.raises(DataError, match="prepare the text again"):
        measure_heldout(model, older, rows=2)
    with pytest.raises(DataError, match="does not add up"):
        measure_heldout(model, wrong, rows=2)
    with pytest.raises(DataError, match="no held-out sentences"):
        measure_heldout(model, dataclasses.replace(mixed, heldout=()), rows=2)
    with pytest.raises(ModelError, match="no softmax"):
        measure_heldout(Model(headless), mixed, rows=2)
    with pytest.raises(DataError, match="no line </S>"):
        measure_heldout(language_model(["<S>", "<UNK>"]), mixed, rows=2)
    with pytest.raises(ConfigError, match="int8"):
        measure_heldout(tiny.model(precision="int8"), mixed, rows=2)

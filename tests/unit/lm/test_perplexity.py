"""Perplexity over streams of sentences: by hand on a toy model, counts included, whatever the blocks."""

import numpy as np
import pytest
import tiny
import toy_lm

from stelmo.embed.model import Model
from stelmo.lm import perplexity as streams
from stelmo.text.formats import Sentence

TOKENS = [["the", "bank", "."], ["a", "quokka", "<UNK>", "."], [], ["the", "river"]]
SENTENCES = [Sentence(tokens, "file", line) for line, tokens in enumerate(TOKENS, 1)]


@pytest.fixture(scope="module")
def model():
    return tiny.model(precision="float64")


def total(model, sentences=SENTENCES, **options):
    return sum((result.tally for result in streams.scored(model, sentences, **options)), streams.Tally())


def test_a_model_worked_out_by_hand_has_the_perplexity_of_that_arithmetic():
    """P(word) is known without any network: every count and every figure follows on paper."""
    found = total(Model(toy_lm.saved({"the": 0.5, "bank": 0.125, "</S>": 0.125, "<S>": 0.0625, "<UNK>": 0.1875})))
    # forwards: the bank . → the, bank and . (unknown), </S>; a quokka <UNK> . → four unknown, </S>; the river → 1 + 1
    forward = [0.5, 0.125, 0.1875, 0.125, *[0.1875] * 4, 0.125, 0.5, 0.1875, 0.125]
    backward = [0.5, 0.125, 0.1875, 0.0625, *[0.1875] * 4, 0.0625, 0.5, 0.1875, 0.0625]
    assert (found.sentences, found.words, found.unknown) == (3, 9, 6)
    assert found.all.predictions == 12
    assert found.all.forward == pytest.approx(np.prod(forward) ** (-1 / 12))
    assert found.all.backward == pytest.approx(np.prod(backward) ** (-1 / 12))
    assert found.all.combined == pytest.approx(np.prod(forward + backward) ** (-1 / 24))
    assert found.known.predictions == 6
    assert found.known.forward == pytest.approx(np.prod([0.5, 0.125, 0.5, *[0.125] * 3]) ** (-1 / 6))
    assert found.known.backward == pytest.approx(np.prod([0.5, 0.125, 0.5, *[0.0625] * 3]) ** (-1 / 6))


def test_the_geometric_mean_combines_the_directions(model):
    found = total(model)
    assert found.all.combined == pytest.approx(np.sqrt(found.all.forward * found.all.backward))
    assert found.known.combined == pytest.approx(np.sqrt(found.known.forward * found.known.backward))


def test_a_stream_scores_as_all_sentences_at_once_whatever_the_blocks(model, monkeypatch):
    expected = streams.perplexity(model.log_probs([tokens for tokens in TOKENS if tokens]))
    assert total(model).all == pytest.approx(expected)
    monkeypatch.setattr(streams, "BLOCK_TOKENS", 1)
    assert total(model).all == pytest.approx(expected)


def test_sentences_come_in_order_and_those_without_a_word_are_left_out(model):
    results = list(streams.scored(model, SENTENCES))
    assert [result.sentence.line for result in results] == [1, 2, 4]
    assert [(result.tally.words, result.tally.unknown) for result in results] == [(3, 0), (4, 2), (2, 0)]


def test_only_a_block_of_the_stream_is_read_ahead(model, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_TOKENS", 3)
    read = []
    source = (read.append(sentence) or sentence for sentence in SENTENCES)
    next(streams.scored(model, source))
    assert len(read) == 1


def test_finished_tokens_are_told(model):
    told = []
    total(model, advance=told.append)
    assert sum(told) == 9


def test_the_state_can_be_chosen(model):
    assert total(model, state="fresh").forward != pytest.approx(total(model, state="warm").forward)


def test_impossible_words_are_infinitely_surprising():
    found = streams.Perplexity.of(-1e6, -1.0, 1)
    assert (found.forward, found.backward, found.combined) == (np.inf, pytest.approx(np.e), np.inf)

"""Gaps: where they are, and words that fit all of them together."""

import pytest
import tiny

from stelmo.errors import DataError
from stelmo.lm import gaps
from stelmo.lm import probabilities as lm

MODEL = tiny.model(precision="float64")


def test_gaps_are_tokens_of_three_or_more_underscores():
    assert gaps.find(["The", "___", "_", "__", "_____", "."]) == [1, 4]
    assert gaps.find([]) == []


@pytest.mark.parametrize("token", ["un___able", "___ed", "a___"])
def test_a_gap_inside_a_word_is_refused(token):
    with pytest.raises(DataError, match="whole word"):
        gaps.find(["is", token])


def test_one_gap_has_the_guesses_of_its_place():
    (found,) = gaps.fill(MODEL, ["the", "___", "."], [1], 4)
    assert found == lm.guesses(MODEL, MODEL.softmax, ["the", "x", "."], 1, 4)
    assert len(found.both) == 4


def test_several_gaps_read_the_best_words_of_each_other():
    tokens, places = ["the", "___", "a", "___", "."], [1, 3]
    found = gaps.fill(MODEL, tokens, places, 3)
    for place, guesses in zip(places, found, strict=True):
        tokens[place] = guesses.both[0].word
    for place, guesses in zip(places, found, strict=True):
        assert guesses == lm.guesses(MODEL, MODEL.softmax, tokens, place, 3)


def test_words_that_never_come_to_rest_are_left_after_some_rounds(monkeypatch):
    turns = []
    best = lm.guesses(MODEL, MODEL.softmax, ["the", "bank"], 0)

    def restless(model, softmax, tokens, gap, k, state):
        turns.append(gap)
        return best._replace(both=[best.both[0]._replace(word=f"word {len(turns)}")])

    monkeypatch.setattr(lm, "guesses", restless)
    gaps.fill(MODEL, ["___", "___"], [0, 1])
    assert turns == [0, 1] * gaps.ROUNDS

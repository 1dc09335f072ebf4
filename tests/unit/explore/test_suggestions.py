"""Words to begin with, and words spelled alike."""

import numpy as np
import pytest
import tiny
from unit.explore.toys import CONTEXTS, TOPICS, index_of, random_index

from stelmo.explore import index as indices
from stelmo.explore import suggestions
from stelmo.store import uses as store
from stelmo.store.uses import Manifest, Sentence


def clouds(distance, rng):
    """(24, 3, 16): uses in two clouds that far apart on the top layer."""
    layers_NLD = rng.normal(size=(24, 3, 16))
    layers_NLD[:12, 2, 0] += distance
    layers_NLD[12:, 2, 0] -= distance
    return layers_NLD


def test_the_best_separated_words_come_first_and_function_words_never(tmp_path):
    rng = np.random.default_rng(0)
    words = {"bank": 3, "rock": 30, "play": 8, "house": 0, "the": 50}
    layers_NLD = np.concatenate([clouds(distance, rng) for distance in words.values()])
    index = index_of(tmp_path / "uses", [word for word in words for _ in range(24)], layers_NLD)
    assert suggestions.separating(index, 9) == ["rock", "play", "bank", "house"]
    assert suggestions.separating(index, 2) == ["rock", "play"]


def test_with_context_vectors_the_words_around_the_uses_count(tmp_path):
    """On the top layer "rock" separates; by the words around them only "bank" does."""
    rng = np.random.default_rng(0)
    money, river = ([f"{topic}{n}" for n in numbers] for topic, numbers in TOPICS.items())
    banks = [["bank", *rng.choice(money if n < 12 else river, 5)] for n in range(24)]
    rocks = [["rock", *rng.permutation([*money, *river])[:5]] for n in range(24)]
    layers_NLD = np.concatenate([clouds(0, rng), clouds(30, rng)]).astype(np.float16)
    store.prepare(tmp_path / "uses", Manifest(model="toy", settings={}, depth=3, width=16))
    with store.writing(tmp_path / "uses") as writer:
        writer.add([Sentence(tuple(tokens), (0,)) for tokens in [*banks, *rocks]], layers_NLD)
    index = indices.open(tmp_path / "uses")
    assert suggestions.separating(index, 2) == ["rock", "bank"]
    assert suggestions.separating(index, 2, CONTEXTS) == ["bank", "rock"]


def test_words_are_kept_when_an_index_is_made_and_again_when_it_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(suggestions, "FEWEST", 2)
    counted = []
    original = suggestions.separating
    monkeypatch.setattr(suggestions, "separating", lambda *given: (counted.append(1), original(*given))[1])
    model = tiny.model()
    sentences = [["the", "bank"], ["a", "bank"], ["a", "river"], ["the", "river", "bank"]]
    found = indices.build(model, sentences, tmp_path / "uses")
    assert sorted(suggestions.suggested(found, 9)) == ["bank", "river"]
    indices.build(model, sentences, tmp_path / "uses")
    assert len(counted) == 1
    grown = indices.build(model, [["über", "bank"], ["über", "river"]], tmp_path / "uses")
    assert len(counted) == 2
    assert sorted(suggestions.suggested(grown, 9)) == ["bank", "river", "über"]
    assert len(suggestions.suggested(grown, 1)) == 1
    assert len(counted) == 2


@pytest.mark.parametrize("damaged", ["", "{", '{"uses": 4, "words": ["zzz"]}', '{"uses": 3, "words": []}'])
def test_an_index_without_them_or_with_others_has_them_computed(tmp_path, monkeypatch, damaged):
    monkeypatch.setattr(suggestions, "FEWEST", 2)
    found = indices.build(tiny.model(), [["the", "bank"], ["a", "bank"]], tmp_path / "uses")
    assert len(found) == 4
    (tmp_path / "uses" / "suggested.json").write_text(damaged)
    assert suggestions.suggested(found, 9) == ["bank"]
    (tmp_path / "uses" / "suggested.json").unlink()
    assert suggestions.suggested(found, 9) == ["bank"]


def test_two_outliers_are_not_a_meaning(tmp_path):
    rng = np.random.default_rng(1)
    outlying = rng.normal(size=(24, 3, 16))
    outlying[:2, 2, 0] += 100
    layers_NLD = np.concatenate([outlying, clouds(3, rng)])
    index = index_of(tmp_path / "uses", ["bank"] * 24 + ["rock"] * 24, layers_NLD)
    assert suggestions.separating(index, 2) == ["rock", "bank"]


def test_rare_words_are_not_suggested(tmp_path):
    assert suggestions.separating(random_index(tmp_path / "uses", ["bank"] * 19), 5) == []


@pytest.mark.parametrize(
    ("typed", "best"), [("bnak", "bank"), ("Rivers", "river"), ("rivver", "river"), ("bank", "bank")]
)
def test_a_misspelled_word_finds_the_one_that_was_meant(tmp_path, typed, best):
    index = random_index(tmp_path / "uses", ["bank", "bank", "back", "bark", "river", "zebra"])
    assert suggestions.similar(index, typed, 3)[0] == best


def test_a_word_like_no_other_finds_none(tmp_path):
    assert suggestions.similar(random_index(tmp_path / "uses", ["bank", "river"]), "zzz", 3) == []

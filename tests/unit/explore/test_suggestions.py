"""Words to begin with, and words spelled alike."""

import numpy as np
import pytest
from unit.explore.toys import index_of, random_index

from stelmo.explore import suggestions


def clouds(distance, rng):
    """(24, 3, 16): uses in two clouds that far apart on the top layer."""
    layers_NLD = rng.normal(size=(24, 3, 16))
    layers_NLD[:12, 2, 0] += distance
    layers_NLD[12:, 2, 0] -= distance
    return layers_NLD


def test_ambiguous_words_come_first_and_the_best_separated_first_of_all(tmp_path):
    rng = np.random.default_rng(0)
    words = {"bank": 3, "rock": 30, "play": 8, "house": 40, "the": 50}
    layers_NLD = np.concatenate([clouds(distance, rng) for distance in words.values()])
    index = index_of(tmp_path / "uses", [word for word in words for _ in range(24)], layers_NLD)
    assert suggestions.separating(index, 9) == ["rock", "play", "bank", "house"]
    assert suggestions.separating(index, 2) == ["rock", "play"]


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

"""One word in several sentences: which word, and how similar its uses are."""

import numpy as np
import pytest

from stelmo.embed.contrast import contrast, shared_word


@pytest.mark.parametrize(
    ("sentences", "vocabulary", "word"),
    [
        (["the bank .", "the bank ."], ["the", "bank", "."], "bank"),  # the rarer of two
        (["the bank .", "the bank ."], None, "bank"),  # the longer of two
        (["the bank", "the river", "the sea bank"], ["the", "bank"], "the"),  # in most sentences
        (["a b", "c d"], None, None),
        ([". .", ". ."], None, None),
        (["the bank"], None, None),
    ],
)
def test_the_shared_word_is_the_one_worth_comparing(sentences, vocabulary, word):
    assert shared_word([sentence.split() for sentence in sentences], vocabulary) == word


@pytest.mark.parametrize(("size", "word"), [(99, "the"), (100, None), (50_000, None)])
def test_the_most_frequent_words_of_a_vocabulary_are_not_compared(size, word):
    vocabulary = ["the", *(f"w{number}" for number in range(size - 1))]
    assert shared_word([["the", "cat"], ["the", "dog"]], vocabulary) == word


SENTENCES = [["bank", "a"], ["the", "bank"], ["bank", "bank"], ["b", "bank", "c"]]


def random_layers(seed=0):
    chance = np.random.default_rng(seed)
    return [chance.normal(size=(3, len(tokens), 5)) for tokens in SENTENCES]


def test_every_pair_of_uses_has_its_cosine_in_each_layer():
    layers = random_layers()
    found = contrast("bank", SENTENCES, layers)
    assert sorted(pair[:2] for pair in found.pairs) == [(0, 1), (0, 3), (1, 3)]  # the third has the word twice
    places = {0: 0, 1: 1, 3: 1}
    for first, second, cosines_L in found.pairs:
        left, right = layers[first][:, places[first]], layers[second][:, places[second]]
        for layer in range(3):
            a, b = left[layer], right[layer]
            assert cosines_L[layer] == pytest.approx(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("seed", range(5))
def test_the_layer_with_the_widest_range_orders_the_pairs(seed):
    found = contrast("bank", SENTENCES, random_layers(seed))
    cosines_PL = np.stack([pair.cosines_L for pair in found.pairs])
    ranges_L = cosines_PL.max(0) - cosines_PL.min(0)
    assert ranges_L[found.layer] == ranges_L.max() == found.separation
    assert (np.diff(cosines_PL[:, found.layer]) <= 0).all()


def test_of_two_uses_it_is_the_layer_where_they_are_least_similar():
    found = contrast("bank", SENTENCES[:2], random_layers()[:2])
    assert found.layer == found.pairs[0].cosines_L.argmin()
    assert found.separation == 0


def test_the_order_of_sentences_changes_only_their_numbers():
    layers = random_layers()
    there, back = contrast("bank", SENTENCES, layers), contrast("bank", SENTENCES[::-1], layers[::-1])
    assert back.layer == there.layer
    for one, other in zip(there.pairs, back.pairs, strict=True):
        assert {3 - one.first, 3 - one.second} == {other.first, other.second}
        assert one.cosines_L == pytest.approx(other.cosines_L)


def test_half_precision_and_a_vector_of_zeros_are_compared():
    layers = [layer.astype(np.float16) for layer in random_layers()]
    layers[0][:] = 0
    found = contrast("bank", SENTENCES, layers)
    assert all(np.isfinite(pair.cosines_L).all() for pair in found.pairs)

"""Vectors of the words around a use: what they depend on, and that meanings separate by them."""

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from stelmo.embed.model import Model
from stelmo.explore.clusters import clusters
from stelmo.explore.contexts import HALF, Contexts, of_model
from stelmo.explore.index import Use
from stelmo.text.vocabulary import Vocabulary

TOPICS = {"money": range(0, 20), "river": range(20, 40)}
WORDS = ["<S>", "</S>", "<UNK>", "the", *(f"{topic}{n}" for topic, numbers in TOPICS.items() for n in numbers)]
RARE = [f"rare{n}" for n in range(400)]


def rows():
    """A direction for each topic, one that all words share, and noise."""
    rng = np.random.default_rng(0)
    rows_VP = 0.3 * rng.normal(size=(len(WORDS) + len(RARE), 6)) + 3 * np.eye(6)[5]
    for number, word in enumerate(WORDS):
        rows_VP[number] += 3 * np.eye(6)[0] * word.startswith("money") + 3 * np.eye(6)[1] * word.startswith("river")
    return rows_VP


CONTEXTS = Contexts(Vocabulary.of([*WORDS, *RARE]), rows())


def use(text, position=0):
    return Use(0, tuple(text.split()), position)


def test_meanings_with_different_words_around_them_separate():
    rng = np.random.default_rng(1)
    uses = [
        use(" ".join(["bank", "the", *(f"{topic}{n}" for n in rng.choice(TOPICS[topic], 4))]))
        for topic in ("money",) * 30 + ("river",) * 20
    ]
    np.testing.assert_array_equal(clusters(CONTEXTS.vectors(uses)), [0] * 30 + [1] * 20)


def test_the_vector_is_the_mean_of_the_words_weighted_by_rank():
    units_VP = CONTEXTS._units_VP
    first, second = WORDS.index("money3"), WORDS.index("river25")
    expected_P = first / (first + HALF) * units_VP[first] + second / (second + HALF) * units_VP[second]
    (found_P,) = CONTEXTS.vectors([use("bank money3 river25")])
    np.testing.assert_allclose(found_P, expected_P / np.linalg.norm(expected_P), rtol=1e-5)


def test_the_direction_that_all_words_share_is_removed():
    assert abs(CONTEXTS._units_VP.mean(0)[5]) < 0.1


@given(order=st.permutations(["bank", "money3", "the", "river25", "rare7"]))
def test_the_order_of_the_words_does_not_count(order):
    one, other = CONTEXTS.vectors([use("bank money3 the river25 rare7"), use(" ".join(order), order.index("bank"))])
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("more", ["Bank", "unheard-of", "12 , .", "bank"])
def test_the_word_itself_unknown_words_and_marks_do_not_count(more):
    one, other = CONTEXTS.vectors([use("bank money3"), use(f"bank money3 {more}")])
    np.testing.assert_array_equal(one, other)


def test_a_word_that_the_vocabulary_has_in_lower_case_only_is_known():
    one, other = CONTEXTS.vectors([use("bank Money3"), use("bank money3")])
    np.testing.assert_array_equal(one, other)


def test_a_use_without_known_words_around_it_is_zero():
    np.testing.assert_array_equal(CONTEXTS.vectors([use("bank"), use("bank ?")]), np.zeros((2, 6)))


def test_a_models_words_are_the_rows_of_its_softmax():
    model = tiny.model()
    expected = Contexts(model.vocabulary, model.softmax.weight.detach().numpy())
    uses = [use(f"bank {word}") for word in model.vocabulary]
    np.testing.assert_array_equal(of_model(model).vectors(uses), expected.vectors(uses))
    assert np.abs(expected.vectors(uses)).max() > 0.1


@pytest.mark.parametrize("missing", ["read_softmax", "vocabulary"])
def test_a_model_without_a_softmax_or_a_vocabulary_has_no_contexts(missing):
    assert of_model(Model(tiny.saved(**{missing: None}))) is None

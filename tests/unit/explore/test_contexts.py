"""What a language model says of uses: vectors of the words around them, and substitutes, against brute force."""

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from unit.explore.toys import CONTEXTS, TOPICS, WORDS

import stelmo
from stelmo.embed.model import Model
from stelmo.explore import contexts
from stelmo.explore.clusters import clusters
from stelmo.explore.contexts import HALF, Contexts, is_form_of, of_model, substitutes
from stelmo.explore.index import Use
from stelmo.lm import probabilities as lm


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


def brute_force(model, groups, count, left_out):
    """Substitutes by the log-probability of every word at every use, in both directions."""
    means = []
    for uses in groups:
        found = lm.candidates(model, model.softmax, [use.tokens for use in uses], len(model.vocabulary), markers=True)
        logs_NV = np.zeros((len(uses), len(model.vocabulary)))
        for row_V, use, directions in zip(logs_NV, uses, found, strict=True):
            for direction in directions:
                row_V[direction.ids[use.position]] += direction.log_probs[use.position] / 2
        means.append(logs_NV.mean(0))
    listed = []
    for number, mean_V in enumerate(means):
        others_V = np.mean([other for place, other in enumerate(means) if place != number], 0)
        ranked = [word for word in np.argsort(-mean_V) if model.vocabulary.words[word] not in left_out]
        best = sorted(ranked[: contexts.LIKELY], key=lambda word: -(mean_V - others_V)[word])
        listed.append([model.vocabulary.words[word] for word in best[:count]])
    return listed


@pytest.mark.parametrize("name", tiny.ENCODERS)
def test_substitutes_are_those_of_brute_force(name, monkeypatch):
    monkeypatch.setattr(contexts, "LIKELY", 4)
    model = tiny.model(tiny.ENCODERS[name])
    groups = [
        [use("the river bank .", 2), use("a bank über the river", 1)],
        [use("bank bank", 1), use("日本 the bank", 2), use("bank", 0)],
        [use("a a a bank a", 3)],
    ]
    left_out = {*contexts.MARKERS, "bank", "the", "a", "."}
    found = substitutes(model, groups)
    assert found == brute_force(model, groups, 3, left_out)
    assert all(len(words) == 3 for words in found)


def test_the_bundled_model_expects_other_words_by_a_river_than_in_the_city():
    model = stelmo.load()
    groups = [
        [use(text, text.split().index("bank")) for text in texts]
        for texts in (
            [
                "The town lies on the east bank of the river .",
                "They built a castle on the left bank of the Rhine .",
                "The village is on the southern bank of the lake .",
            ],
            [
                "He worked for a bank in London before the war .",
                "The bank was founded in 1901 by two brothers .",
                "She borrowed money from a bank to buy the company .",
            ],
        )
    ]
    river, money = substitutes(model, groups, 5)
    assert {"shore", "coast", "side", "edge"} & set(river)
    assert not set(river) & set(money)
    assert not any(is_form_of(word.lower(), "bank") for word in [*river, *money])


@pytest.mark.parametrize("missing", ["read_softmax", "vocabulary"])
def test_without_a_softmax_or_with_one_group_there_are_no_substitutes(missing):
    groups = [[use("the bank", 1)], [use("a bank", 1)]]
    assert substitutes(Model(tiny.saved(**{missing: None})), groups) == [[], []]
    assert substitutes(tiny.model(), groups[:1]) == [[]]


def test_of_many_or_long_sentences_some_are_asked(monkeypatch):
    asked = []
    original = lm.predicting_at

    def counted(model, sentences, positions):
        asked.append(sum(map(len, sentences)))
        return original(model, sentences, positions)

    monkeypatch.setattr(lm, "predicting_at", counted)
    monkeypatch.setattr(contexts, "ASKED_TOKENS", 60)
    substitutes(tiny.model(), [[use("the bank .", 1)] * 100, [use("a river bank .", 2)] * 3])
    assert asked == [10 * 3 + 3 * 4]  # 40, 20, then 10 of the first group


@pytest.mark.parametrize("word", ["bank", "banks", "banked", "banking", "bankers"])
def test_inflected_forms_are_recognised(word):
    assert is_form_of(word, "bank")


@pytest.mark.parametrize(("word", "other"), [("bar", "bank"), ("river", "bank"), ("a", "an"), ("", "bank")])
def test_other_words_are_not(word, other):
    assert not is_form_of(word, other)


def test_a_final_letter_may_change():
    assert is_form_of("parties", "party")
    assert is_form_of("noting", "note")

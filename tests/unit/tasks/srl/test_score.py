"""The figures of srl-eval.pl, against seqeval where both say the same, and by hand."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score

from stelmo.tasks.srl.data import Example
from stelmo.tasks.srl.score import arguments, score

TAG = st.sampled_from(["O", "B-V", "I-V", "B-ARG0", "I-ARG0", "B-R-ARG0", "B-ARGM-TMP", "I-ARGM-TMP"])
PAIRS = st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=8), min_size=1, max_size=4)


def figures(predicted, wanted):
    examples = [Example(tuple("w" * len(tags.split())), 0, "", tuple(tags.split()), "") for tags in wanted]
    return score([tuple(tags.split()) for tags in predicted], examples)


def without_predicates(tags):
    return ["O" if tag.endswith("-V") else tag for tag in tags]


@settings(deadline=None)
@given(PAIRS)
def test_without_continuations_the_figures_are_those_of_seqeval_without_v(pairs):
    sides = ([[pair[side] for pair in rows] for rows in pairs] for side in (0, 1))
    wanted, predicted = sides
    ours = figures([" ".join(tags) for tags in predicted], [" ".join(tags) for tags in wanted])
    plain = [[without_predicates(tags) for tags in side] for side in (wanted, predicted)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on 0/0
        theirs = [100 * figure(*plain, zero_division=0) for figure in (f1_score, precision_score, recall_score)]
    assert [ours["f1"], ours["precision"], ours["recall"]] == pytest.approx(theirs)


def test_by_hand():
    wanted = ["B-ARG0 B-V B-ARG1 I-ARG1 B-ARGM-TMP", "B-V B-ARG1 O O O"]
    predicted = ["B-ARG0 B-V B-ARG1 O B-ARGM-TMP", "B-V B-ARG1 O O B-ARG2"]
    # right: ARG0, TMP; ARG1. predicted 3 + 2, wanted 3 + 1: P = 3/5, R = 3/4, F1 = 2·3/9; no frame is perfect
    assert figures(predicted, wanted) == pytest.approx({"f1": 600 / 9, "precision": 60, "recall": 75, "perfect": 0})


def test_the_predicate_is_not_counted_but_the_rest_is():
    assert figures(["O B-ARG1"], ["B-V B-ARG1"]) == {"f1": 100, "precision": 100, "recall": 100, "perfect": 100}


def test_a_continuation_belongs_to_the_argument_before_it():
    assert arguments(["B-ARG1", "I-ARG1", "B-V", "B-C-ARG1", "O", "B-ARG0"]) == {
        ("ARG1", ((0, 2), (3, 4))),
        ("ARG0", ((5, 6),)),
    }


def test_an_argument_with_a_piece_missing_or_too_many_is_wrong_as_a_whole():
    whole, without = "B-ARG1 B-V B-C-ARG1", "B-ARG1 B-V O"
    # one argument each; were C-ARG1 a role of its own, one of two would be right
    assert figures([without], [whole])["f1"] == 0.0
    assert figures([whole], [without])["f1"] == 0.0
    assert figures([whole], [whole])["f1"] == 100.0


def test_a_continuation_joins_the_last_argument_of_its_role():
    assert arguments(["B-ARG1", "B-ARG1", "B-V", "B-C-ARG1", "B-C-ARG1"]) == {
        ("ARG1", ((0, 1),)),
        ("ARG1", ((1, 2), (3, 4), (4, 5))),
    }


def test_a_continuation_of_nothing_is_an_argument_like_any_other():
    assert figures(["B-C-ARG1 B-V"], ["B-ARG1 B-V"])["f1"] == 100.0


def test_a_continued_predicate_is_not_counted_either():
    assert arguments(["B-V", "O", "B-C-V"]) == set()


def test_a_reference_is_a_role_of_its_own():
    assert figures(["B-ARG0 B-R-ARG0 B-V"], ["B-ARG0 O B-V"])["precision"] == 50.0


def test_the_headline_comes_first():
    assert next(iter(figures(["B-V"], ["B-V"]))) == "f1"

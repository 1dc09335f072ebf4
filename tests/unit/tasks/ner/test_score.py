"""conlleval's figures, against seqeval and by hand."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

from stelmo.tasks.ner.data import Example
from stelmo.tasks.ner.score import score
from stelmo.tasks.spans import bio, spans

TAG = st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "B-a-b"])
PAIRS = st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=8), min_size=1, max_size=4)
KINDS = ("precision", "recall", "f1-score")


def figures(predicted, wanted):
    examples = [Example(tuple("w" * len(tags)), tuple(tags), "") for tags in wanted]
    return score([tuple(tags) for tags in predicted], examples)


def by_seqeval(predicted, wanted, **settings):
    """Its report in our names: overall, and for each type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on 0/0
        report = classification_report(wanted, predicted, output_dict=True, zero_division=0, **settings)
    rows = {"": report["micro avg"]} | {f"{key} ": row for key, row in report.items() if not key.endswith(" avg")}
    return {f"{key}{kind.removesuffix('-score')}": 100 * row[kind] for key, row in rows.items() for kind in KINDS}


@settings(deadline=None)
@given(PAIRS.filter(lambda pairs: any(tag != "O" for rows in pairs for pair in rows for tag in pair)))
def test_any_tags_score_as_in_seqeval(pairs):
    wanted, predicted = ([[pair[side] for pair in rows] for rows in pairs] for side in (0, 1))
    ours = figures(predicted, wanted)
    ours.pop("accuracy")
    assert ours == pytest.approx(by_seqeval(predicted, wanted))


@settings(deadline=None)
@given(PAIRS.filter(lambda pairs: any(tag != "O" for rows in pairs for pair in rows for tag in pair)))
def test_well_formed_tags_score_as_in_seqeval_when_it_is_strict(pairs):
    sides = ([[pair[side] for pair in rows] for rows in pairs] for side in (0, 1))
    wanted, predicted = ([bio(spans(tags), len(tags)) for tags in side] for side in sides)
    ours = figures(predicted, wanted)
    ours.pop("accuracy")
    assert ours == pytest.approx(by_seqeval(predicted, wanted, mode="strict", scheme=IOB2))


def test_by_hand():
    wanted = [["B-PER", "I-PER", "O", "B-LOC", "O"], ["B-PER", "O", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-ORG", "O"], ["B-PER", "I-PER", "O"]]
    # predicted 3 (PER, ORG, PER too long), wanted 3, right 1: P = R = F1 = 1/3; PER: 1 of 2; tokens: 6 of 8
    third = pytest.approx(100 / 3)
    assert figures(predicted, wanted) == {
        "f1": third, "precision": third, "recall": third, "accuracy": 75.0,
        "LOC f1": 0.0, "LOC precision": 0.0, "LOC recall": 0.0,
        "ORG f1": 0.0, "ORG precision": 0.0, "ORG recall": 0.0,
        "PER f1": 50.0, "PER precision": 50.0, "PER recall": 50.0,
    }  # fmt: skip


def test_an_i_after_o_begins_an_entity_as_in_conlleval():
    assert figures([["O", "I-X", "I-X"]], [["O", "B-X", "I-X"]])["f1"] == 100.0


def test_an_i_of_another_type_ends_one_entity_and_begins_another():
    # predicted X(0) Y(1), wanted X(0,1): P 0/2, R 0/1
    assert figures([["B-X", "I-Y"]], [["B-X", "I-X"]])["f1"] == 0.0
    # predicted X(0) Y(1), wanted the same
    assert figures([["B-X", "I-Y"]], [["B-X", "B-Y"]])["f1"] == 100.0


def test_the_headline_comes_first():
    assert next(iter(figures([["O"]], [["O"]]))) == "f1"

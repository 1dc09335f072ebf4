"""Tags and spans are two ways to say one thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.tasks.spans import Span, Tally, bio, first_not_bio, first_not_iob1, is_tag, spans

TAGS = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), max_size=12)


def iob1(found, length):
    """The other scheme, for the round trip: B- only where a span touches one of its label."""
    tags = ["O"] * length
    for start, end, label in found:
        touches = start > 0 and tags[start - 1][2:] == label
        tags[start:end] = [f"{'B' if touches else 'I'}-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


@given(TAGS)
def test_spans_written_as_bio_or_iob1_are_read_back(tags):
    found = spans(tags)
    assert spans(bio(found, len(tags))) == found
    assert spans(iob1(found, len(tags))) == found


@given(TAGS)
def test_each_scheme_agrees_with_its_own_tags(tags):
    assert first_not_bio(bio(spans(tags), len(tags))) is None
    assert first_not_iob1(iob1(spans(tags), len(tags))) is None


@given(TAGS)
def test_bio_tags_without_a_mistake_are_already_what_their_spans_say(tags):
    assert (bio(spans(tags), len(tags)) == tags) == (first_not_bio(tags) is None)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O I-X I-X", [Span(1, 3, "X")]),  # I- after O begins
        ("B-X I-Y", [Span(0, 1, "X"), Span(1, 2, "Y")]),  # I- of another label begins
        ("I-X B-X I-X", [Span(0, 1, "X"), Span(1, 3, "X")]),  # B- always begins
        ("B-a-b I-a-b", [Span(0, 2, "a-b")]),  # a label may hold hyphens
        ("I-X O I-X", [Span(0, 1, "X"), Span(2, 3, "X")]),
    ],
)
def test_spans_are_those_of_conlleval(tags, expected):
    assert spans(tags.split()) == expected


def test_the_first_mistake_is_found():
    assert first_not_bio(["B-X", "O", "I-X"]) == 2
    assert first_not_bio(["B-X", "I-Y"]) == 1
    assert first_not_iob1(["I-X", "B-X", "O", "B-X"]) == 3


def test_what_a_tag_is():
    assert [text for text in ("O", "B-X", "I-a-b", "", "B-", "X", "S-X", "B-a b", "o") if is_tag(text)] == [
        "O",
        "B-X",
        "I-a-b",
    ]


def test_overlapping_spans_are_our_own_mistake():
    with pytest.raises(AssertionError, match="overlap"):
        bio([Span(0, 2, "X"), Span(1, 3, "Y")], 3)


def test_precision_recall_and_f1():
    tally = Tally().counting({1, 2, 3, 4}, {3, 4, 5}).counting(set(), {6})
    # 2 of 4 predicted are right, 2 of 4 wanted are found: P = R = F1 = 50
    assert (tally.precision, tally.recall, tally.f1) == (50.0, 50.0, 50.0)
    assert Tally(correct=1, predicted=1, wanted=3).f1 == pytest.approx(2 * 100 * (100 / 3) / (100 + 100 / 3))


def test_nothing_out_of_nothing_is_zero():
    assert (Tally().precision, Tally().recall, Tally().f1) == (0.0, 0.0, 0.0)

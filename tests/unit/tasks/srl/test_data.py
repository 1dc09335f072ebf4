"""Frames from JSON lines and from columns, their brackets and their flaws."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import DATA, needs_data
from unit.tasks.samples import SRL_2012, SRL_JSON, SRL_PROPBANK

from stelmo.errors import DataError
from stelmo.tasks import reading
from stelmo.tasks.reading import Skipped
from stelmo.tasks.spans import bio, spans
from stelmo.tasks.srl.data import FILES, Example, read, read_predictions, write

ROLE = st.sampled_from(["O", "B-ARG0", "I-ARG0", "B-C-ARG0", "B-R-ARG0", "B-V", "I-V"])
shares_a_path = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_text(tmp_path, text, skipped=None):
    (tmp_path / "f").write_text(text, encoding="utf-8")
    return read(tmp_path / "f", skipped)


@pytest.mark.parametrize("text", [SRL_JSON, SRL_PROPBANK, SRL_2012], ids=["json", "propbank", "conll-2012"])
def test_every_layout_says_the_same_one_example_a_frame(tmp_path, text):
    assert [example._replace(where="") for example in read_text(tmp_path, text)] == [
        Example(("Kim", "said", "we", "won"), 1, "say", ("B-ARG0", "B-V", "B-ARG1", "I-ARG1"), ""),
        Example(("Kim", "said", "we", "won"), 3, "win", ("O", "O", "B-ARG0", "B-V"), ""),
        Example(("Rain", "fell"), 1, "", ("B-ARG1", "B-V"), ""),
    ]


def test_a_frame_knows_the_line_of_its_sentence(tmp_path):
    assert [example.where for example in read_text(tmp_path, SRL_JSON)] == [f"{tmp_path}/f:{n}" for n in (1, 1, 3)]
    assert [example.where for example in read_text(tmp_path, SRL_2012)] == [f"{tmp_path}/f:{n}" for n in (2, 2, 10)]


def test_a_folder_of_ontonotes_is_read_as_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.v4_gold_conll").write_text(SRL_2012)
    assert len(read(tmp_path)) == 6


def columns(*brackets):
    """A sentence of PropBank columns, a string of brackets a word."""
    rows = [["d", str(n), f"w{n}", "NN", "*", "-", "-", *cells.split()] for n, cells in enumerate(brackets)]
    return "".join("\t".join(row) + "\n" for row in rows) + "\n"


FINE = columns("(ARG0*)", "(V*)")


def test_arguments_of_two_frames_may_nest_and_cross_between_columns(tmp_path):
    first, second = read_text(tmp_path, columns("(A* (V*)", "* (B*", "*) *", "(V*) *)"))
    assert first.tags == ("B-A", "I-A", "I-A", "B-V")
    assert second.tags == ("B-V", "B-B", "I-B", "I-B")


def test_touching_arguments_of_one_role_stay_apart(tmp_path):
    (example,) = read_text(tmp_path, columns("(A*)", "(A*)", "(V*", "*)"))
    assert example.tags == ("B-A", "B-A", "B-V", "I-V")
    assert example.predicate == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (columns("(A*", "(B*", "*)", "(V*)"), "f:2: (B* inside (A* in column 8; expected *) before it"),
        (columns("(A(B*", "*))", "(V*)"), "f:1: '(A(B*' in column 8; expected (ROLE*, *, *) or (ROLE*)"),
        (columns("(A*", "*))", "(V*)"), "f:2: '*))' in column 8"),
        (columns("(V*)", "*)"), "f:2: *) closes nothing in column 8"),
        (columns("(V*)", "(A*", "*"), "f:2: (A* in column 8 is never closed"),
        (columns("(A*)", "*"), "f:1: no (V*) in column 8; expected the predicate of every frame"),
        (columns("(A*)", "x"), "f:2: 'x' in column 8"),
        (columns("(V*)", "* *"), "f:2: 9 columns, and 8 in the first row of the sentence; expected the same"),
        (columns("(V*)").replace("w0", ""), "f:1: column 3 is empty; expected a word"),
    ],
)
def test_a_flaw_in_columns_is_refused_with_its_line_or_left_out_and_counted(tmp_path, text, message):
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, text + FINE)
    assert message in str(caught.value)
    skipped = Skipped()
    assert [example.tags for example in read_text(tmp_path, FINE + text, skipped)] == [("B-ARG0", "B-V")]
    assert len(skipped) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (columns("(V*)", "*").replace("\t1\t", "\t7\t"), "f:5: 8 columns, the word's number ['7']; expected PropBank"),
        ("d 0\n", "f:4: 2 columns, the word's number ['0']; expected PropBank"),
    ],
)
def test_a_sentence_of_another_layout_than_the_first_is_refused(tmp_path, text, message):
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, FINE + text)
    assert message in str(caught.value)


def test_a_flaw_in_one_frame_costs_only_this_frame(tmp_path):
    skipped = Skipped()
    (example,) = read_text(tmp_path, columns("(V*) (V*", "* *"), skipped)
    assert example.tags == ("B-V", "O")
    assert len(skipped) == 1


def test_columns_of_neither_layout_are_refused_with_both(tmp_path):
    with pytest.raises(DataError, match=r"f:1: 3 columns; expected CoNLL-2012 \(.*\) or PropBank \(.*\)"):
        read_text(tmp_path, "a b c\n")


def line(**changes):
    value = {"words": ["a", "b"], "frames": [{"predicate": 1, "tags": ["O", "B-V"]} | changes]}
    return json.dumps(value) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line(tags=["B-V"]), "f:1: 1 tags for 2 words; expected a tag for each word"),
        (line(predicate=2), "f:1: a frame without a predicate among the words, or without tags; expected {"),
        (line(predicate=None), "f:1: a frame without a predicate"),
        (line(predicate=0), "f:1: O at the predicate, word 0; expected B-V there"),
        (line(tags=["X", "B-V"]), "f:1: the tag 'X'; expected O, or B- or I- and a role"),
        (line(tags=[3, "B-V"]), "f:1: the tag 3"),
        (line(tags=["I-A", "B-V"]), "f:1: I-A of word 0 continues no role"),
        ('{"words": [], "frames": []}\n', "f:1: no lists of words and frames; expected {"),
        ('{"words": ["a", 1], "frames": []}\n', "f:1: no lists of words and frames"),
        ('{"words": ["a", ""], "frames": []}\n', "f:1: no lists of words and frames"),
        ("{]\n", "f:1: not JSON"),
    ],
)  # fmt: skip
def test_a_flaw_in_json_lines_is_refused_with_its_line_or_left_out_and_counted(tmp_path, text, message):
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, text)
    assert message in str(caught.value)
    skipped = Skipped()
    assert len(read_text(tmp_path, line() + text, skipped)) == 1
    assert len(skipped) == 1


@shares_a_path
@given(st.lists(st.lists(ROLE, min_size=1, max_size=6), min_size=1, max_size=3), st.data())
def test_any_predictions_come_back_as_the_same_spans(tmp_path, predictions, data):
    examples = []
    for tags in predictions:
        words = tuple(data.draw(st.sampled_from(["go", "#", "-", "a b", "\ufeff"])) for _ in tags)
        examples.append(Example(words, data.draw(st.integers(0, len(tags) - 1)), "", tuple(tags), ""))
    write(tmp_path / "p", examples, [tuple(tags) for tags in predictions])
    again = read_predictions(tmp_path / "p", examples)
    assert again == [tuple(bio(spans(tags), len(tags))) for tags in predictions]


def test_predictions_are_props_as_the_official_script_reads_them(tmp_path):
    example = Example(("a", "gives", "b", "c"), 1, "give", ("O",) * 4, "")
    write(tmp_path / "p", [example], [("B-ARG0", "B-V", "B-ARG1", "I-ARG1")])
    assert (tmp_path / "p").read_text() == "- (ARG0*)\ngive (V*)\n- (ARG1*\n- *)\n\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- *\n\n- *\n", "2 frames; expected 1"),
        ("- *\n- *\n", "p:1: targets differ from data:7"),
        ("go *\n", "p:1: targets differ from data:7"),
        ("- *\ngo * *\n", "p:2: 3 columns; expected 2"),
        ("- *)\ngo *\n", "p:1: *) closes nothing"),
    ],
)
def test_predictions_of_other_data_are_refused(tmp_path, text, message):
    (tmp_path / "p").write_text(text)
    with pytest.raises(DataError) as caught:
        read_predictions(tmp_path / "p", [Example(("a", "go"), 1, "", ("O", "B-V"), "data:7")])
    assert message in str(caught.value)
    assert "skip-bad" not in str(caught.value)


@needs_data
@pytest.mark.parametrize(("split", "count"), [("train", 40424), ("dev", 4963), ("test", 4795)])
def test_the_real_data_have_the_published_counts_in_both_layouts(split, count):
    path = reading.find(DATA / "srl" / "propbank_ewt", FILES)[split]
    examples = read(path)
    assert len(examples) == count
    from_columns = read(path.with_suffix(".conll"))
    assert [e._replace(where="") for e in from_columns] == [e._replace(where="") for e in examples]

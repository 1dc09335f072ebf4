"""Frames from JSON lines and from columns, their brackets and their flaws."""

import json
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from shared import DATA, needs_data
from unit.tasks.samples import SRL_2012, SRL_JSON, SRL_PROPBANK

from stelmo.errors import DataError
from stelmo.tasks import reading
from stelmo.tasks.reading import Skipped
from stelmo.tasks.srl.data import FILES, Example, _of_text, arguments, read, read_new, read_predictions, score, write
from stelmo.tasks.tags import bio, spans

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


@pytest.mark.parametrize("role", ["ARG(0)", "ARG*"])
def test_roles_that_could_not_be_written_in_columns_are_refused(tmp_path, role):
    frame = {"predicate": 1, "tags": [f"B-{role}", "B-V"]}
    with pytest.raises(DataError, match=r"expected O, or B- or I- and a role without brackets or asterisks"):
        read_text(tmp_path, json.dumps({"words": ["It", "rains"], "frames": [frame]}) + "\n")


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
        (line(predicate=True), "f:1: a frame without a predicate"),
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
@pytest.mark.parametrize(
    ("split", "count"), [pytest.param("train", 40424, marks=pytest.mark.long), ("dev", 4963), ("test", 4795)]
)
def test_the_real_data_have_the_published_counts_in_both_layouts(split, count):
    path = reading.find(DATA / "srl" / "propbank_ewt", FILES)[split]
    examples = read(path)
    assert len(examples) == count
    from_columns = read(path.with_suffix(".conll"))
    assert [e._replace(where="") for e in from_columns] == [e._replace(where="") for e in examples]


# Frames without tags: predicates in a list, marked in a line, or from a labelled file


def read_new_text(tmp_path, text):
    (tmp_path / "f").write_text(text, encoding="utf-8")
    return read_new(tmp_path / "f")


def frames_of(examples):
    return [(example.words, example.predicate) for example in examples]


def test_predicates_are_named_by_their_places(tmp_path):
    line = json.dumps({"words": ["Kim", "said", "we", "won"], "predicates": [1, 3]})
    assert read_new_text(tmp_path, f"{line}\n\n") == [
        Example(("Kim", "said", "we", "won"), 1, "", ("O", "B-V", "O", "O"), f"{tmp_path}/f:1"),
        Example(("Kim", "said", "we", "won"), 3, "", ("O", "O", "O", "B-V"), f"{tmp_path}/f:1"),
    ]


def test_predicates_are_marked_in_a_sentence(tmp_path):
    assert frames_of(read_new_text(tmp_path, "Kim *said* we *won* .\n\n*Go*!\n")) == [
        (("Kim", "said", "we", "won", "."), 1),
        (("Kim", "said", "we", "won", "."), 3),
        (("Go", "!"), 0),
    ]


def test_a_mark_around_several_tokens_is_at_the_first(tmp_path):
    assert frames_of(read_new_text(tmp_path, "We *don't* know, he (*said*).")) == [
        (("We", "do", "n't", "know", ",", "he", "(", "said", ")", "."), 1),
        (("We", "do", "n't", "know", ",", "he", "(", "said", ")", "."), 7),
    ]


@pytest.mark.parametrize("text", [SRL_JSON, SRL_PROPBANK, SRL_2012], ids=["json", "propbank", "conll-2012"])
def test_of_a_tagged_file_the_tags_do_not_matter(tmp_path, text):
    fresh = read_new_text(tmp_path, text)
    assert [example._replace(tags=()) for example in fresh] == [
        example._replace(tags=()) for example in read(tmp_path / "f")
    ]
    assert {tag for example in fresh for tag in example.tags} == {"O", "B-V"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Kim left .", "no predicate is marked; expected one or more in asterisks"),
        ("{", "not JSON"),
        ('{"words": ["a"]}', "no lists of words and predicates"),
        ('{"words": [], "predicates": []}', "no lists of words and predicates"),
        ('{"words": ["a", ""], "predicates": [0]}', "a word that is empty or not a string"),
        ('{"words": ["a"], "predicates": [1]}', "the predicate 1; expected the position of a word, 0 to 0"),
        ('{"words": ["a"], "predicates": [true]}', "the predicate True"),
        ('{"words": ["a"], "frames": [{}]}', "a frame without a predicate"),
    ],
)
def test_a_flaw_has_its_line(tmp_path, line, message):
    with pytest.raises(DataError) as error:
        read_new_text(tmp_path, f"*Go* !\n{line}\n")
    assert str(error.value).startswith(f"{tmp_path}/f:2: {message}")


@pytest.mark.parametrize("text", ["", "\n", '{"words": ["a"], "predicates": []}\n'])
def test_a_file_without_frames_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="there are no frames"):
        read_new_text(tmp_path, text)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(lambda text: "**" not in text))
def test_a_mark_finds_a_word_whatever_surrounds_it(text):
    frames = list(_of_text(f"{text} *run* {text}", "f:1"))
    assert any(frame.words[frame.predicate].startswith("run") for frame in frames)


# The score of srl-eval.pl, against seqeval where both say the same, and by hand


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

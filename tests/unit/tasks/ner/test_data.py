"""CoNLL-2003 and two-column files, their schemes and their flaws."""

import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2
from shared import DATA, needs_data
from unit.tasks.samples import NER_2003, NER_COLUMNS

from stelmo.errors import DataError
from stelmo.tasks import reading
from stelmo.tasks.ner.data import FILES, Example, gold, read, read_new, read_predictions, score, write
from stelmo.tasks.reading import Skipped
from stelmo.tasks.tags import bio, spans

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4).filter(lambda word: word.strip())
TAG = st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"])
shares_a_path = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_text(tmp_path, text, skipped=None):
    (tmp_path / "f").write_text(text, encoding="utf-8")
    return read(tmp_path / "f", skipped)


def test_conll_2003_as_published_becomes_bio(tmp_path):
    first, second = read_text(tmp_path, NER_2003)
    assert first.words == ("Berta", "Quell", "left", "Oslo", "Bergen", ".")
    assert first.tags == ("B-PER", "I-PER", "O", "B-LOC", "B-LOC", "O")
    assert first.where == f"{tmp_path}/f:3"
    assert second.words == ("#", "9")


def test_two_columns_with_comments_and_blank_rows_of_tabs(tmp_path):
    first, second = read_text(tmp_path, NER_COLUMNS)
    assert first.tags == ("B-PER", "I-PER", "O", "B-LOC", "B-LOC")
    assert second == Example(("#", "Acme"), ("O", "B-ORG"), f"{tmp_path}/f:9")


def test_bio_in_four_columns_stays_what_it_is(tmp_path):
    (example,) = read_text(tmp_path, "a NN I-NP B-X\nb NN I-NP B-X\nc NN I-NP I-X\n")
    assert example.tags == ("B-X", "B-X", "I-X")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a NN I-NP O\nb NN O\n", "f:2: 3 columns; expected 4, as in CoNLL-2003 (word, tag, chunk, entity)"),
        ("a\tO\nb\n", "f:2: 1 columns; expected 2, as in the two-column layout (word, entity)"),
        ("a b c\n", "f:1: 3 columns; expected 4, as in CoNLL-2003"),
        ("a\tO\nb\tPER\n", "f:2: the tag 'PER'; expected O, or B- or I- and the type of the entity"),
        ("a\tO\nb\tS-PER\n", "f:2: the tag 'S-PER'"),
        ("a\tO\nb\tB-\n", "f:2: the tag 'B-'"),
        ("a\tO\n\tO\n", "f:2: column 1 is empty; expected a word"),
    ],
)
def test_a_flaw_is_refused_with_its_place_or_left_out_and_counted(tmp_path, text, message):
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, text)
    assert message in str(caught.value)
    skipped = Skipped()
    examples = read_text(tmp_path, f"fine\tO\n\n{text}" if "\t" in text else f"fine NN I-NP O\n\n{text}", skipped)
    assert [example.words for example in examples] == [("fine",)]
    assert len(skipped) == 1


def test_an_entity_that_begins_with_i_is_refused_where_the_file_is_bio(tmp_path):
    with pytest.raises(DataError, match=r"f:4: I-X begins an entity; expected B- there: this file is BIO"):
        read_text(tmp_path, "a\tB-X\nb\tO\n\nc\tI-X\n")


def test_an_entity_that_begins_with_b_is_refused_where_the_file_is_iob1(tmp_path):
    with pytest.raises(DataError, match=r"f:6: B-X begins an entity; expected I- there: this file is IOB1"):
        read_text(tmp_path, "a\tI-X\n\nb\tI-X\n\nc\tO\nd\tB-X\n")


def test_the_scheme_is_that_of_most_sentences_and_the_others_are_counted(tmp_path):
    skipped = Skipped()
    examples = read_text(tmp_path, "a\tI-X\n\nb\tI-X\n\nc\tB-X\n", skipped)
    assert [example.tags for example in examples] == [("B-X",), ("B-X",)]
    assert len(skipped) == 1


@shares_a_path
@given(st.lists(st.lists(st.tuples(WORD, TAG, TAG), min_size=1, max_size=5), min_size=1, max_size=4))
def test_any_predictions_come_back(tmp_path, sentences):
    examples, predictions = [], []
    for rows in sentences:
        words, tags, predicted = zip(*rows, strict=True)
        examples.append(Example(words, tuple(bio(spans(tags), len(tags))), ""))
        predictions.append(predicted)
    write(tmp_path / "p", examples, predictions)
    assert read_predictions(tmp_path / "p", examples) == predictions


def test_predictions_are_word_gold_predicted(tmp_path):
    write(tmp_path / "p", [Example(("New York", "x"), ("B-LOC", "O"), "")], [("O", "B-PER")])
    assert (tmp_path / "p").read_text() == "New_York B-LOC O\nx O B-PER\n\n"


def test_a_byte_order_mark_may_be_a_word(tmp_path):
    examples = [Example(("\ufeff", "#"), ("O", "O"), "")]
    write(tmp_path / "p", examples, [("O", "B-X")])
    assert read_predictions(tmp_path / "p", examples) == [("O", "B-X")]


def test_predictions_of_another_system_may_be_iob1_with_more_columns(tmp_path):
    (tmp_path / "p").write_text("a NN I-X I-X\nb NN B-X O\n")
    assert read_predictions(tmp_path / "p", [Example(("a", "b"), ("B-X", "B-X"), "")]) == [("I-X", "O")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O O\n\nb O O\n", "2 sentences; expected 1"),
        ("b O O\n", "p:1: words or gold tags differ from data:7"),
        ("a B-X O\n", "p:1: words or gold tags differ from data:7"),
        ("a O\n", "p:1: 2 columns; expected 3 or more"),
        ("a O X\n", "p:1: the tag 'X'"),
        ("a X O\n", "p:1: the tag 'X'"),
    ],
)
def test_predictions_of_other_data_are_refused(tmp_path, text, message):
    (tmp_path / "p").write_text(text)
    with pytest.raises(DataError) as caught:
        read_predictions(tmp_path / "p", [Example(("a",), ("O",), "data:7")])
    assert message in str(caught.value)
    assert "skip-bad" not in str(caught.value)


@needs_data
@pytest.mark.parametrize(
    ("folder", "counts", "types"),
    [
        ("wnut17", (3394, 1009, 1287), "corporation creative-work group location person product"),
        ("uner_ewt", (12543, 2001, 2077), "LOC ORG PER"),
    ],
)
def test_the_real_data_have_the_published_counts(folder, counts, types):
    parts = {split: read(path) for split, path in reading.find(DATA / "ner" / folder, FILES).items()}
    assert tuple(len(examples) for examples in parts.values()) == counts
    found = {span.label for examples in parts.values() for example in examples for span in spans(gold(example))}
    assert " ".join(sorted(found)) == types


# Text to be tagged


def test_text_to_be_tagged_is_a_sentence_a_line(tmp_path):
    (tmp_path / "f").write_text("Berta left Oslo.\n\nAcme , too .\n")
    assert read_new(tmp_path / "f") == [
        Example(("Berta", "left", "Oslo", "."), ("O",) * 4, f"{tmp_path}/f:1"),
        Example(("Acme", ",", "too", "."), ("O",) * 4, f"{tmp_path}/f:3"),
    ]


@pytest.mark.parametrize("text", [NER_2003, NER_COLUMNS])
def test_of_tagged_columns_the_words_are_tagged_anew(tmp_path, text):
    tagged = read_text(tmp_path, text)
    assert read_new(tmp_path / "f") == [example._replace(tags=("O",) * len(example.words)) for example in tagged]


@pytest.mark.parametrize(
    "text",
    [
        "Kim _\nsaid _\n\nyes _\n",
        "Kim NNP B-PER\nsaid VBD O\n\nyes UH O\n",
        "Kim\nsaid\n\nyes\n",
        "Kim I-PER\nsaid B-X\n\nyes I-Y\n",  # neither BIO nor IOB1
        "Kim\tO\nsaid\n\nyes\tO\n",  # a line without a tag
    ],
)
def test_of_columns_to_be_tagged_only_the_words_are_read(tmp_path, text):
    (tmp_path / "f").write_text(text)
    assert [example.words for example in read_new(tmp_path / "f")] == [("Kim", "said"), ("yes",)]


def test_a_single_word_is_a_sentence(tmp_path):
    (tmp_path / "f").write_text("Kim.\n")
    assert [example.words for example in read_new(tmp_path / "f")] == [("Kim", ".")]


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_no_text_to_be_tagged_is_refused(tmp_path, text):
    (tmp_path / "f").write_text(text)
    with pytest.raises(DataError, match="there are no sentences; expected one or more"):
        read_new(tmp_path / "f")


# The score: conlleval's figures, against seqeval and by hand


SCORED_TAG = st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "B-a-b"])
PAIRS = st.lists(st.lists(st.tuples(SCORED_TAG, SCORED_TAG), min_size=1, max_size=8), min_size=1, max_size=4)
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

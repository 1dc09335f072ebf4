import json

import pytest
from shared import DATA, needs_data

from stelmo.errors import DataError
from stelmo.tasks.reading import Skipped, find
from stelmo.tasks.snli import data

PAIR = {"gold_label": "neutral", "sentence1": "A dog can't sleep.", "sentence2": "It barks.", "pairID": "7"}


def written(tmp_path, *rows: object):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def read_one(tmp_path, **changes: object) -> data.Example:
    (example,) = data.read(written(tmp_path, PAIR | changes))
    return example


def test_text_without_a_parse_is_tokenised(tmp_path):
    example = read_one(tmp_path)
    assert example.premise == ("A", "dog", "ca", "n't", "sleep", ".")
    assert example.hypothesis == ("It", "barks", ".")
    assert (example.label, example.pair, example.where) == ("neutral", "7", f"{tmp_path}/train.jsonl:1")


def test_a_text_of_several_sentences_is_one_premise(tmp_path):
    assert read_one(tmp_path, sentence1="It rains. It pours.").premise == ("It", "rains", ".", "It", "pours", ".")


def test_the_leaves_of_the_binary_parse_come_first(tmp_path):
    parse = "( ( A dog ) ( -LRB- ( brown -RRB- ) ) )"
    assert read_one(tmp_path, sentence1_binary_parse=parse).premise == ("A", "dog", "(", "brown", ")")


@pytest.mark.parametrize("parse", [None, "", "  "])
def test_an_empty_parse_is_none(tmp_path, parse):
    assert read_one(tmp_path, sentence2_binary_parse=parse).hypothesis == ("It", "barks", ".")


def test_pairs_without_agreement_are_left_out_and_counted(tmp_path):
    path = written(tmp_path, PAIR | {"gold_label": "-"}, PAIR)
    skipped = Skipped()
    assert [example.where for example in data.read(path, skipped)] == [f"{path}:2"]
    assert skipped.reasons == {"no agreement on a label (gold_label -)": 1}
    assert len(data.read(path)) == 1


def test_the_line_stands_for_a_missing_pair_id(tmp_path):
    row = {key: value for key, value in PAIR.items() if key != "pairID"}
    assert [example.pair for example in data.read(written(tmp_path, row, "", row))] == ["1", "3"]


FLAWS = {
    "not JSON": ("{", r":2: not JSON \(.*\); expected a JSON object on each line"),
    "not an object": ("[]", r":2: a JSON list; expected a JSON object on each line"),
    "unknown label": (
        PAIR | {"gold_label": "maybe"},
        r':2: gold_label "maybe"; expected one of entailment, neutral, contradiction',
    ),
    "no label": ({"sentence1": "A", "sentence2": "B"}, ":2: gold_label null; expected one of entailment"),
    "empty premise": (PAIR | {"sentence1": " "}, ":2: sentence1 has no words; expected a premise in sentence1"),
    "no hypothesis": (PAIR | {"sentence2": None}, ":2: sentence2 has no words"),
    "a parse without leaves": (PAIR | {"sentence2_binary_parse": "( )"}, ":2: sentence2 has no words"),
    "twice the same pair": (PAIR, ":2: pairID 7 occurs twice"),
}


@pytest.mark.parametrize(("row", "message"), FLAWS.values(), ids=FLAWS)
def test_a_flawed_pair_is_refused_or_skipped(tmp_path, row, message):
    path = written(tmp_path, PAIR, row, PAIR | {"pairID": "8"})
    with pytest.raises(DataError, match=message):
        data.read(path)
    skipped = Skipped()
    assert [example.pair for example in data.read(path, skipped)] == ["7", "8"]
    assert len(skipped) == 1


def test_a_file_without_pairs_is_refused(tmp_path):
    with pytest.raises(DataError, match="there are no labelled pairs"):
        data.read(written(tmp_path, PAIR | {"gold_label": "-"}))


def test_predictions_are_found_by_their_pair(tmp_path):
    examples = data.read(written(tmp_path, PAIR, PAIR | {"pairID": "8"}))
    path = tmp_path / "predictions.jsonl"
    data.write(path, examples[::-1], ["entailment", "contradiction"])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"pairID": "8", "label": "entailment"},
        {"pairID": "7", "label": "contradiction"},
    ]
    assert data.read_predictions(path, examples) == ["contradiction", "entailment"]


def test_a_missing_prediction_is_refused(tmp_path):
    examples = data.read(written(tmp_path, PAIR, PAIR | {"pairID": "8"}))
    path = tmp_path / "predictions.jsonl"
    data.write(path, examples[:1], ["neutral"])
    with pytest.raises(DataError, match="no line for pairID 8"):
        data.read_predictions(path, examples)


def test_an_unknown_label_among_predictions_is_refused(tmp_path):
    examples = data.read(written(tmp_path, PAIR))
    path = tmp_path / "predictions.jsonl"
    data.write(path, examples, ["perhaps"])
    with pytest.raises(DataError, match=r'predictions\.jsonl:1: label "perhaps"; expected one of'):
        data.read_predictions(path, examples)


def test_official_names_are_found(tmp_path):
    names = {"train": "snli_1.0_train.jsonl", "dev": "snli_1.0_dev.jsonl", "test": "snli_1.0_test.jsonl"}
    for name in names.values():
        (tmp_path / name).touch()
    assert find(tmp_path, data.FILES) == {split: tmp_path / name for split, name in names.items()}


def test_pairs_without_a_label_are_read_for_prediction(tmp_path):
    unlabelled = {key: value for key, value in PAIR.items() if key != "gold_label"}
    path = written(tmp_path, unlabelled, "", "It rains.\tIt's wet.")
    assert data.read_new(path) == [
        data.Example(("A", "dog", "ca", "n't", "sleep", "."), ("It", "barks", "."), "-", "7", f"{path}:1"),
        data.Example(("It", "rains", "."), ("It", "'s", "wet", "."), "-", "3", f"{path}:3"),
    ]


@pytest.mark.parametrize("label", ["neutral", "-", "perhaps"])
def test_a_label_does_not_matter_for_prediction(tmp_path, label):
    (example,) = data.read_new(written(tmp_path, PAIR | {"gold_label": label}))
    assert (example.label, example.hypothesis) == ("-", ("It", "barks", "."))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("It rains.", ":1: 1 columns; expected 2, premise TAB hypothesis, or a JSON object"),
        ("It rains.\tIt is wet.\tneutral", ":1: 3 columns"),
        ("It rains.\t ", ":1: sentence2 has no words"),
        ("{", ":1: not JSON"),
        ("", "there are no pairs"),
    ],
)
def test_a_flawed_line_to_predict_is_refused(tmp_path, line, message):
    with pytest.raises(DataError, match=message):
        data.read_new(written(tmp_path, line))


def test_predictions_of_unlabelled_pairs_are_written_and_read_back(tmp_path):
    examples = data.read_new(written(tmp_path, "It rains.\tIt is wet.", "It rains.\tIt is dry."))
    data.write(tmp_path / "predictions.jsonl", examples, ["entailment", "contradiction"])
    assert data.read_predictions(tmp_path / "predictions.jsonl", examples) == ["entailment", "contradiction"]


@pytest.mark.long
@needs_data
def test_the_real_files_have_the_published_counts():
    files = find(DATA / "snli", data.FILES)
    assert {split: len(data.read(path)) for split, path in files.items()} == {"train": 27977, "dev": 9842, "test": 9824}


# The score


def labelled(label: str) -> data.Example:
    return data.Example(("It", "rains"), ("It", "is", "wet"), label, "1", "file:1")


def test_accuracy_is_the_share_of_right_labels():
    examples = [labelled("neutral"), labelled("neutral"), labelled("entailment"), labelled("contradiction")]
    assert data.score(["neutral", "entailment", "entailment", "contradiction"], examples) == {"accuracy": 75.0}


def test_nothing_right_is_zero():
    assert data.score(["neutral"], [labelled("entailment")]) == {"accuracy": 0.0}

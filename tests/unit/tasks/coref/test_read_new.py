"""Documents whose clusters are to be found: columns and plain text."""

import pytest
from unit.tasks.coref.test_data import BEGIN, END, row, rows, written

from stelmo.errors import DataError
from stelmo.tasks.coref import data


def new(tmp_path, *lines: str) -> list[data.Example]:
    return data.read_new(written(tmp_path, *lines))


def test_of_a_labelled_file_the_clusters_do_not_matter(tmp_path):
    lines = [BEGIN, *rows("(1", "1)", "broken("), "", row("x", speaker="Bob"), END]
    (example,) = new(tmp_path, *lines)
    assert example == data.Example(
        name="(nw/x); part 000",
        sentences=(("w0", "w1", "w2"), ("x",)),
        speakers=(("Ann",) * 3, ("Bob",)),
        clusters=(),
        where=f"{tmp_path}/train.conll:1",
    )


def test_columns_behind_the_word_may_be_missing(tmp_path):
    (example,) = new(tmp_path, BEGIN, "nw/x 0 0 Kim", "nw/x 0 1 left", END)
    assert (example.sentences, example.speakers) == ((("Kim", "left"),), (("-", "-"),))


def test_plain_text_is_cut_into_sentences_and_a_blank_line_ends_a_document(tmp_path):
    first, second = new(tmp_path, "Kim left. She", "was tired.", "", " ", "It didn't rain.")
    assert first.sentences == (("Kim", "left", "."), ("She", "was", "tired", "."))
    assert second.sentences == (("It", "did", "n't", "rain", "."),)
    assert second.speakers == (("-",) * 5,)
    assert [first.name, second.name] == ["(train.conll); part 000", "(train.conll); part 001"]
    assert [first.where, second.where] == [f"{tmp_path}/train.conll:{line}" for line in (1, 5)]


def test_tokenised_text_has_a_sentence_a_line(tmp_path):
    (example,) = new(tmp_path, "Mr. Kim left .", "We do n't know")
    assert example.sentences == (("Mr.", "Kim", "left", "."), ("We", "do", "n't", "know"))


def test_an_answer_to_plain_text_can_be_read_back(tmp_path):
    examples = new(tmp_path, "Kim left.", "", "She did.")
    answers = [(frozenset({(0, 0), (1, 1)}),), ()]
    data.write(tmp_path / "out", examples, answers)
    assert data.read_predictions(tmp_path / "out", examples) == answers


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["", " "], "train.conll: there are no documents"),
        ([BEGIN, "nw/x 0 0", END], "train.conll:2: 3 columns; expected 4 or more"),
        ([BEGIN, row("a")], "train.conll:1: a document without an end"),
        ([BEGIN, row("a"), END, BEGIN, row("b"), END], "train.conll:4: document .* occurs twice"),
    ],
)
def test_a_flaw_of_a_document_without_clusters_has_its_place(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        new(tmp_path, *lines)

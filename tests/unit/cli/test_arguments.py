"""Named files and sentences → one stream of sentences."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stelmo.cli.arguments import Inputs, label_of
from stelmo.errors import DataError


def test_text_of_a_parquet_column_that_is_not_utf8_is_refused_with_its_row(tmp_path):
    column = pa.array([b"fine", b"not \xff fine"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": column}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet: row 2, column text: not UTF-8"):
        list(Inputs([str(tmp_path / "t.parquet")], None, 0, "en", "ptb"))


def test_a_parquet_file_whose_column_has_a_name_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"qqqq": ["a"], "text": ["b"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"qqqq", b"\xffqqq"))
    with pytest.raises(DataError, match=r"t\.parquet: cannot be read as Parquet"):
        list(Inputs([str(path)], None, 0, "en", "ptb"))


def test_a_folder_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "my texts").mkdir()
    with pytest.raises(DataError, match=r"my texts: a folder; expected files, such as .*\*\.txt"):
        Inputs([str(tmp_path / "my texts")], None, 0, "en", "ptb")


@pytest.mark.parametrize(
    "name",
    ["missing.csv", "wiki.md", "my corpus.txt", "missing.HDF5", "texts/wiki", r"texts\wiki", r"C:\my texts\wiki one"],
)
def test_the_name_of_a_missing_file_is_not_a_sentence(name):
    with pytest.raises(DataError, match="no such file; if it is a sentence, pipe it to standard input"):
        Inputs([name], None, 0, "en", "ptb")


@pytest.mark.parametrize(
    "text", ["Hello.", "e.g.", "word", "U.S.", "3.141592", "See notes.doc", "and/or but", r"a \ b", "Wait..."]
)
def test_a_sentence_of_one_word_or_with_a_dot_is_a_sentence(text):
    assert [sentence.source for sentence in Inputs([text], "tokens", 0, "en", "ptb")] == ["argument"]


@pytest.mark.parametrize("name", ["a bank", "bank", "missing.txt"])
def test_a_command_that_takes_files_takes_no_sentences(name):
    with pytest.raises(DataError, match=f"{name}: no such file; expected text files, or - for standard input"):
        Inputs([name], None, 0, "en", "ptb", files_only=True)


def test_a_model_in_the_current_folder_has_the_name_of_that_folder(tmp_path, monkeypatch):
    (tmp_path / "my-model" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("my-model")
    monkeypatch.chdir(tmp_path / "my-model")
    assert [label_of(name) for name in (None, ".", "inner/..", "inner/", "../link")] == [
        "english",
        "my-model",
        "my-model",
        "inner",
        "link",
    ]

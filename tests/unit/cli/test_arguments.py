"""Named files and sentences → one stream of sentences."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stelmo.cli.arguments import Inputs
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

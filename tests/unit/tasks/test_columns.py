"""Rows, and blocks of them."""

import pytest

from stelmo.tasks.columns import Row, blocks, expect_width, filled, rows
from stelmo.tasks.splits import ExampleError


def written(tmp_path, text):
    path = tmp_path / "f"
    path.write_bytes(text.encode())
    return path


def words(tmp_path, text):
    return [[row.fields[0] for row in block] for block in blocks(written(tmp_path, text))]


def test_blank_lines_part_blocks_however_many_and_however_blank(tmp_path):
    assert words(tmp_path, "\n\na\nb\n \t\n\n\r\nc") == [["a", "b"], ["c"]]


def test_a_hash_is_a_comment_before_the_first_word_and_a_word_after_it(tmp_path):
    assert words(tmp_path, "# one\n# two\na\n#\n\n# only a comment\n\nb") == [["a", "#"], ["b"]]


def test_tabs_keep_empty_fields_and_spaces_do_not(tmp_path):
    assert [row.fields for row in rows(written(tmp_path, "a b\t\tc\na  b \n\n"))] == [["a b", "", "c"], ["a", "b"], []]


def test_a_no_break_space_is_a_word(tmp_path):
    assert words(tmp_path, "\u00a0\na") == [["\u00a0", "a"]]


def test_a_row_knows_its_line(tmp_path):
    path = written(tmp_path, "a\n\nb\n")
    assert [row.where for block in blocks(path) for row in block] == [f"{path}:1", f"{path}:3"]


def test_another_width_is_refused_with_place_found_and_expected():
    with pytest.raises(ExampleError, match=r"^f:7: 2 columns; expected 4, as in CoNLL-2003$"):
        expect_width(Row("f", 7, ["a", "b"]), 4, "CoNLL-2003")


def test_an_empty_field_is_refused():
    assert filled(Row("f", 7, ["a", "b"]), 1, "a word") == "b"
    with pytest.raises(ExampleError, match=r"^f:7: column 1 is empty; expected a word$"):
        filled(Row("f", 7, ["", "b"]), 0, "a word")

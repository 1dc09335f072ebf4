"""Splits of a folder, flawed examples, columns, and plain text."""

import pytest

from stelmo.errors import DataError
from stelmo.tasks.reading import (
    ExampleError,
    Row,
    Skipped,
    blocks,
    expect_width,
    files,
    filled,
    find,
    most,
    refuse_empty,
    rows,
    skipping_flawed,
    text_lines,
    tokens_of,
)

NAMES = {"train": ("train.jsonl", "*train*.txt"), "dev": ("dev.txt",), "test": ("test.txt",)}


def folder_with(tmp_path, *names):
    for name in names:
        (tmp_path / name).write_text("")
    return tmp_path


def test_each_split_is_found_and_an_absent_one_left_out(tmp_path):
    found = find(folder_with(tmp_path, "my_train_1.txt", "dev.txt"), NAMES)
    assert found == {"train": tmp_path / "my_train_1.txt", "dev": tmp_path / "dev.txt"}


def test_the_first_pattern_with_a_match_counts(tmp_path):
    assert find(folder_with(tmp_path, "train.jsonl", "train.txt"), NAMES)["train"].name == "train.jsonl"


def test_a_file_is_one_split_only(tmp_path):
    names = {"train": ("*train*.txt",), "dev": ("dev.txt",), "test": ("*test*.txt",)}
    assert set(find(folder_with(tmp_path, "latest_train.txt", "dev.txt"), names)) == {"train", "dev"}
    assert find(folder_with(tmp_path, "latest_test.txt"), names)["test"].name == "latest_test.txt"


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_compressed_file_is_found_by_its_plain_name(tmp_path, suffix):
    assert find(folder_with(tmp_path, "train.jsonl" + suffix), NAMES)["train"].name == "train.jsonl" + suffix


def test_a_compressed_file_that_an_open_pattern_matches_twice_is_one_file(tmp_path):
    assert find(folder_with(tmp_path, "a.testa.gz"), {"train": ("*testa*",)}) == {"train": tmp_path / "a.testa.gz"}


def test_a_missing_split_that_is_needed_is_named_with_what_was_looked_for(tmp_path):
    with pytest.raises(DataError, match=r"there is no dev file; looked for dev\.txt"):
        find(folder_with(tmp_path, "train.txt"), NAMES, needed=("train", "dev"))


def test_two_files_for_one_split_are_refused_by_name(tmp_path):
    with pytest.raises(DataError, match=r"a_train\.txt and b_train\.txt both match \*train\*\.txt"):
        find(folder_with(tmp_path, "a_train.txt", "b_train.txt"), NAMES)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no such folder; expected one with train\.jsonl"):
        find(folder_with(tmp_path, "x") / "x", NAMES)


def test_a_folder_to_read_is_the_files_beneath_it_in_order(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        folder_with(tmp_path / name, "x.gold_conll", "x.parse")
    assert files(tmp_path, "*gold_conll") == [tmp_path / "a" / "x.gold_conll", tmp_path / "b" / "x.gold_conll"]
    assert files(tmp_path / "a" / "x.parse", "*gold_conll") == [tmp_path / "a" / "x.parse"]


def test_a_folder_without_such_files_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"has no file named \*gold_conll"):
        files(tmp_path, "*gold_conll")


def flawed():
    raise ExampleError("a.txt:3", "2 columns", "4")


def test_a_flaw_stops_with_the_way_out():
    with pytest.raises(ExampleError) as caught, skipping_flawed(None):
        flawed()
    assert str(caught.value) == "a.txt:3: 2 columns; expected 4"


def test_flaws_are_counted_by_reason_with_the_first_of_each():
    skipped = Skipped()
    for _ in range(2):
        with skipping_flawed(skipped):
            flawed()
    skipped.add("b.txt:9: no answer")
    assert skipped.reasons == {"not 4": 2, "no answer": 1}
    assert skipped.first == {"not 4": "a.txt:3: 2 columns; expected 4", "no answer": "b.txt:9: no answer"}
    assert len(skipped) == 3


def test_other_errors_are_not_swallowed():
    with pytest.raises(DataError, match="gone"), skipping_flawed(Skipped()):
        raise DataError("gone")


def test_a_file_in_which_everything_is_flawed_says_so(tmp_path):
    skipped = Skipped()
    skipped.add("a.txt:3: 2 columns", "not 4")
    with pytest.raises(DataError, match=r"no trees without a flaw \(1 skipped, first a\.txt:3: 2 columns\)"):
        refuse_empty([], tmp_path, "trees", skipped)


def test_what_there_is_passes(tmp_path):
    assert refuse_empty([1], tmp_path, "trees") == [1]


# Columns


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


# Plain text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("It works .", ("It", "works", ".")),
        ("Mr. Ng , of the U.S. , do n't ask", ("Mr.", "Ng", ",", "of", "the", "U.S.", ",", "do", "n't", "ask")),
        ("It works, mostly.", ("It", "works", ",", "mostly", ".")),
        ("We don't.", ("We", "do", "n't", ".")),
        ("no stop at all", ("no", "stop", "at", "all")),
        ("One. Two more.", ("One", ".", "Two", "more", ".")),
    ],
)
def test_a_line_is_tokenised_unless_somebody_has_done_so(line, expected):
    assert tokens_of(line) == expected


def test_every_line_that_has_words_is_a_sentence_with_its_place(tmp_path):
    (tmp_path / "f").write_text("\nOne.\n \t\nTwo .\n")
    assert list(text_lines(tmp_path / "f")) == [(("One", "."), f"{tmp_path}/f:2"), (("Two", "."), f"{tmp_path}/f:4")]


@pytest.mark.parametrize(("answers", "expected"), [([], False), ([1, 0], False), ([1, 0, 1], True), ([1], True)])
def test_most_is_more_than_half(answers, expected):
    assert most(map(bool, answers)) is expected

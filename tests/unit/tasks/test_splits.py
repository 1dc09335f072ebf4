"""Files of a folder by their split; flaws that stop, and flaws that are counted."""

import pytest

from stelmo.errors import DataError
from stelmo.tasks import splits
from stelmo.tasks.splits import ExampleError, Skipped, files, find, leaving_out, some

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
    with pytest.raises(DataError, match=r"holds no file named \*gold_conll"):
        files(tmp_path, "*gold_conll")


def flawed():
    raise ExampleError("a.txt:3", "2 columns", "4")


def test_a_flaw_stops_with_the_way_out():
    with pytest.raises(DataError) as caught, leaving_out(None):
        flawed()
    assert str(caught.value) == "a.txt:3: 2 columns; expected 4 (--skip-bad leaves such examples out)"


def test_flaws_are_counted_by_reason_with_the_first_of_each():
    skipped = Skipped()
    for _ in range(2):
        with leaving_out(skipped):
            flawed()
    skipped.add("b.txt:9: no answer")
    assert skipped.reasons == {"not 4": 2, "no answer": 1}
    assert skipped.first == {"not 4": "a.txt:3: 2 columns; expected 4", "no answer": "b.txt:9: no answer"}
    assert len(skipped) == 3


def test_other_errors_are_not_swallowed():
    with pytest.raises(DataError, match="gone"), leaving_out(Skipped()):
        raise DataError("gone")


def test_a_file_in_which_everything_is_flawed_says_so(tmp_path):
    skipped = Skipped()
    skipped.add("a.txt:3: 2 columns", "not 4")
    with pytest.raises(DataError, match=r"no trees without a flaw \(1 left out, first a\.txt:3: 2 columns\)"):
        some([], tmp_path, "trees", skipped)


def test_what_there_is_passes(tmp_path):
    assert splits.some([1], tmp_path, "trees") == [1]

"""Files and folders are whole or absent."""

import errno
import stat

import pytest

from stelmo.errors import OutputError
from stelmo.store import atomic


def test_a_finished_file_takes_its_place(tmp_path):
    with atomic.new_file(tmp_path / "a.txt") as draft:
        draft.write_text("done")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "done"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_failed_file_leaves_nothing_and_keeps_the_old_one(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(KeyError), atomic.new_file(tmp_path / "a.txt", overwrite=True) as draft:
        draft.write_text("half")
        raise KeyError
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_failed_folder_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), atomic.new_folder(tmp_path / "model") as draft:
        (draft / "half").write_text("half")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_refused_unless_overwriting(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OutputError, match="exists"), atomic.new_folder(tmp_path / "a"):
        pass


def test_overwriting_a_folder_exchanges_it(tmp_path):
    for text in ("old", "new"):
        with atomic.new_folder(tmp_path / "a", overwrite=True) as draft:
            (draft / "x").write_text(text)
    assert (tmp_path / "a" / "x").read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_overwriting_never_deletes_a_file_it_does_not_replace(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match=r"thesis\.tex"), atomic.new_folder(tmp_path / "a", overwrite=True) as draft:
        (draft / "x").write_text("new")
    assert (tmp_path / "a" / "thesis.tex").read_text() == "years of work"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_missing_parent_folder_is_named(tmp_path):
    with pytest.raises(OutputError, match="no folder"), atomic.new_file(tmp_path / "no" / "a"):
        pass


def test_a_full_disk_is_said_in_words(tmp_path):
    with pytest.raises(OutputError, match="disk is full"), atomic.new_file(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_has_the_permissions_of_any_other_file(tmp_path):
    (tmp_path / "plain").touch()
    with atomic.new_file(tmp_path / "a") as draft:
        draft.touch()
    with atomic.new_folder(tmp_path / "b") as draft:
        (draft / "private").touch(mode=0o600)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "a", "b/private")]
    assert len(set(modes)) == 1

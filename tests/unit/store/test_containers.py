"""Files of arrays: read back as written, and one sentence for whatever is damaged."""

import io
import random
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stelmo.errors import DataError
from stelmo.store import containers

FIELDS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([], np.int64), "c": np.float64(2.5)}


def saved(path, save=np.savez, **fields):
    save(path, **(fields or FIELDS))
    return path


def test_arrays_are_read_back(tmp_path):
    path = saved(tmp_path / "a.npz")
    found = containers.read_npz(path, "again")
    assert found.keys() == FIELDS.keys()
    for name, array in FIELDS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].flags.writeable
    assert containers.read_npz(path, "again", ("b",)).keys() == {"b"}


def outcome(path):
    """What is wrong, or the arrays."""
    try:
        return containers.read_npz(path, "make it again")
    except DataError as problem:
        return str(problem)


def test_any_changed_byte_is_refused_in_one_line_or_harmless(tmp_path):
    path, chance = saved(tmp_path / "a.npz"), random.Random(3)
    whole = path.read_bytes()
    for _ in range(300):
        place = chance.randrange(len(whole))
        path.write_bytes(whole[:place] + chance.randbytes(chance.randrange(5)) + whole[place + 1 :])
        match outcome(path):
            case str(problem):
                assert problem.endswith("; make it again")
                assert "\n" not in problem
            case found:
                assert all(np.array_equal(found[name], FIELDS[name]) for name in FIELDS if name in found)


def test_an_array_larger_than_its_file_is_refused_before_memory_is_taken(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header.getvalue())
    with pytest.raises(DataError, match=r"a\.npz: cannot be read"):
        containers.read_npz(tmp_path / "a.npz", "again")


def test_compressed_members_are_refused(tmp_path):
    path = saved(tmp_path / "a.npz", np.savez_compressed, a=np.zeros(1 << 20))
    with pytest.raises(DataError, match="compressed members"):
        containers.read_npz(path, "again")


def test_a_missing_name_and_a_missing_file_are_refused(tmp_path):
    path = saved(tmp_path / "a.npz")
    with pytest.raises(DataError, match="'d'"):
        containers.read_npz(path, "again", ("d",))
    with pytest.raises(DataError, match="No such file"):
        containers.read_npz(tmp_path / "b.npz", "again")


def test_a_mapped_array_is_the_one_written_and_a_broken_header_is_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, FIELDS["a"])
    np.testing.assert_array_equal(containers.map_npy(path, "again"), FIELDS["a"])
    path.write_bytes(path.read_bytes().replace(b"'descr'", b"'descr["))
    with pytest.raises(DataError, match=r"a\.npy: cannot be read .*; again"):
        containers.map_npy(path, "again")


LIMITS = {"usual": {}, "zip64 for everything": {"LARGEST": 3, "MOST_MEMBERS": 0}}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(st.binary(max_size=300), max_size=12))
def test_zipfile_reads_the_zip_that_is_written(limits, contents, tmp_path, monkeypatch):
    for name, value in limits.items():
        monkeypatch.setattr(containers, name, value)
    file = containers.NewZip(tmp_path / "members.zip")
    for number, content in enumerate(contents):
        file.add(f"{number}.npy", content)
    file.close()
    with zipfile.ZipFile(tmp_path / "members.zip") as found:
        assert found.testzip() is None
        assert found.namelist() == [f"{number}.npy" for number in range(len(contents))]
        assert [found.read(name) for name in found.namelist()] == contents

"""Arrays come out of HDF5 as they went in; nothing that is damaged, crafted or inflated does."""

import tracemalloc
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from stelmo.errors import ModelError
from stelmo.formats.untrusted import archives, hdf5

NUMBERS = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)


def written(path: Path, **settings: object) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("a/b", data=NUMBERS, **settings)
    return path


def read(path: Path, shape: tuple[int | None, ...] = (20, 30)) -> np.ndarray:
    with hdf5.opened(path) as file:
        return hdf5.read(file, "a/b", shape)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"chunks": (7, 8)},
        {"chunks": (64, 64), "maxshape": (None, None)},
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True, "chunks": (7, 8)},
        {"compression": "gzip", "fletcher32": True},
        {"fletcher32": True},
    ],
    ids=str,
)
def test_what_was_written_is_read(tmp_path, settings):
    np.testing.assert_array_equal(read(written(tmp_path / "a.hdf5", **settings)), NUMBERS)


def test_a_filter_whose_output_cannot_be_bounded_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"compressed by the filters \[32000\]; only gzip is read"):
        read(written(tmp_path / "a.hdf5", compression="lzf"))


def test_a_dataset_without_a_shape_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["a/b"] = h5py.Empty("f4")
    with pytest.raises(ModelError, match="has no shape"):
        read(tmp_path / "a.hdf5")
    with hdf5.opened(tmp_path / "a.hdf5") as file:
        assert hdf5.names(file) == ["a/b"]


def peak_of_refusal(path: Path, shape: tuple[int | None, ...], why: str) -> int:
    tracemalloc.start()
    with pytest.raises(ModelError, match=why):
        read(path, shape)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_a_chunk_that_inflates_to_more_than_its_size_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        dataset = file.create_dataset("a/b", (20, 30), "f4", chunks=(20, 30), compression="gzip")
        dataset.id.write_direct_chunk((0, 0), zlib.compress(bytes(1 << 26)))
    assert peak_of_refusal(tmp_path / "a.hdf5", (20, 30), "inflates to more than the 2,400 bytes") < 2**20


@pytest.mark.parametrize("chunks", [(1000, 1000), (20, 30)], ids=["few large", "many small"])
def test_zeros_that_inflate_far_beyond_the_file_are_refused(tmp_path, chunks, monkeypatch):
    monkeypatch.setattr(archives, "SMALL", 1 << 20)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("a/b", data=np.zeros((2000, 1000), "f4"), chunks=chunks, compression="gzip")
    assert peak_of_refusal(tmp_path / "a.hdf5", (2000, 1000), "which the file does not hold") < 2**20


def test_a_small_array_in_a_giant_chunk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "SMALL", 1 << 20)
    settings = {"chunks": (2000, 1000), "maxshape": (None, None), "compression": "gzip"}
    assert peak_of_refusal(written(tmp_path / "a.hdf5", **settings), (20, 30), "does not hold") < 2**20


def test_datasets_that_inflate_together_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "SMALL", 1 << 16)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for number in range(40):
            file.create_dataset(str(number), data=np.zeros(16_000, "f4"), compression="gzip")
    with pytest.raises(ModelError, match="bytes of numbers, which its"), hdf5.opened(tmp_path / "a.hdf5") as file:
        hdf5.names(file)

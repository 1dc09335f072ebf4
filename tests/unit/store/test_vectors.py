"""Writers of vectors: what they write is what was given, also for very many empty sentences."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from stelmo.store import vectors
from stelmo.store.vectors import Shape
from stelmo.text.formats import Sentence

ABOUT = {"use_sentence_keys": False, "forget_sentences": False}


def written(path: Path, sentences: list[list[str]], arrays: list[np.ndarray]) -> Path:
    shape = Shape(arrays[0].shape[-1], None, True, "float32")
    with vectors.writing(path, vectors.writer_for(path), shape, ABOUT) as writer:
        for number, (tokens, array) in enumerate(zip(sentences, arrays, strict=True)):
            writer.add(number, Sentence(tokens, "t", number + 1), array)
    return path


def test_npz_holds_more_members_than_the_first_zip_format_could_count(tmp_path):
    count = 70_000
    word = np.arange(4, dtype=np.float32).reshape(1, 4)
    nothing = np.zeros((0, 4), np.float32)
    path = written(tmp_path / "v.npz", [*[[]] * (count - 1), ["a"]], [*[nothing] * (count - 1), word])
    with np.load(path) as found:
        assert len(found.files) == count
        assert found["0"].shape == found["65536"].shape == (0, 4)
        np.testing.assert_array_equal(found[str(count - 1)], word)


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet", ".jsonl"])
def test_empty_sentences_are_read_back_where_they_were(suffix, tmp_path):
    sentences = [[], ["a"], [], ["b", "c"], [], []]
    arrays = [np.full((len(tokens), 2), number, np.float32) for number, tokens in enumerate(sentences)]
    found = READERS[suffix](written(tmp_path / f"v{suffix}", sentences, arrays))
    assert len(found) == len(arrays)
    for one, other in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(np.asarray(one, np.float32).reshape(-1, 2), other)


def read_hdf5(path: Path) -> list[np.ndarray]:
    with h5py.File(path) as file:
        assert set(file) == {*map(str, range(len(file) - 1)), "sentence_to_index"}
        return [file[str(number)][()] for number in range(len(file) - 1)]


def read_npz(path: Path) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[str(number)] for number in range(len(file.files))]


def read_parquet(path: Path) -> list[np.ndarray]:
    from pyarrow import parquet

    return parquet.read_table(path)["vectors"].to_pylist()


def read_jsonl(path: Path) -> list[np.ndarray]:
    return [json.loads(line)["vectors"] for line in path.read_text().splitlines()]


READERS = {".hdf5": read_hdf5, ".npz": read_npz, ".parquet": read_parquet, ".jsonl": read_jsonl}


def test_empty_sentences_of_hdf5_share_one_dataset(tmp_path):
    path = written(tmp_path / "v.hdf5", [[]] * 50, [np.zeros((0, 2), np.float32)] * 50)
    with h5py.File(path) as file:
        assert len({h5py.h5o.get_info(file[str(number)].id).addr for number in range(50)}) == 1


def test_a_row_group_of_parquet_ends_after_some_numbers_and_the_rows_are_the_same(tmp_path, monkeypatch):
    from pyarrow import parquet

    sentences = [["a"] * (number % 5) for number in range(40)]
    arrays = [np.full((len(tokens), 2), number, np.float32) for number, tokens in enumerate(sentences)]
    monkeypatch.setattr(vectors.ParquetWriter, "NUMBERS", 24)  # twelve words
    path = written(tmp_path / "v.parquet", sentences, arrays)
    metadata = parquet.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert len(sizes) == 6
    assert max(sizes) <= 8
    for one, other in zip(read_parquet(path), arrays, strict=True):
        np.testing.assert_array_equal(np.asarray(one, np.float32).reshape(-1, 2), other)

"""Streams of sentences into files: layouts, order, interruption, and disks that fill up."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny

from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.jobs import run
from stelmo.settings import OutputSettings
from stelmo.text.formats import Sentence

LINES = ["The bank .", "", "a/b river", "The bank .", "über 日本 bank"] * 5
SENTENCES = [Sentence(line.split(), "corpus.txt", number) for number, line in enumerate(LINES, 1)]
SMALL_BLOCKS = OutputSettings(block_tokens=7)


def embed(path, settings=SMALL_BLOCKS, sentences=SENTENCES, model=None, **options):
    return run.embed_to_file(model or tiny.model(), sentences, path, settings, **options)


def read_back(path):
    """Number → vectors, whatever the format."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {int(name): arrays[name] for name in arrays.files}
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        shape = table.schema.field(-1).type.value_type
        width = shape.list_size if hasattr(shape, "list_size") else table.schema.field(-1).type.list_size
        rows = zip(table["index"].to_pylist(), table.column(4).to_pylist(), strict=True)
        return {number: np.array(row, float).reshape(-1, width) for number, row in rows}
    if path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        return {n: np.array(json.loads(line)["vectors"]).reshape(-1, 12) for n, line in enumerate(lines)}
    with h5py.File(path) as file:
        return {int(name): file[name][...] for name in file if name != "sentence_to_index"}


@pytest.mark.parametrize("ending", [".hdf5", ".h5", ".npz", ".parquet", ".jsonl"])
def test_every_format_holds_the_vectors_in_order_with_duplicates_and_blank_lines(ending, tmp_path):
    path = tmp_path / f"v{ending}"
    assert embed(path) == (len(SENTENCES), True)
    expected = tiny.model().embed([sentence.tokens for sentence in SENTENCES])
    found = read_back(path)
    assert sorted(found) == list(range(len(SENTENCES)))
    for number, vectors in enumerate(expected):
        np.testing.assert_allclose(found[number], vectors, atol=1e-5)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [f".{path.name}.run.json", path.name]


def test_hdf5_has_the_layout_of_the_old_command(tmp_path):
    embed(tmp_path / "v.hdf5", OutputSettings(layer="all"))
    with h5py.File(tmp_path / "v.hdf5") as file:
        assert file["0"].shape == (3, 3, 12)
        assert file["0"].dtype == np.float32
        assert file["1"].shape == (3, 0, 12)
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index["The bank ."] == "23"
    assert index["a/b river"] == "22"
    assert index[""] == "21"


def test_hdf5_can_forget_the_sentences(tmp_path):
    embed(tmp_path / "v.hdf5", OutputSettings(forget_sentences=True))
    with h5py.File(tmp_path / "v.hdf5") as file:
        assert "sentence_to_index" not in file


def test_parquet_keeps_text_places_and_settings(tmp_path):
    embed(tmp_path / "v.parquet", OutputSettings(layer="all", dtype="float16"))
    table = pq.read_table(tmp_path / "v.parquet")
    assert table["tokens"].to_pylist() == [sentence.tokens for sentence in SENTENCES]
    assert table["line"].to_pylist() == list(range(1, len(SENTENCES) + 1))
    assert set(table["source"].to_pylist()) == {"corpus.txt"}
    about = json.loads(table.schema.metadata[b"stelmo"])
    assert (about["layer"], about["layers"], about["state"]) == ("all", 3, "warm")
    expected = tiny.model().layers([SENTENCES[2].tokens])[0].swapaxes(0, 1).reshape(2, 36)
    np.testing.assert_allclose(np.array(table["vectors"][2].as_py(), float), expected, atol=5e-3)


@pytest.mark.parametrize("ending", [".hdf5", ".npz", ".parquet", ".jsonl"])
def test_sentence_vectors_are_means_over_tokens(ending, tmp_path):
    embed(tmp_path / f"v{ending}", OutputSettings(sentence_vectors=True, block_tokens=7))
    expected = tiny.model().sentence_vectors([sentence.tokens for sentence in SENTENCES])
    found = read_back(tmp_path / f"v{ending}")
    for number, vector in enumerate(expected):
        np.testing.assert_allclose(found[number].ravel(), vector, atol=1e-5)


def test_float16_halves_the_file_and_keeps_three_figures(tmp_path):
    embed(tmp_path / "half.npz", OutputSettings(dtype="float16"))
    embed(tmp_path / "full.npz")
    half, full = read_back(tmp_path / "half.npz"), read_back(tmp_path / "full.npz")
    assert half[0].dtype == np.float16
    np.testing.assert_allclose(half[0], full[0], rtol=1e-3, atol=1e-3)


class PulledPlugError(Exception):
    """Stands for anything that ends a run in the middle."""


def interrupted(after):
    yield from SENTENCES[:after]
    raise PulledPlugError


def counting(model):
    """Counts the sentences that are computed, as opposed to found finished."""
    counted, original = [], model.run

    def count(sentences, *rest, **options):
        counted.extend(sentences)
        return original(sentences, *rest, **options)

    model.run = count
    return counted


@pytest.mark.parametrize("state", ["warm", "carry"])
@pytest.mark.parametrize("after", [1, 9, 17, 24])
def test_an_interrupted_run_goes_on_and_ends_in_the_same_bytes(after, state, tmp_path):
    whole, broken = tmp_path / "whole.npz", tmp_path / "broken.npz"
    embed(whole, model=tiny.model(state=state, batch_rows=2))
    with pytest.raises(PulledPlugError):
        embed(broken, sentences=interrupted(after), model=tiny.model(state=state, batch_rows=2))
    assert not broken.exists()
    model = tiny.model(state=state, batch_rows=2)
    computed = counting(model)
    embed(broken, model=model)
    assert broken.read_bytes() == whole.read_bytes()
    assert len(computed) < len(SENTENCES) or after == 1
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.suffix != ".json") == ["broken.npz", "whole.npz"]


def test_a_block_of_another_text_is_not_used_again(tmp_path):
    with pytest.raises(PulledPlugError):
        embed(tmp_path / "v.npz", sentences=interrupted(17))
    changed = [Sentence(["another", "text"], "corpus.txt", 1), *SENTENCES[1:]]
    embed(tmp_path / "v.npz", sentences=changed)
    np.testing.assert_allclose(
        read_back(tmp_path / "v.npz")[0], tiny.model().embed([["another", "text"]])[0], atol=1e-6
    )


def test_a_run_left_by_other_settings_is_not_mixed_in(tmp_path):
    with pytest.raises(PulledPlugError):
        embed(tmp_path / "v.npz", sentences=interrupted(17))
    with pytest.raises(OutputError, match="another layer"):
        embed(tmp_path / "v.npz", OutputSettings(layer="top", block_tokens=7))
    embed(tmp_path / "v.npz", OutputSettings(layer="top", block_tokens=7), overwrite=True)
    top = tiny.model().embed([SENTENCES[0].tokens], layer="top")[0]
    np.testing.assert_allclose(read_back(tmp_path / "v.npz")[0], top, atol=1e-6)


def test_a_folder_of_something_else_beside_the_output_is_left_alone(tmp_path):
    mine = tmp_path / "v.npz.partial" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=r"partial is needed for unfinished work but contains thesis\.txt"):
            embed(tmp_path / "v.npz", overwrite=overwrite)
    mine.rename(tmp_path / "thesis.txt")
    embed(tmp_path / "v.npz")
    mine.parent.mkdir()
    (tmp_path / "thesis.txt").rename(mine)
    embed(tmp_path / "v.npz")  # finished already
    assert mine.read_text() == "mine"


def test_a_damaged_block_is_computed_again(tmp_path):
    with pytest.raises(PulledPlugError):
        embed(tmp_path / "v.npz", sentences=interrupted(17))
    (tmp_path / "v.npz.partial" / "000001.npz").write_bytes(b"torn")
    embed(tmp_path / "v.npz")
    embed(tmp_path / "again.npz")
    assert (tmp_path / "v.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


def last_number_changed(block):
    place = block.rindex(b"PK\3\4") - 5  # the end of the numbers, before the next member, or before the directory
    return block[:place] + bytes([block[place] ^ 1]) + block[place + 1 :]


DAMAGES = {
    "cut": lambda block: block[: len(block) // 2],
    "a number": last_number_changed,
    "a header that is not an expression": lambda block: block.replace(b"'descr'", b"'descr["),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_whatever_is_damaged_in_a_block_it_is_computed_again(damage, tmp_path):
    with pytest.raises(PulledPlugError):
        embed(tmp_path / "v.npz", sentences=interrupted(17))
    block = tmp_path / "v.npz.partial" / "000001.npz"
    whole = block.read_bytes()
    block.write_bytes(damage(whole))
    assert block.read_bytes() != whole
    embed(tmp_path / "v.npz")
    embed(tmp_path / "again.npz")
    assert (tmp_path / "v.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000])
def test_damaged_settings_of_an_interrupted_run_are_refused(content, tmp_path):
    with pytest.raises(PulledPlugError):
        embed(tmp_path / "v.npz", sentences=interrupted(17))
    (tmp_path / "v.npz.partial" / "settings.json").write_text(content)
    with pytest.raises(OutputError, match="delete"):
        embed(tmp_path / "v.npz")


def test_carry_in_a_file_is_carry_in_one_call(tmp_path):
    model = tiny.model(state="carry", batch_rows=3)
    embed(tmp_path / "v.npz", model=model)
    found = read_back(tmp_path / "v.npz")
    for number, vectors in enumerate(model.embed([sentence.tokens for sentence in SENTENCES])):
        np.testing.assert_allclose(found[number], vectors, atol=1e-6)


def test_progress_is_told_every_token(tmp_path):
    told = []
    embed(tmp_path / "v.npz", advance=told.append)
    assert sum(told) == sum(len(sentence.tokens) for sentence in SENTENCES)
    assert len(told) > 3


def test_an_output_that_exists_is_kept_and_overwritten_only_when_asked(tmp_path):
    (tmp_path / "v.npz").write_text("precious")
    with pytest.raises(OutputError, match="exists"):
        embed(tmp_path / "v.npz")
    assert (tmp_path / "v.npz").read_text() == "precious"
    embed(tmp_path / "v.npz", overwrite=True)
    assert len(read_back(tmp_path / "v.npz")) == len(SENTENCES)


@pytest.mark.parametrize("ending", [".hdf5", ".npz", ".parquet", ".jsonl"])
def test_a_finished_run_that_is_repeated_does_nothing(ending, tmp_path):
    path = tmp_path / f"v{ending}"
    embed(path)
    before, model = path.stat(), tiny.model()
    computed = counting(model)
    assert embed(path, model=model) == (len(SENTENCES), False)
    assert (path.stat().st_ino, path.stat().st_mtime_ns, computed) == (before.st_ino, before.st_mtime_ns, [])


def test_a_run_killed_after_its_output_is_complete_is_finished(tmp_path, monkeypatch):
    original = run.atomic.remove

    def killed(path):
        if path.name == "v.npz.partial" and (tmp_path / "v.npz").exists():
            raise PulledPlugError
        original(path)

    with monkeypatch.context() as patch:
        patch.setattr(run.atomic, "remove", killed)
        with pytest.raises(PulledPlugError):
            embed(tmp_path / "v.npz")
    assert list((tmp_path / "v.npz.partial").glob("*.npz"))
    assert embed(tmp_path / "v.npz") == (len(SENTENCES), False)
    assert not (tmp_path / "v.npz.partial").exists()


@pytest.mark.parametrize(
    ("sentences", "settings"),
    [(SENTENCES[:-1], SMALL_BLOCKS), (SENTENCES, OutputSettings(block_tokens=7, layer="top")), ([], SMALL_BLOCKS)],
)
def test_a_finished_output_of_another_run_is_not_taken_for_this_one(sentences, settings, tmp_path):
    embed(tmp_path / "v.npz")
    with pytest.raises(OutputError, match="exists"):
        embed(tmp_path / "v.npz", settings, sentences)


def test_vectors_from_another_warm_state_are_not_taken_for_these(tmp_path):
    model = tiny.model(state="warm")
    model.warm_up([["the", "bank"]])
    embed(tmp_path / "v.npz", model=model)
    with pytest.raises(PulledPlugError):
        embed(tmp_path / "broken.npz", model=model, sentences=interrupted(9))
    assert embed(tmp_path / "v.npz", model=model) == (len(SENTENCES), False)
    model.warm_up([["river", "river", "river"]])
    with pytest.raises(OutputError, match="exists"):
        embed(tmp_path / "v.npz", model=model)
    with pytest.raises(OutputError, match="left by a run with another warm_state"):
        embed(tmp_path / "broken.npz", model=model)


def test_an_output_that_was_changed_is_not_taken_for_a_finished_one(tmp_path):
    embed(tmp_path / "v.npz")
    (tmp_path / "v.npz").write_text("precious")
    with pytest.raises(OutputError, match="exists"):
        embed(tmp_path / "v.npz")
    (tmp_path / ".v.npz.run.json").write_text("torn")
    with pytest.raises(OutputError, match="exists"):
        embed(tmp_path / "v.npz")
    assert (tmp_path / "v.npz").read_text() == "precious"


KILLED = """
import os, sys
from pathlib import Path
from stelmo.store import atomic
with atomic.new_file(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_drafts_of_killed_processes_are_removed_and_those_of_others_are_not(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "v.npz"], check=False)
    (left,) = tmp_path.iterdir()
    with run.atomic.new_file(tmp_path / "v.npz") as alive:
        run.atomic.remove_dead_drafts(tmp_path / "v.npz")
        assert list(tmp_path.iterdir()) == [alive]
    left.write_text("half")
    embed(tmp_path / "v.npz", overwrite=True)
    assert not left.exists()


@pytest.mark.parametrize("name", ["v.npz.partial", ".v.npz.run.json"])
def test_drafts_of_the_working_folder_and_of_the_note_are_removed(name, tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / name], check=False)
    embed(tmp_path / "v.npz")
    assert {entry.name for entry in tmp_path.iterdir()} == {"v.npz", ".v.npz.run.json"}


def test_an_unknown_ending_is_refused_before_any_work(tmp_path):
    with pytest.raises(ConfigError, match=r"'\.txt'"):
        embed(tmp_path / "v.txt", sentences=interrupted(0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("token", ["\ud800", "a/b", ".", "\0"])
def test_a_sentence_that_cannot_be_a_key_is_refused_and_leaves_nothing(token, tmp_path):
    with pytest.raises(DataError, match=r"corpus\.txt:1: .* cannot be a key of HDF5"):
        embed(tmp_path / "v.hdf5", OutputSettings(use_sentence_keys=True), [Sentence([token], "corpus.txt", 1)])
    assert list(tmp_path.iterdir()) == []


def test_no_sentence_at_all_leaves_nothing(tmp_path):
    with pytest.raises(DataError, match="no sentence"):
        embed(tmp_path / "v.npz", sentences=[])
    assert list(tmp_path.iterdir()) == []

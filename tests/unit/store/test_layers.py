"""A folder of layers: whole blocks or none, wherever it is torn; one writer; one model."""

import errno
import pickle
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.errors import DataError, OutputError
from stelmo.store import growing
from stelmo.store import layers as store
from stelmo.store.layers import LayerFolder, Manifest

MANIFEST = Manifest(
    model="1a2b3c4d5e", settings={"state": "warm", "precision": "float32"}, depth=2, width=3, dtype="float32"
)
START = np.arange(4.0)
LENGTHS = [[2, 0], [1], [0], [3, 1]]  # tokens of each sentence of each block
KEYS = [bytes([number]) * 16 for number in range(6)]


def numbers(number, tokens, dtype="float32"):
    return (np.random.default_rng(number).normal(size=(2, tokens, 3))).astype(dtype)


def blocks():
    """Keys and layers of each block."""
    place = 0
    for lengths in LENGTHS:
        keys = KEYS[place : place + len(lengths)]
        yield keys, [numbers(place + row, tokens) for row, tokens in enumerate(lengths)]
        place += len(lengths)


def write(folder, chosen=None, manifest=MANIFEST):
    store.prepare(folder, manifest, START)
    with store.appending(folder, manifest) as appender:
        for keys, layers in blocks() if chosen is None else chosen:
            appender.append(keys, layers)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "layers")


def assert_first_sentences(found, count):
    """The first so many are there with their numbers, and no other."""
    assert len(found) == count
    assert [key in found for key in KEYS] == [number < count for number in range(len(KEYS))]
    lengths = [tokens for block in LENGTHS for tokens in block]
    for number in range(count):
        np.testing.assert_array_equal(found[KEYS[number]], numbers(number, lengths[number]))


def sentences_within(blocks):
    return sum(len(lengths) for lengths in LENGTHS[:blocks])


# Numbers


def test_what_was_written_is_read_back_bit_by_bit(folder):
    assert_first_sentences(LayerFolder(folder, MANIFEST), len(KEYS))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_dtype_is_kept(dtype, tmp_path):
    manifest = MANIFEST.model_copy(update={"dtype": dtype})
    write(tmp_path / "layers", [(KEYS[:1], [numbers(0, 2, dtype)])], manifest)
    found = LayerFolder(tmp_path / "layers", manifest)[KEYS[0]]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, numbers(0, 2, dtype))


def test_layers_are_views_of_one_map_and_cannot_be_written(folder):
    found = LayerFolder(folder, MANIFEST)
    assert np.shares_memory(found[KEYS[0]], found[KEYS[0]])
    with pytest.raises(ValueError, match="read-only"):
        found[KEYS[0]][0, 0, 0] = 1


def test_layers_that_are_not_contiguous_are_written_in_their_order(tmp_path):
    turned = numbers(0, 4).swapaxes(1, 2).copy().swapaxes(1, 2)
    assert not turned.flags.c_contiguous
    write(tmp_path / "layers", [(KEYS[:1], [turned])])
    np.testing.assert_array_equal(LayerFolder(tmp_path / "layers", MANIFEST)[KEYS[0]], turned)


def test_a_folder_without_a_sentence_is_empty(tmp_path):
    store.prepare(tmp_path / "layers", MANIFEST, START)
    assert_first_sentences(LayerFolder(tmp_path / "layers", MANIFEST), 0)


def test_a_pickle_is_the_folder_and_not_its_numbers(folder):
    pickled = pickle.dumps(LayerFolder(folder, MANIFEST))
    assert numbers(0, 2).tobytes() not in pickled
    assert_first_sentences(pickle.loads(pickled), len(KEYS))


def test_a_pickle_of_a_folder_that_was_replaced_is_refused(folder):
    pickled = pickle.dumps(LayerFolder(folder, MANIFEST))
    shutil.rmtree(folder)
    store.prepare(folder, MANIFEST.model_copy(update={"model": "another"}), START)
    with pytest.raises(DataError, match="was replaced"):
        pickle.loads(pickled)


# Torn files


def ends_of_blocks(folder, name):
    """The file's size behind each block, from none on."""
    records = [len(lengths) * store.RECORD.itemsize + store.BLOCKS.header.size for lengths in LENGTHS]
    tokens = [sum(lengths) * MANIFEST.token_bytes for lengths in LENGTHS]
    return np.cumsum([0, *(records if name == store.INDEX else tokens)])


@pytest.mark.parametrize("name", [store.INDEX, store.NUMBERS])
def test_torn_at_any_byte_the_whole_blocks_are_read_and_the_rest_can_be_written_again(name, folder):
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    ends = ends_of_blocks(folder, name)
    assert ends[-1] == len(whole[name])
    for size in range(len(whole[name]) + 1):
        (folder / name).write_bytes(whole[name][:size])
        kept = int((ends <= size).sum()) - 1
        assert_first_sentences(LayerFolder(folder, MANIFEST), sentences_within(kept))
        write(folder, list(blocks())[kept:])
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_changed_bit_of_the_index_never_gives_other_numbers(data, tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("flipped") / "layers")
    index = bytearray((folder / store.INDEX).read_bytes())
    place = data.draw(st.integers(0, len(index) - 1))
    index[place] ^= 1 << data.draw(st.integers(0, 7))
    (folder / store.INDEX).write_bytes(index)
    kept = int((ends_of_blocks(folder, store.INDEX) <= place).sum()) - 1
    assert_first_sentences(LayerFolder(folder, MANIFEST), sentences_within(kept))


@pytest.mark.parametrize("tail", [bytes(100), b"\xff" * 100, b"x"], ids=["zeros", "ones", "short"])
@pytest.mark.parametrize("name", [store.INDEX, store.NUMBERS])
def test_rubbish_behind_the_last_block_is_ignored_and_cut_off(name, tail, folder):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole + tail)
    assert_first_sentences(LayerFolder(folder, MANIFEST), len(KEYS))
    with store.appending(folder, MANIFEST):
        pass
    assert (folder / name).read_bytes() == whole


def test_a_map_that_is_open_while_others_write_stays_as_it_was(tmp_path):
    first, *others = blocks()
    before = LayerFolder(write(tmp_path / "layers", [first]), MANIFEST)
    write(tmp_path / "layers", others)
    assert_first_sentences(before, sentences_within(1))
    assert_first_sentences(LayerFolder(tmp_path / "layers", MANIFEST), len(KEYS))


@pytest.mark.parametrize("left", [[], [growing.LOCK], [store.START, ".manifest.json.x.partial.json"]], ids=str)
def test_a_folder_whose_making_was_stopped_is_made(left, tmp_path):
    for name in left:
        (tmp_path / name).write_bytes(b"half")
    write(tmp_path)
    assert_first_sentences(LayerFolder(tmp_path, MANIFEST), len(KEYS))


def test_a_full_disk_is_said_in_words_and_keeps_what_was_finished(folder, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(growing, "flush_to_disk", full)
    with pytest.raises(OutputError, match=r"disk is full.*is kept"):
        write(folder, [([b"k" * 16], [numbers(9, 2)])])
    assert_first_sentences(LayerFolder(folder, MANIFEST), len(KEYS))


# One writer

HOLD = """
import sys
from pathlib import Path
from stelmo.store import layers
folder = Path(sys.argv[1])
with layers.appending(folder, layers.read_manifest(folder)):
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_until_the_first_is_gone_even_by_a_kill(folder):
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"writing\n"
        with pytest.raises(OutputError, match=f"process {first.pid} is writing in this folder; wait"):
            write(folder)
        assert_first_sentences(LayerFolder(folder, MANIFEST), len(KEYS))
        first.send_signal(signal.SIGKILL)
    assert (folder / growing.LOCK).read_text() == f"process {first.pid}"
    with store.appending(folder, MANIFEST):
        pass


def test_a_second_writer_of_the_same_process_is_refused(folder):
    with store.appending(folder, MANIFEST), pytest.raises(OutputError, match="is writing in this folder"):
        write(folder)


# One model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "ffffffffff"}, r"another model \(fingerprint 1a2b3c4d there, ffffffff here\); choose another"),
        ({"settings": {"state": "fresh", "precision": "float32"}}, r"another state \(warm there, fresh here\)"),
        ({"settings": {"state": "warm", "precision": "float64"}}, r"another precision \(float32 there, float64 here\)"),
        ({"settings": MANIFEST.settings | {"later": True}}, r"another later \(None there, True here\)"),
        ({"dtype": "float16"}, r"another dtype \(float32 there, float16 here\)"),
        ({"depth": 3, "width": 2}, r"another depth \(2 there, 3 here\) and another width \(3 there, 2 here\)"),
    ],
)
def test_another_model_or_setting_is_refused_by_name(change, message, folder):
    with pytest.raises(OutputError, match=message):
        store.prepare(folder, MANIFEST.model_copy(update=change), START)
    assert_first_sentences(LayerFolder(folder, MANIFEST), len(KEYS))


@pytest.mark.parametrize("start", [START + 0.01, START[:3]], ids=["numbers", "shape"])
def test_another_start_state_is_refused_and_a_last_bit_is_not(start, folder):
    store.prepare(folder, MANIFEST, START + 1e-7)
    with pytest.raises(OutputError, match="another warm state"):
        store.prepare(folder, MANIFEST, start)


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="does not hold precomputed layers"):
        store.prepare(tmp_path, MANIFEST, START)
    with pytest.raises(OutputError, match="does not hold precomputed layers"):
        store.prepare(tmp_path / "thesis.tex", MANIFEST, START)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_missing_parent_folder_is_named(tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        store.prepare(tmp_path / "no" / "layers", MANIFEST, START)


@pytest.mark.parametrize("text", ["", "[", "[]", '{"stelmo": 2}', "{}"], ids=repr)
def test_a_damaged_manifest_is_refused(text, folder):
    (folder / growing.MANIFEST).write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json"):
        store.prepare(folder, MANIFEST, START)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\x93NUMPY\x01\x00"], ids=repr)
def test_a_damaged_start_state_is_refused(content, folder):
    (folder / store.START).write_bytes(content)
    with pytest.raises(DataError, match=r"start\.npy"):
        store.prepare(folder, MANIFEST, START)

"""Word uses on disk: what was added and not deleted, whatever stops the writer."""

import errno
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.errors import DataError, OutputError
from stelmo.store import growing
from stelmo.store import uses as store
from stelmo.store.uses import Manifest, Sentence, UseFolder

MANIFEST = Manifest(model="1a2b3c4d5e6f", settings={"state": "warm"}, depth=2, width=3)
BLOCKS = [
    [Sentence(("the", "bank", "."), (0, 1)), Sentence(("über", "\udc80日本"), (1,))],
    [Sentence(("a", 'line\n"two"'), (0, 1))],
    [1, 3],
    [Sentence(("river",), (0,))],
]
USES = [2 + 1, 2, 0, 1]  # of each block


def numbers(first, count):
    return np.arange(6 * first, 6 * (first + count)).reshape(count, 2, 3).astype(np.float16)


def write(folder, blocks=BLOCKS):
    """Sentences are added, numbers deleted."""
    store.prepare(folder, MANIFEST)
    with store.writing(folder) as writer:
        first = len(writer.found.there_N)
        for block in blocks:
            if isinstance(block[0], int):
                writer.delete(block)
            else:
                count = sum(len(sentence.positions) for sentence in block)
                writer.add(block, numbers(first, count))
                first += count
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "uses")


def assert_first_blocks(folder, count):
    found = UseFolder(folder)
    sentences = [s for block in BLOCKS[:count] for s in block if isinstance(s, Sentence)]
    assert found.sentences == [sentence.tokens for sentence in sentences]
    places = [(number, position) for number, s in enumerate(sentences) for position in s.positions]
    assert list(zip(found.sentence_N.tolist(), found.position_N.tolist(), strict=True)) == places
    assert found.there_N.tolist() == [count < 3 or use not in BLOCKS[2] for use in range(len(places))]
    np.testing.assert_array_equal(found.layers(range(len(places))), numbers(0, len(places)))


# Numbers and text


def test_what_was_written_is_read_back_bit_by_bit(folder):
    assert_first_blocks(folder, len(BLOCKS))


def test_a_folder_written_in_several_goes_is_the_same(folder, tmp_path):
    for block in BLOCKS:
        write(tmp_path / "slowly", [block])
    for name in (store.JOURNAL, store.VECTORS):
        assert (tmp_path / "slowly" / name).read_bytes() == (folder / name).read_bytes()


def test_vectors_are_a_map_of_the_file_and_cannot_be_written(folder):
    with pytest.raises(ValueError, match="read-only"):
        UseFolder(folder).rows_NB[0] = 1


def test_a_folder_without_a_use_is_empty(tmp_path):
    store.prepare(tmp_path / "uses", MANIFEST)
    assert_first_blocks(tmp_path / "uses", 0)


def test_a_folder_open_while_another_process_writes_stays_as_it_was(tmp_path):
    before = UseFolder(write(tmp_path / "uses", BLOCKS[:2]))
    write(tmp_path / "uses", BLOCKS[2:])
    assert before.there_N.all()
    np.testing.assert_array_equal(before.layers(range(5)), numbers(0, 5))


# Vectors in 8 bits

INT8 = Manifest(model="1a", settings={}, depth=3, width=8, vectors="int8")


def layers(seed, count, scale=1.0):
    """Layer 0 has two equal halves, as in a biLM."""
    layers_NLD = scale * np.random.default_rng(seed).standard_normal((count, 3, 8)).astype(np.float32)
    layers_NLD[:, 0, 4:] = layers_NLD[:, 0, :4]
    return layers_NLD


@given(seed=st.integers(0, 1000), count=st.integers(0, 5), scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e6, 1e30]))
def test_8_bits_are_off_by_half_a_step_at_most(seed, count, scale):
    layers_NLD = layers(seed, count, scale)
    rows_NB = INT8.packed(layers_NLD)
    assert rows_NB.shape == (count, INT8.use_bytes)
    found_NLD = np.stack([INT8.layer(rows_NB, number) for number in range(3)], 1)
    step_NL1 = np.abs(layers_NLD).max(2, keepdims=True) / 127
    assert (np.abs(found_NLD - layers_NLD) <= step_NL1 * 0.501).all()
    np.testing.assert_array_equal(INT8.packed(found_NLD), rows_NB)


def test_zeros_stay_zeros_in_8_bits():
    zeros_NLD = np.zeros((2, 3, 8), np.float32)
    np.testing.assert_array_equal(INT8.layer(INT8.packed(zeros_NLD), 1), zeros_NLD[:, 1])


def test_chosen_layers_alone_are_read(tmp_path):
    store.prepare(tmp_path / "uses", INT8)
    with store.writing(tmp_path / "uses") as writer:
        writer.add([Sentence(("a", "b"), (0, 1))], layers(0, 2))
    found = UseFolder(tmp_path / "uses")
    np.testing.assert_array_equal(found.layers([1, 0], [2, 0]), found.layers([0, 1])[::-1][:, [2, 0]])
    assert (tmp_path / "uses" / store.VECTORS).stat().st_size == 2 * INT8.use_bytes
    assert INT8.use_bytes < 2 * 3 * 8


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("manifest", [INT8, INT8.model_copy(update={"vectors": "float16"})], ids=lambda m: m.vectors)
def test_numbers_that_are_not_finite_are_refused(manifest, bad):
    layers_NLD = layers(0, 2)
    layers_NLD[1, 2, 3] = bad
    with pytest.raises(DataError, match="stores finite numbers"):
        manifest.packed(layers_NLD)


def test_float16_refuses_what_it_cannot_hold():
    with pytest.raises(DataError, match=r"reach .*up to 65504, which float16 holds"):
        MANIFEST.packed(np.full((1, 2, 3), 1e6))


def test_an_index_in_float16_without_a_word_about_it_is_read_and_grows_as_it_is(tmp_path):
    folder = write(tmp_path / "uses", BLOCKS[:1])
    manifest = json.loads((folder / growing.MANIFEST).read_text())
    del manifest["vectors"]
    (folder / growing.MANIFEST).write_text(json.dumps(manifest))
    store.prepare(folder, MANIFEST.model_copy(update={"vectors": "int8"}))
    write(folder, BLOCKS[1:])
    assert_first_blocks(folder, len(BLOCKS))


def test_a_discarded_index_leaves_other_files_alone(folder, tmp_path):
    store.discard(folder)
    assert not folder.exists()
    store.prepare(tmp_path / "kept", MANIFEST)
    (tmp_path / "kept" / "thesis.tex").write_text("years of work")
    store.discard(tmp_path / "kept")
    assert [file.name for file in (tmp_path / "kept").iterdir()] == ["thesis.tex"]


# Torn files


def journal_ends(folder):
    """The journal's size behind each block, from none on."""
    journal = (folder / store.JOURNAL).read_bytes()
    return [0, *(block.end for block in store.BLOCKS.complete_blocks(journal))]


def blocks_within(folder, name, size):
    """How many leading blocks are whole when the file ends there."""
    if name == store.JOURNAL:
        return sum(end <= size for end in journal_ends(folder)) - 1
    room = size // MANIFEST.use_bytes
    return max(count for count in range(len(BLOCKS) + 1) if all(sum(USES[: n + 1]) <= room for n in range(count)))


@pytest.mark.parametrize("name", [store.JOURNAL, store.VECTORS])
def test_torn_at_any_byte_the_whole_blocks_are_read_and_the_rest_can_be_written_again(name, folder):
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    kept = [blocks_within(folder, name, size) for size in range(len(whole[name]) + 1)]
    for size, count in enumerate(kept):
        (folder / name).write_bytes(whole[name][:size])
        assert_first_blocks(folder, count)
        write(folder, BLOCKS[count:])
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole


@given(data=st.data())
@settings(max_examples=60)
def test_a_changed_bit_of_the_journal_never_gives_other_uses(data, tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("flipped") / "uses")
    ends = journal_ends(folder)
    journal = bytearray((folder / store.JOURNAL).read_bytes())
    place = data.draw(st.integers(0, len(journal) - 1))
    journal[place] ^= 1 << data.draw(st.integers(0, 7))
    (folder / store.JOURNAL).write_bytes(journal)
    assert_first_blocks(folder, sum(end <= place for end in ends) - 1)


@pytest.mark.parametrize("tail", [bytes(100), b"\xff" * 100, b"x"], ids=["zeros", "ones", "short"])
@pytest.mark.parametrize("name", [store.JOURNAL, store.VECTORS])
def test_rubbish_behind_the_last_block_is_ignored_and_cut_off(name, tail, folder):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole + tail)
    assert_first_blocks(folder, len(BLOCKS))
    with store.writing(folder):
        pass
    assert (folder / name).read_bytes() == whole


def test_a_full_disk_is_said_in_words_and_keeps_what_was_finished(folder, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(growing, "flush_to_disk", full)
    with pytest.raises(OutputError, match=r"disk is full.*is kept"):
        write(folder, BLOCKS[:1])
    assert_first_blocks(folder, len(BLOCKS))


def test_a_folder_of_another_kind_is_refused_with_the_way_to_an_index(tmp_path):
    (tmp_path / growing.MANIFEST).write_text('{"corpus": 1}')
    with pytest.raises(DataError, match=r"manifest\.json: not that of an index of word uses; make one with"):
        store.UseFolder(tmp_path)


@pytest.mark.parametrize("left", [[], [growing.LOCK], [".manifest.json.x.partial.json"]], ids=str)
def test_a_folder_whose_making_was_stopped_is_made(left, tmp_path):
    for name in left:
        (tmp_path / name).write_bytes(b"half")
    write(tmp_path)
    assert_first_blocks(tmp_path, len(BLOCKS))


# One writer, one model

HOLD = """
import sys
from pathlib import Path
from stelmo.store import uses
with uses.writing(Path(sys.argv[1])):
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_until_the_first_is_gone_even_by_a_kill(folder):
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"writing\n"
        with pytest.raises(OutputError, match=f"process {first.pid} is writing in this folder; wait"):
            write(folder)
        assert_first_blocks(folder, len(BLOCKS))
        first.send_signal(signal.SIGKILL)
    with store.writing(folder):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "ffffffffff"}, r"by another model \(1a2b3c4d there, ffffffff here\); choose another folder"),
        ({"settings": {"state": "fresh"}}, r'other settings \({"state": "warm"} there, {"state": "fresh"} here\)'),
    ],
)
def test_another_model_or_setting_is_refused(change, message, folder):
    with pytest.raises(OutputError, match=message):
        store.prepare(folder, MANIFEST.model_copy(update=change))
    assert_first_blocks(folder, len(BLOCKS))


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="does not hold an index of word uses"):
        store.prepare(tmp_path, MANIFEST)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_is_no_index_is_named_with_the_way_out(tmp_path):
    with pytest.raises(DataError, match="no index of word uses; make one with `stelmo index CORPUS --to DIR`"):
        UseFolder(tmp_path)


@pytest.mark.parametrize("text", ["", "[", "[]", '{"stelmo": 2}', "{}"], ids=repr)
def test_a_damaged_manifest_is_refused(text, folder):
    (folder / growing.MANIFEST).write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json"):
        UseFolder(folder)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (store.ADD, json.dumps([["a"], [1]]).encode()),
        (store.ADD, json.dumps([["a"], [-1]]).encode()),
        (store.DELETE, np.array([10_000], "<i8").tobytes()),
        (store.DELETE, np.array([-1], "<i8").tobytes()),
    ],
    ids=["behind the sentence", "before it", "no such use", "negative use"],
)
def test_a_whole_journal_of_impossible_places_is_refused(kind, body, folder):
    with (folder / store.VECTORS).open("ab") as vectors, (folder / store.JOURNAL).open("ab") as journal:
        vectors.write(bytes(MANIFEST.use_bytes))
        journal.write(store.BLOCKS.packed(body, kind))
    with pytest.raises(DataError, match=r"journal\.bin: positions or uses that do not exist"):
        UseFolder(folder)


def test_columns_are_kept_use_by_use(tmp_path):
    folder = tmp_path / "uses"
    first = Sentence(("the", "bank", "."), (0, 1), (("upos", ["DET", "NOUN"]),))
    write(folder, [[first, Sentence(("a",), (0,))], [Sentence(("river",), (0,), (("upos", ["NOUN"]), ("x", ["é\n"])))]])
    found = UseFolder(folder)
    assert found.columns == {"upos": {0: "DET", 1: "NOUN", 3: "NOUN"}, "x": {3: "é\n"}}
    assert found.sentences == [("the", "bank", "."), ("a",), ("river",)]
    assert ("columns", "upos, x") in store.describe(folder)


def test_sentences_without_columns_are_written_as_before():
    assert Sentence(("a", "bank"), (1,)).line == '[["a", "bank"], [1]]\n'
    assert Sentence.of_line(b'[["a", "bank"], [1]]') == Sentence(("a", "bank"), (1,))

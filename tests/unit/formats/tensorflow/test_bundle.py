"""What TensorFlow wrote is what we read, and nothing torn or crafted gets through."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from bundles import (
    MAGIC,
    NUMBERS,
    Tensors,
    block,
    entry,
    header,
    message,
    number,
    save,
    sealed,
    shape,
    table,
    varint,
    with_footer,
    write,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stelmo.errors import ModelError
from stelmo.formats.tensorflow import index as checksums
from stelmo.formats.tensorflow import index as tensorindex
from stelmo.formats.tensorflow.bundle import Bundle, latest_checkpoint, open_bundle

FIXTURE = Path(__file__).parents[3] / "fixtures" / "bilm_tf_checkpoint"
BILM, KINDS = FIXTURE / "model.ckpt-3", FIXTURE / "sharded" / "kinds.ckpt-7"
REFUSED = {"bfloat", "cut", "text"}


def everything(bundle: Bundle) -> Tensors:
    return {name: bundle.read(name) for name in bundle.names() if name not in REFUSED}


def same(found: Tensors, expected: Tensors) -> bool:
    kinds = all(found[name].dtype == expected[name].dtype for name in found)
    return found.keys() == expected.keys() and kinds and all(np.array_equal(found[n], expected[n]) for n in found)


def refused_or_same(prefix: Path, expected: Tensors) -> bool:
    """Any other exception is the caller's failure."""
    try:
        return same(everything(open_bundle(prefix)), expected)
    except ModelError as error:
        return "\n" not in str(error)


def refused(prefix: Path) -> bool:
    with pytest.raises(ModelError):
        everything(open_bundle(prefix))
    return True


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(FIXTURE, tmp_path / "copy")
    return tmp_path / "copy"


class TestReading:
    @pytest.mark.parametrize("prefix", [BILM, KINDS], ids=lambda prefix: prefix.name)
    def test_tensors_are_those_tensorflow_itself_read(self, prefix: Path) -> None:
        bundle = open_bundle(prefix)
        expected = dict(np.load(prefix.parent / "expected.npz"))
        wanted = {name: expected[name] for name in bundle.names() if name not in REFUSED}
        assert same(everything(bundle), wanted)

    def test_every_variable_of_the_bilm_is_listed_with_shape_and_kind(self) -> None:
        bundle, expected = open_bundle(BILM), dict(np.load(FIXTURE / "expected.npz"))
        assert set(bundle.names()) == set(expected)
        assert {name: bundle.shape(name) for name in bundle.names()} == {n: t.shape for n, t in expected.items()}
        assert {name: bundle.dtype(name) for name in bundle.names()} == {n: t.dtype for n, t in expected.items()}

    def test_a_name_is_in_the_bundle_or_not(self) -> None:
        bundle = open_bundle(BILM)
        assert "lm/char_embed" in bundle
        assert "char_embed" not in bundle

    def test_what_cannot_be_read_is_still_listed(self) -> None:
        bundle = open_bundle(KINDS)
        assert set(bundle.names()) >= REFUSED
        assert (bundle.shape("text"), bundle.dtype("text")) == ((2,), np.dtype(object))
        assert bundle.shape("cut") == (4, 3)

    @pytest.mark.parametrize(
        ("name", "reason"),
        [("text", "kind 7"), ("bfloat", "kind 14"), ("cut", "slices"), ("gone", "no tensor 'gone'")],
    )
    def test_what_cannot_be_read_is_refused_with_the_reason(self, name: str, reason: str) -> None:
        with pytest.raises(ModelError, match=reason):
            open_bundle(KINDS).read(name)

    def test_an_array_is_ours_to_change(self) -> None:
        bundle = open_bundle(BILM)
        before = bundle.read("lm/softmax/b").copy()
        bundle.read("lm/softmax/b")[:] = 7
        assert np.array_equal(bundle.read("lm/softmax/b"), before)

    @settings(max_examples=60, deadline=None)
    @given(
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
            st.sampled_from(sorted(NUMBERS)).flatmap(
                lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
            ),
            max_size=8,
        ),
        st.integers(1, 3),
        st.integers(1, 4),
        st.integers(0, 1),
    )
    def test_round_trip_over_shards_blocks_and_compression_changes_nothing(
        self, tensors: Tensors, count: int, per_block: int, compression: int
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            bundle = open_bundle(save(Path(folder) / "m", tensors, count, per_block, compression))
            found = {name: bundle.read(name) for name in bundle.names()}
        assert {n: (t.dtype, t.shape, t.tobytes()) for n, t in found.items()} == {
            n: (t.dtype, t.shape, t.tobytes()) for n, t in tensors.items()
        }

    def test_a_tensor_larger_than_one_checksum_piece_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checksums, "_PIECE", 10_000)
        tensors = {"wide": np.random.default_rng(0).normal(size=(100, 80)).astype(np.float32)}
        assert same(everything(open_bundle(save(tmp_path / "m", tensors))), tensors)


class TestTornFiles:
    @pytest.mark.parametrize("prefix", ["model.ckpt-3", "sharded/kinds.ckpt-7"])
    def test_an_index_cut_anywhere_is_refused(self, copy: Path, prefix: str) -> None:
        index = copy / f"{prefix}.index"
        data = index.read_bytes()
        for length in range(0, len(data), 3):
            index.write_bytes(data[:length])
            assert refused(copy / prefix)

    @pytest.mark.parametrize("suffix", ["data-00000-of-00002", "data-00001-of-00002"])
    def test_a_shard_cut_anywhere_is_refused(self, copy: Path, suffix: str) -> None:
        shard = copy / "sharded" / f"kinds.ckpt-7.{suffix}"
        data = shard.read_bytes()
        for length in range(len(data)):
            shard.write_bytes(data[:length])
            assert refused(copy / "sharded/kinds.ckpt-7")

    @pytest.mark.parametrize("suffix", ["index", "data-00000-of-00002", "data-00001-of-00002"])
    def test_a_bit_turned_anywhere_is_refused_or_changes_nothing(self, copy: Path, suffix: str) -> None:
        prefix = copy / "sharded/kinds.ckpt-7"
        file, expected = Path(f"{prefix}.{suffix}"), everything(open_bundle(prefix))
        data = file.read_bytes()
        for at in range(len(data)):
            file.write_bytes(flipped(data, at, at * 5 % 8))
            assert refused_or_same(prefix, expected)

    def test_a_bit_turned_in_the_weights_is_refused(self, copy: Path) -> None:
        shard = copy / "model.ckpt-3.data-00000-of-00001"
        data = shard.read_bytes()
        for at in range(0, len(data), 701):
            shard.write_bytes(flipped(data, at, at % 8))
            assert refused(copy / "model.ckpt-3")

    def test_a_bit_turned_in_the_names_or_places_is_refused(self, copy: Path) -> None:
        index = copy / "model.ckpt-3.index"
        data = index.read_bytes()
        for at in range(0, len(data) - 200, 11):
            index.write_bytes(flipped(data, at, at % 8))
            assert refused(copy / "model.ckpt-3")

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=200))
    def test_any_bytes_for_an_index_are_refused(self, data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            assert refused(write(Path(folder) / "m", data, [b""]))
            assert refused(write(Path(folder) / "m", data[:40].ljust(40, b"\0") + MAGIC, [b""]))

    @pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
    def test_a_missing_file_is_named(self, copy: Path, suffix: str) -> None:
        (copy / f"model.ckpt-3.{suffix}").unlink()
        with pytest.raises(ModelError, match=rf"model\.ckpt-3\.{suffix}: no such file"):
            open_bundle(copy / "model.ckpt-3")

    def test_a_folder_in_place_of_a_file_is_refused(self, copy: Path) -> None:
        (copy / "model.ckpt-3.index").unlink()
        (copy / "model.ckpt-3.index").mkdir()
        assert refused(copy / "model.ckpt-3")

    def test_a_shard_that_shrinks_after_opening_is_refused(self, copy: Path) -> None:
        bundle = open_bundle(copy / "model.ckpt-3")
        (copy / "model.ckpt-3.data-00000-of-00001").write_bytes(b"")
        with pytest.raises(ModelError, match="0 bytes"):
            bundle.read("lm/char_embed")

    def test_an_index_of_absurd_size_is_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "m.index").open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(ModelError, match="at most"):
            open_bundle(tmp_path / "m")


FOUR = np.float32(1).tobytes()
KINDS_SHARDS = [Path(f"{KINDS}.data-{i:05d}-of-00002").read_bytes() for i in range(2)]
KINDS_INDEX = Path(f"{KINDS}.index").read_bytes()
KINDS_BLOCK = KINDS_INDEX[: KINDS_INDEX.index(sealed(block([]))) - 5]  # TensorFlow's empty block follows it


class TestCraftedFiles:
    """Every checksum is right: only what the bytes say is wrong."""

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (entry(FOUR, shape=shape(1 << 40)), r"has 4 bytes, \(1099511627776,\) needs 4398046511104"),
            (entry(FOUR, shape=shape(2)), "has 4 bytes"),
            (entry(b""), "has 0 bytes"),
            (entry(FOUR, shape=shape(0, 1 << 61)), "larger than any memory"),
            (entry(FOUR, shape=shape(*[1] * 33)), "33 dimensions"),
            (entry(FOUR, shape=message(2, number(3, 1))), "unknown"),
            (entry(FOUR, shape=shape(-1 % (1 << 64))), "at least 0"),
            (entry(FOUR, shape=number(2, 1)), "a message is expected"),
            (entry(FOUR, shard=1), "shard 1, the last is 0"),
            (entry(FOUR, offset=1), "ends at byte 5"),
            (entry(FOUR, offset=1 << 62), "4 bytes, but"),
            (entry(FOUR, offset=-4 % (1 << 64)), "at least 0"),
            (entry(b"wide") + number(6, 5), "checksum"),
            (message(1, b"x"), "a number of at least 0"),
            (b"\x0b", "wire type 3"),
            (b"\x80" * 11, "no complete number"),
            (b"\x12\x7f", "are needed"),
            (b"\x35\0", "are needed"),
        ],
    )
    def test_an_impossible_entry_is_refused_with_the_reason(self, tmp_path: Path, value: bytes, reason: str) -> None:
        prefix = write(tmp_path / "m", table([(b"", header()), (b"w", value)]), [FOUR])
        with pytest.raises(ModelError, match=reason):
            everything(open_bundle(prefix))

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (header(shards=0), "says 0 shards"),
            (header(shards=1 << 40), "no such file"),
            (header(endianness=1), "little-endian"),
            (header(oldest_reader=2), "format 2"),
            (b"\x08", "no complete number"),
        ],
    )
    def test_an_impossible_header_is_refused_with_the_reason(self, tmp_path: Path, value: bytes, reason: str) -> None:
        with pytest.raises(ModelError, match=reason):
            open_bundle(write(tmp_path / "m", table([(b"", value)]), [FOUR]))

    @pytest.mark.parametrize(
        ("index", "reason"),
        [
            (table([]), "begins with its header"),
            (table([(b"w", entry(FOUR))]), "begins with its header"),
            (table([(b"", header()), (b"w", entry(FOUR)), (b"w", entry(FOUR))]), "ascending"),
            (table([(b"", header()), (b"w", entry(FOUR)), (b"a", entry(FOUR))], per_block=1), "ascending"),
            (table([(b"", header()), (b"\xff", entry(FOUR))]), "not UTF-8"),
            (table([(b"", header()), (b"n" * 2000, entry(FOUR))]), "a name of"),
            (table([(b"", header()), (b"w", number(9, 1) * 50_000)], compression=1), "an entry of"),
            (table([(b"", header())], compression=2), "compression 2"),
            (with_footer(b"", sealed(b"\0\0\0")), "are needed"),
            (with_footer(b"", sealed(b"\xff" * 8)), "are needed"),
            (with_footer(b"", sealed(b"\x05\0\0" + bytes(8))), "a name of"),
            (with_footer(b"", sealed(block([(b"a", b"\0\x63")]))), "are needed"),
        ],
    )
    def test_an_impossible_table_is_refused_with_the_reason(self, tmp_path: Path, index: bytes, reason: str) -> None:
        with pytest.raises(ModelError, match=reason):
            open_bundle(write(tmp_path / "m", index, [FOUR]))

    def test_a_block_used_twice_is_refused(self, tmp_path: Path) -> None:
        only = sealed(block([(b"", header())]))
        handle = varint(0) + varint(len(only) - 5)
        index = with_footer(only, sealed(block([(b"a", handle), (b"b", handle)])))
        with pytest.raises(ModelError, match="starts inside"):
            open_bundle(write(tmp_path / "m", index, [FOUR]))

    def test_names_beyond_reason_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tensorindex, "_MOST_NAMES", 2)
        with pytest.raises(ModelError, match="more than 2"):
            open_bundle(save(tmp_path / "m", {name: np.zeros(1, np.float32) for name in "abc"}))

    @settings(max_examples=400, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, len(KINDS_BLOCK) - 1), st.integers(0, 255)), max_size=2))
    def test_any_change_under_a_right_checksum_is_refused_or_read(self, changes: list[tuple[int, int]]) -> None:
        body = bytearray(KINDS_BLOCK)
        for at, byte in changes:
            body[at] = byte
        handle = varint(0) + varint(len(body))
        index = with_footer(sealed(bytes(body)), sealed(block([(b"z", handle)])))
        with tempfile.TemporaryDirectory() as folder:
            assert ends_in_arrays_or_refusals(write(Path(folder) / "m", index, KINDS_SHARDS))


def ends_in_arrays_or_refusals(prefix: Path) -> bool:
    try:
        return all(isinstance(tensor, np.ndarray) for tensor in everything(open_bundle(prefix)).values())
    except ModelError:
        return True


class TestLatestCheckpoint:
    def test_it_is_the_one_the_checkpoint_file_names(self, copy: Path) -> None:
        (copy / "model.ckpt-2.index").touch()
        assert latest_checkpoint(copy) == copy / "model.ckpt-3"

    @pytest.mark.parametrize(
        "path",
        [
            "/home/someone/else/model.ckpt-3",
            "../runs/model.ckpt-3",
            r"C:\\runs\\model.ckpt-3",
            r"/\303\244/model.ckpt-\063",
            r"it\'s/model.ckpt-3",
        ],
    )
    def test_the_folder_it_was_saved_in_does_not_matter(self, copy: Path, path: str) -> None:
        older = 'all_model_checkpoint_paths: "model.ckpt-1"\n'
        (copy / "checkpoint").write_text(f'{older}model_checkpoint_path: "{path}"\n')
        assert latest_checkpoint(copy) == copy / "model.ckpt-3"

    def test_without_a_checkpoint_file_the_only_prefix_is_taken(self, copy: Path) -> None:
        (copy / "checkpoint").unlink()
        assert latest_checkpoint(copy) == copy / "model.ckpt-3"

    def test_two_prefixes_without_a_checkpoint_file_are_both_named(self, copy: Path) -> None:
        (copy / "checkpoint").unlink()
        (copy / "model.ckpt-2.index").touch()
        with pytest.raises(ModelError, match=r"model\.ckpt-2, model\.ckpt-3"):
            latest_checkpoint(copy)

    def test_an_empty_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="prefixes here are none"):
            latest_checkpoint(tmp_path)

    def test_a_missing_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="cannot be read"):
            latest_checkpoint(tmp_path / "nowhere")

    @pytest.mark.parametrize("name", ["model.ckpt-9", "", "..", "\0", "x" * 5000])
    def test_a_prefix_that_is_not_here_is_refused_with_what_is(self, copy: Path, name: str) -> None:
        (copy / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')
        with pytest.raises(ModelError, match=r"the prefixes here are model\.ckpt-3"):
            latest_checkpoint(copy)

    @settings(max_examples=100, deadline=None)
    @given(st.binary(max_size=100))
    def test_any_bytes_in_the_checkpoint_file_are_refused(self, data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for text in (data, b'model_checkpoint_path: "' + data + b'"\n'):
                (Path(folder) / "checkpoint").write_bytes(text)
                with pytest.raises(ModelError):
                    latest_checkpoint(Path(folder))

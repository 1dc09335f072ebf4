import bz2
import gzip
import io
import lzma
import os
import threading
import tracemalloc
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stelmo.errors import DataError
from stelmo.settings import ReadSettings
from stelmo.text.files import LineReader

COMPRESS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}
PACKED = {name: compress for name, compress in COMPRESS.items() if name != "plain"}
LONG = b"".join(b"line %d is here\n" % number for number in range(20_000))

each_form = pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
each_packed_form = pytest.mark.parametrize("compress", PACKED.values(), ids=PACKED)


def lines(path) -> list[str]:
    with LineReader(path) as reader:
        return [line for _, line in reader]


def written(tmp_path, data: bytes):
    path = tmp_path / "corpus.txt"
    path.write_bytes(data)
    return path


@each_form
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))))
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_read(tmp_path, compress, texts):
    data = "".join(f"{text}\n" for text in texts).encode()
    assert lines(written(tmp_path, compress(data))) == texts


@each_form
def test_lines_are_numbered_from_one_across_blocks(tmp_path, compress):
    with LineReader(written(tmp_path, compress(LONG))) as reader:
        numbered = list(reader)
    assert numbered[0] == (1, "line 0 is here")
    assert numbered == [(number + 1, f"line {number} is here") for number in range(20_000)]


@each_packed_form
def test_several_members_and_padding_are_read_as_one_file(tmp_path, compress):
    data = compress(b"one\ntw") + compress(b"") + bytes(8192) + compress(b"o\nthree") + bytes(8)
    assert lines(written(tmp_path, data)) == ["one", "two", "three"]


def test_a_zstd_file_may_begin_with_a_frame_to_be_skipped(tmp_path):
    assert lines(written(tmp_path, b"\x50\x2a\x4d\x18\x02\x00\x00\x00??" + COMPRESS["zstd"](b"one\n"))) == ["one"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\r\nc\rd\r", ["a", "b\r", "c\rd\r"]),
        ("a\u2028b\x0bc\x0cd\x85e\n".encode(), ["a\u2028b\x0bc\x0cd\x85e"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\x1f", ["\x1f"]),
        (b"\x00\n", ["\x00"]),
    ],
)
def test_only_a_line_feed_ends_a_line(tmp_path, data, expected):
    assert lines(written(tmp_path, data)) == expected


def test_a_long_line_is_one_line(tmp_path):
    assert [len(line) for line in lines(written(tmp_path, b"x" * 5_000_000 + b"\ny"))] == [5_000_000, 1]


@each_form
def test_fraction_grows_from_zero_to_one(tmp_path, compress):
    with LineReader(written(tmp_path, compress(LONG))) as reader:
        seen = [reader.fraction(), *(reader.fraction() for _ in reader)]
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)


def test_an_empty_file_is_done(tmp_path):
    with LineReader(written(tmp_path, b"")) as reader:
        assert reader.fraction() == 1.0


@each_form
def test_standard_input_is_a_dash_and_stays_open(monkeypatch, compress):
    stream = io.BytesIO(compress(b"one\ntwo\n"))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream))
    with LineReader("-") as reader:
        assert list(reader) == [(1, "one"), (2, "two")]
        assert reader.fraction() is None
        assert reader.name == "<stdin>"
    assert not stream.closed


def test_a_pipe_has_no_fraction(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"one\n",))
    writer.start()
    with LineReader(pipe) as reader:
        assert list(reader) == [(1, "one")]
        assert reader.fraction() is None
    writer.join()


def test_a_byte_that_is_not_utf_8_is_named_with_its_place(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbfgood\ncaf\xe9 au lait\n")
    with pytest.raises(DataError, match=r"corpus\.txt:2: byte 0xe9 in column 4 is not UTF-8; .*iconv"):
        lines(path)


@pytest.mark.parametrize("data", [b"\xed\xa0\x80", b"\xc0\xaf", b"\xe6\xbc"], ids=["surrogate", "overlong", "cut"])
def test_utf_8_is_strict(tmp_path, data):
    with pytest.raises(DataError, match="column 1 is not UTF-8"):
        lines(written(tmp_path, data))


@each_form
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_recognised(tmp_path, compress, encoding):
    data = "\ufeffhello\n".encode(encoding)
    with pytest.raises(DataError, match=r":1: the file is in UTF-16, expected UTF-8; .*iconv"):
        lines(written(tmp_path, compress(data)))


@each_packed_form
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("kept", [-1, -9, 40])
def test_a_cut_file_is_refused(tmp_path, compress, members, kept):
    data = compress(LONG) * (members - 1) + compress(LONG)[:kept]
    with pytest.raises(
        DataError, match=r"corpus\.txt: the (gzip|xz|zstd) data are incomplete or damaged after line \d+"
    ):
        lines(written(tmp_path, data))


@each_packed_form
@pytest.mark.parametrize("members", [1, 2])
def test_a_damaged_file_is_refused(tmp_path, compress, members):
    whole = bytearray(compress(LONG))
    whole[len(whole) // 2] ^= 0xFF
    with pytest.raises(DataError, match="damaged after line"):
        lines(written(tmp_path, compress(LONG) * (members - 1) + bytes(whole)))


@each_packed_form
def test_what_follows_a_compressed_file_is_not_passed_over(tmp_path, compress):
    with pytest.raises(DataError, match="damaged after line 1 "):
        lines(written(tmp_path, compress(b"one\n") + b"not compressed at all"))


def test_a_binary_file_is_called_so(tmp_path):
    with pytest.raises(DataError, match=":1: a zero byte, as in binary files; expected text in UTF-8"):
        lines(written(tmp_path, b"\x93NUMPY\x01\x00v\n"))


@pytest.mark.parametrize(("data", "kind"), [(bz2.compress(b"one\n"), "bzip2"), (b"PK\x03\x04\x14\x00", "zip")])
def test_a_kind_of_compression_that_is_not_read_is_named(tmp_path, data, kind):
    with pytest.raises(DataError, match=f"a {kind} file, which is not read; unpack it, or compress it with gzip or xz"):
        lines(written(tmp_path, data))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing.txt", "No such file or directory"),
        (".", "Is a directory"),
        ("a\x00b", "null byte"),
        ("x" * 5000, "File name too long"),
    ],
)
def test_what_cannot_be_opened_is_refused_in_one_sentence(tmp_path, path, reason):
    with pytest.raises(DataError, match=f"{reason}.*; expected a text file"), LineReader(tmp_path / path):
        pass


def test_a_file_one_may_not_read_is_refused(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(DataError, match=r"secret\.txt: Permission denied"), LineReader(tmp_path / "secret.txt"):
        pass


def test_a_failing_disk_is_reported(tmp_path):
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError(5, "Input/output error")

    with LineReader(written(tmp_path, b"one\n")) as reader:
        reader._file.close()
        reader._file = Broken()
        with pytest.raises(DataError, match=r"corpus\.txt: Input/output error"):
            list(reader)


@each_form
def test_a_line_without_end_is_refused_with_its_place_before_it_is_read(tmp_path, compress):
    path = written(tmp_path, compress(b"fine\n" + bytes(64 << 20)))
    with (
        LineReader(path, ReadSettings(line_bytes=1 << 20)) as reader,
        pytest.raises(DataError, match=r"corpus\.txt:2: a line of more"),
    ):
        tracemalloc.start()
        list(reader)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 << 20


def test_a_line_of_the_largest_length_is_read(tmp_path):
    path = written(tmp_path, b"a" * 5000 + b"\n" + b"b" * 5001)
    with LineReader(path, ReadSettings(line_bytes=5001)) as reader:
        assert [len(line) for _, line in reader] == [5000, 5001]
    with LineReader(path, ReadSettings(line_bytes=5000)) as reader, pytest.raises(DataError, match=r"corpus\.txt:2"):
        list(reader)

"""What was packed is what comes out; nothing leaves its place, and nothing small becomes large."""

import gzip
import io
import os
import random
import re
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from stelmo.errors import ModelError
from stelmo.formats.untrusted import archives

CONTENTS = {"config.json": b"{}", "fta/deep.options_file": b"o" * 3000, "weights.th": random.Random(0).randbytes(5000)}
OUTSIDE = ["../evil", "/evil", "a/../../evil", "..\\evil", "\\evil", "C:\\evil", "c:/evil"]


def everything(name: str) -> bool:
    return True


def zipped(path: Path, contents: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def tarred(path: Path, contents: dict[str, bytes], *extra: tarfile.TarInfo) -> Path:
    path.write_bytes(gzip.compress(tar_bytes(contents, *extra), mtime=0))
    return path


def tar_bytes(contents: dict[str, bytes], *extra: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as archive:
        for name, data in contents.items():
            archive.addfile(plain(name, len(data)), io.BytesIO(data))
        for member in extra:
            archive.addfile(member)
    return raw.getvalue()


def plain(name: str, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mtime = 1.5  # not whole, as archives of real files have it: each member gets a record of its own
    return member


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = plain(name)
    member.type, member.linkname = kind, target
    return member


def unpacked(path: Path, wanted: archives.Wanted = everything) -> dict[str, bytes]:
    with archives.unpacked(path, wanted) as files:
        return {name: file.read_bytes() for name, file in files.items()}


PACKERS = {"a.zip": zipped, "a.tar.gz": tarred}


@pytest.fixture(params=list(PACKERS))
def packed(request, tmp_path):
    return PACKERS[request.param](tmp_path / request.param, CONTENTS)


def test_members_come_out_as_they_went_in(packed):
    assert unpacked(packed) == CONTENTS


def test_only_the_wanted_members_come_out(packed):
    assert unpacked(packed, lambda name: name.endswith("json")) == {"config.json": b"{}"}


def test_the_files_are_gone_when_the_block_ends(packed):
    with archives.unpacked(packed, everything) as files:
        assert all(file.is_file() for file in files.values())
    assert not any(file.exists() for file in files.values())


def test_a_refusal_inside_names_the_archive_and_the_member(packed):
    with pytest.raises(ModelError) as refused, archives.unpacked(packed, everything) as files:
        raise ModelError(f"{files['weights.th']}: torn")
    assert str(refused.value) == f"{packed}: weights.th: torn"


def test_a_folder_of_members_has_their_last_names_and_a_refusal_names_the_archive(packed):
    with (
        pytest.raises(ModelError, match=f"^{re.escape(str(packed / 'deep.options_file'))}: no good$"),
        archives.unpacked_folder(packed, lambda name: name.startswith("fta"), everything) as folder,
    ):
        assert [file.name for file in folder.iterdir()] == ["deep.options_file"]
        assert (folder / "deep.options_file").read_bytes() == CONTENTS["fta/deep.options_file"]
        raise ModelError(f"{folder / 'deep.options_file'}: no good")
    assert not folder.exists()


def test_names_lose_their_leading_dot(tmp_path):
    raw = tarred(tmp_path / "a.tar.gz", {"./weights.th": b"w"})
    assert unpacked(raw) == {"weights.th": b"w"}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_are_whole(tmp_path, form):
    name = "fta/" + "a.long.key." * 20 + "options_file"
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(tar_bytes({name: b"o"}, form=form)))
    assert unpacked(path) == {name: b"o"}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", list(PACKERS))
def test_a_member_that_points_outside_condemns_the_archive(tmp_path, kind, name):
    path = PACKERS[kind](tmp_path / kind, {"weights.th": b"w", name: b"evil"})
    with pytest.raises(ModelError, match="points outside"):
        unpacked(path)
    assert [file.name for file in tmp_path.iterdir()] == [kind]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "pipe"),
        (tarfile.GNUTYPE_SPARSE, "sparse"),
    ],
)
def test_a_tar_member_that_is_no_plain_file_is_refused(tmp_path, kind, reason):
    path = tarred(tmp_path / "a.tar.gz", {}, special("weights.th", kind, "/etc/hostname"))
    with pytest.raises(ModelError, match=f"weights.th is a .*{reason}"):
        unpacked(path)


def test_links_beside_the_wanted_members_are_never_followed(tmp_path):
    links = (
        special("elsewhere", tarfile.SYMTYPE, "/etc"),
        special("elsewhere/hostname", tarfile.LNKTYPE, "/etc/hostname"),
    )
    path = tarred(tmp_path / "a.tar.gz", {"weights.th": b"w"}, *links)
    assert unpacked(path, lambda name: name == "weights.th") == {"weights.th": b"w"}


def test_a_zip_member_that_is_a_link_is_refused(tmp_path):
    link = zipfile.ZipInfo("weights.th")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/hostname")
    with pytest.raises(ModelError, match="is a link"):
        unpacked(tmp_path / "a.zip")


@pytest.mark.parametrize("kind", list(PACKERS))
def test_two_members_of_one_name_are_refused(tmp_path, kind):
    path = PACKERS[kind](tmp_path / kind, {"weights.th": b"1", "./weights.th": b"2"})
    with pytest.raises(ModelError, match="two members have the name"):
        unpacked(path)


def edited(path: Path, place: int, data: bytes, local: int | None = None) -> Path:
    """The first member's entry in the zip's directory changed, and its local header, too."""
    raw = bytearray(path.read_bytes())
    start = raw.rindex(b"PK\x01\x02")
    raw[start + place : start + place + len(data)] = data
    if local is not None:
        raw[local : local + len(data)] = data
    path.write_bytes(raw)
    return path


def test_an_encrypted_zip_is_refused(tmp_path):
    path = edited(zipped(tmp_path / "a.zip", {"a": b"secret"}), 8, b"\x01\x00", local=6)
    with pytest.raises(ModelError, match="is encrypted; unpack it with its password"):
        unpacked(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_without_a_known_bound_is_refused(tmp_path, method):
    with pytest.raises(ModelError, match="compressed by method"):
        unpacked(zipped(tmp_path / "a.zip", {"a": b"a" * 100}, method))


@pytest.mark.parametrize("promise", [10**6, 2**32 - 2])
def test_a_zip_that_promises_more_than_it_can_hold_is_refused_before_memory_is_taken(tmp_path, promise):
    path = edited(zipped(tmp_path / "a.zip", {"a": b"a" * 100}), 24, struct.pack("<I", promise))
    tracemalloc.start()
    with pytest.raises(ModelError, match=f"unpack to {promise:,}"):
        unpacked(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("kind", list(PACKERS))
def test_zeros_that_unfold_without_end_are_refused(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(archives, "SMALL", 1 << 16)
    path = PACKERS[kind](tmp_path / kind, {"a": bytes(1 << 21)})
    with pytest.raises(ModelError, match="would fill the memory"):
        unpacked(path)


def test_members_that_share_their_packed_bytes_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "SMALL", 1 << 16)
    zeros = zipped(tmp_path / "a.zip", {str(number): bytes(60_000) for number in range(40)})
    with pytest.raises(ModelError, match="its members"):
        unpacked(zeros)


def test_a_compressed_vocabulary_has_the_same_bound(tmp_path, monkeypatch):
    path = tmp_path / "vocab.txt.gz"
    path.write_bytes(gzip.compress(b"word\n" * 1000))
    assert archives.gunzipped(path) == b"word\n" * 1000
    monkeypatch.setattr(archives, "SMALL", 1 << 10)
    with pytest.raises(ModelError, match="would fill the memory"):
        archives.gunzipped(path)


@pytest.mark.parametrize("kind", list(PACKERS))
def test_a_text_member_has_a_largest_size(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(archives, "SMALL", 1 << 12)
    contents = {"vocab.txt": random.Random(0).randbytes(1 << 13), "weights.th": random.Random(1).randbytes(1 << 13)}
    path = PACKERS[kind](tmp_path / kind, contents)
    assert unpacked(path) == contents
    with (
        pytest.raises(ModelError, match=r"vocab\.txt: more than 4,096 bytes unpacked"),
        archives.unpacked(path, everything, is_text=lambda name: name == "vocab.txt"),
    ):
        pass


def header(size: bytes, kind: bytes) -> bytes:
    """A tar header with that size field, its checksum right."""
    raw = bytearray(plain("weights.th").tobuf(tarfile.USTAR_FORMAT))
    raw[124:136], raw[156:157] = size, kind
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


@pytest.mark.parametrize("kind", [b"0", b"x", b"L"])
@pytest.mark.parametrize("size", [b"\xff" * 12, b"\x80" + b"\x7f" * 11, b"77777777777\0"])
def test_a_tar_header_with_an_absurd_size_is_refused(tmp_path, kind, size):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(header(size, kind) + bytes(2048)))
    with pytest.raises(ModelError):
        unpacked(path)


def test_a_tar_record_that_takes_minutes_to_search_is_refused(tmp_path):
    digits = b"1" * (1 << 21)
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(header(b"%011o\0" % len(digits), b"x") + digits + bytes(1024)))
    with pytest.raises(ModelError, match="says 2,097,152 bytes"):
        unpacked(path)


def test_a_tar_of_countless_members_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 20)
    path = tarred(tmp_path / "a.tar.gz", {str(number): b"" for number in range(21)})
    with pytest.raises(ModelError, match="more than 20 members"):
        unpacked(path)


def outcome(path: Path, raw: bytes) -> dict[str, bytes] | None:
    path.write_bytes(raw)
    try:
        return unpacked(path)
    except ModelError:
        return None


def test_a_truncated_archive_is_refused(packed):
    raw = packed.read_bytes()
    assert all(outcome(packed, raw[:end]) is None for end in range(0, len(raw), 37))


def test_the_checksum_far_behind_the_last_member_is_compared(tmp_path):
    raw = bytearray(gzip.compress(tar_bytes(CONTENTS) + bytes(3 * archives.PIECE)))
    assert outcome(tmp_path / "a.tar.gz", bytes(raw)) == CONTENTS
    raw[-8] ^= 1
    assert outcome(tmp_path / "a.tar.gz", bytes(raw)) is None


def test_a_flipped_bit_is_refused_or_harmless(packed):
    chance, raw = random.Random(1), packed.read_bytes()
    for _ in range(200):
        flipped = bytearray(raw)
        flipped[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        for name, data in (outcome(packed, bytes(flipped)) or {}).items():
            assert data == CONTENTS.get(name, data)  # a flip may rename a member


def test_a_tar_damaged_before_it_was_compressed_raises_nothing_else(tmp_path):
    chance, raw = random.Random(2), tar_bytes(CONTENTS)
    for _ in range(200):
        flipped = bytearray(raw)
        for _ in range(3):
            flipped[chance.randrange(1024)] = chance.randrange(256)
        outcome(tmp_path / "a.tar.gz", gzip.compress(bytes(flipped), 1))


def test_other_files_are_no_archives(tmp_path):
    (tmp_path / "a").write_bytes(b"neither")
    for path in (tmp_path / "a", tmp_path, tmp_path / "absent"):
        assert not archives.is_zip(path)
        assert not archives.is_gzip(path)
    with pytest.raises(ModelError, match="Not a gzipped file"):
        unpacked(tmp_path / "a")


def test_a_full_disk_is_said(packed, monkeypatch):
    def refuse(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(archives.shutil, "copyfileobj", refuse)
    with pytest.raises(ModelError, match="No space left"):
        unpacked(packed)

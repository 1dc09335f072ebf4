"""Static word vectors: files ↔ words and their rows. Knows no task and no model.   V words, D width, T tokens.

GloVe (.txt)            one line per word: the word and D numbers, separated by spaces; the word may contain spaces
word2vec text (.vec)    the same after a line "V D"; fastText's .vec files have this format
word2vec binary (.bin)  a line "V D", then for each word: its bytes, a space, D float32, little-endian
array (only read)       FOLDER/words.txt, one word per line, and one .npy of (V, D); give the folder or the .npy

The first three are also written: numbers as float32, with enough digits to read back exactly the same ones.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import DataError, OutputError
from stelmo.store import atomic
from stelmo.store.containers import DAMAGE
from stelmo.text.files import LineReader

WORDS = "words.txt"
GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = "\ufeff"  # readers remove it from the first word
DAMAGED = (OSError, EOFError, zlib.error)  # raised while reading a damaged gzip file
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # in no text
LONGEST_WORD = 4096  # bytes in a binary file; a longer one means that the width is wrong

Matrix = NDArray[np.float32]
Row = NDArray[Any]  # (D,)
Only = set[str] | None


class StaticVectors:
    """One vector for each word, independent of its context."""

    def __init__(self, words: list[str], vectors_VD: Matrix) -> None:
        self.words, self.vectors_VD = words, vectors_VD
        self.index = {word: row for row, word in enumerate(words)}

    @property
    def width(self) -> int:
        return int(self.vectors_VD.shape[1])

    def row(self, word: str) -> int | None:
        """The row of the word, otherwise of its lower-cased form; None if both are missing."""
        found = self.index.get(word)
        return self.index.get(word.lower()) if found is None else found

    def of(self, words: Sequence[str]) -> Matrix:
        """(T, D): zeros for unknown words."""
        vectors_TD = np.zeros((len(words), self.width), np.float32)
        for place, word in enumerate(words):
            row = self.row(word)
            if row is not None:
                vectors_TD[place] = self.vectors_VD[row]
        return vectors_TD


def read(path: str | Path, only: Only = None) -> StaticVectors:
    """The vectors; with `only`, those of some words and of their lower-cased forms, which `row` falls back to."""
    path = Path(path)
    wanted = None if only is None else only | {word.lower() for word in only}
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        if len(files) != 1 or not (path / WORDS).is_file():
            raise DataError(f"{path}: {len(files)} .npy files, expected one with {WORDS} beside it; or name a file")
        return _array(files[0], wanted)
    if path.suffix == ".npy":
        return _array(path, wanted)
    size = _binary_size(path)
    found = _text(path, wanted) if size is None else _binary(path, size, wanted)
    _refuse_infinite(found, str(path))
    return found


class _Rows:
    """Collects words and numbers; they become a matrix without a second copy."""

    def __init__(self, wanted: Only) -> None:
        self._wanted, self._where = wanted, dict[str, str]()
        self._words: list[str] = []
        self._numbers = bytearray()
        self.count = 0

    def wants(self, word: str, where: str) -> bool:
        """Whether the word is needed. A repeated word is refused, because it is unclear which row counts."""
        self.count += 1
        if self._wanted is not None and word not in self._wanted:
            return False
        if word in self._where:
            raise DataError(f"{where}: the word {word!r} was already in {self._where[word]}; expected every word once")
        self._where[word] = where
        return True

    def add(self, word: str, numbers: bytes) -> None:
        self._words.append(word)
        self._numbers += numbers

    def vectors(self, width: int) -> StaticVectors:
        return StaticVectors(self._words, np.frombuffer(self._numbers, np.float32).reshape(-1, width))


class _Size(NamedTuple):
    words: int
    width: int


def _size(line: str) -> _Size | None:
    """The first line of word2vec's files: two integers and nothing else."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdecimal() and field.isascii() for field in fields):
        return None
    return _Size(*map(int, fields))


def _refuse_infinite(found: StaticVectors, name: str) -> None:
    bad_V = ~np.isfinite(found.vectors_VD).all(1)
    if bad_V.any():
        word = found.words[int(bad_V.argmax())]
        raise DataError(f"{name}: the vector of {word!r} is not finite; expected float32 numbers")


# Text


def _text(path: Path, wanted: Only) -> StaticVectors:
    rows, size, width = _Rows(wanted), None, 0
    with LineReader(path) as reader:
        for number, line in reader:
            fields = line.rstrip(" ").split(" ")
            if number == 1 and (size := _size(line)):
                width = size.width
                continue
            width = width or len(fields) - 1
            _add_line(rows, fields, width, f"{path}:{number}")
    if size is not None and rows.count != size.words:
        raise DataError(f"{path}: {rows.count} words; its first line says {size.words}; copy the file again")
    if not rows.count or not width:
        raise DataError(f"{path}: no vectors; expected a word and its numbers on each line")
    return rows.vectors(width)


def _add_line(rows: _Rows, fields: list[str], width: int, where: str) -> None:
    """The last D fields are the numbers, because the word may contain spaces: ". . ." is a word of GloVe."""
    first = len(fields) - width
    if first < 1 or width < 1 or (first > 1 and _is_number(fields[first - 1])):
        raise DataError(f"{where}: {max(0, len(fields) - 1)} numbers; expected {width or 'some'} after the word")
    word = " ".join(fields[:first])
    if not rows.wants(word, where):
        return
    try:
        rows.add(word, np.array(fields[first:], np.float32).tobytes())
    except ValueError:
        bad = next(field for field in fields[first:] if not _is_number(field))
        raise DataError(f"{where}: {bad[:40]!r} after {word[:40]!r}; expected {width} numbers") from None


def _is_number(field: str | bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# Binary


def _binary_size(path: Path) -> _Size | None:
    """The first line of a binary file: control characters or mostly unreadable numbers follow the first word.

    One unreadable number is not enough: in a text file it may be a mistake, or the second part of "New York".
    """
    with _opened(path) as file:
        try:
            head = file.read(LONGEST_WORD)
        except DAMAGED:  # the text reader reports where
            return None
    line, _, rest = head.partition(b"\n")
    size = _size(line.decode("ascii", "replace"))
    if size is None:
        return None
    numbers = rest.partition(b" ")[2]
    # Not split(), which takes some control characters for white space.
    fields = re.findall(rb"[^ \t\r\n]+", numbers)[: size.width]
    readable = 2 * sum(map(_is_number, fields)) >= len(fields)
    return None if readable and not CONTROL.search(numbers[: 4 * size.width]) else size


def _opened(path: Path) -> BinaryIO:
    try:
        with path.open("rb") as file:
            packed = file.read(len(GZIP)) == GZIP
        return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a file or folder of word vectors") from error


def _binary(path: Path, size: _Size, wanted: Only) -> StaticVectors:
    rows = _Rows(wanted)
    if not size.words or not size.width:
        raise DataError(f"{path}: {size.words} words of width {size.width}; expected vectors")
    with _opened(path) as file:
        file.readline()
        for count in range(size.words + 1):
            try:
                raw, numbers = _binary_word(file), file.read(4 * size.width)
            except DAMAGED as error:
                raise DataError(f"{path}: damaged after word {count} ({error}); copy the file again") from error
            if count == size.words:
                if raw:
                    raise DataError(f"{path}: more words than its first line says ({size.words}); copy it again")
                break
            if len(raw) > LONGEST_WORD:
                raise DataError(f"{path}: no word after word {count}; the width cannot be {size.width}")
            if not raw or len(numbers) < 4 * size.width:
                raise DataError(f"{path}: {count} words; its first line says {size.words}; copy the file again")
            where = f"{path}, word {count + 1}"
            try:
                word = raw.decode()
            except UnicodeDecodeError as error:
                raise DataError(f"{where}: {raw[:40]!r} is not UTF-8; expected a word") from error
            if rows.wants(word, where):
                rows.add(word, np.frombuffer(numbers, "<f4").astype(np.float32).tobytes())
    return rows.vectors(size.width)


def _binary_word(file: BinaryIO) -> bytes:
    """Up to the space. Some writers put a line feed after every vector; it is not part of the next word."""
    word = bytearray()
    while (byte := file.read(1)) not in (b" ", b"") and len(word) <= LONGEST_WORD:
        word += byte
    return bytes(word.lstrip(b"\n"))


# Arrays


def _array(path: Path, wanted: Only) -> StaticVectors:
    """Memory-mapped: rows of a float32 array are read from disk when they are used."""
    try:
        stored_VD: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:100]
        raise DataError(f"{path}: not a .npy array ({reason}); expected one of floats") from error
    if stored_VD.ndim != 2 or not stored_VD.size or stored_VD.dtype.kind != "f":
        raise DataError(f"{path}: an array {stored_VD.shape} of {stored_VD.dtype}; expected floats of (words, width)")
    rows = _Rows(wanted)
    names = path.with_name(WORDS)
    with LineReader(names) as reader:
        kept = [(number - 1, word) for number, word in reader if rows.wants(word, f"{names}:{number}")]
    if rows.count != len(stored_VD):
        raise DataError(f"{names}: {rows.count} words; expected {len(stored_VD)}, one for each row of {path.name}")
    chosen_VD = stored_VD if wanted is None else stored_VD[[row for row, _ in kept]]
    found = StaticVectors([word for _, word in kept], chosen_VD.astype(np.float32, copy=False))
    _refuse_infinite(found, str(path))
    return found


# Writing


def writable(word: str) -> bool:
    """Whether readers find the word again: they split a line at white space, some at any Unicode white space."""
    if not word or word.startswith(BYTE_ORDER_MARK) or any(map(str.isspace, word)):
        return False
    return not any("\ud800" <= character <= "\udfff" for character in word)  # UTF-8 cannot encode them


def write(path: Path, count: int, width: int, rows: Iterable[tuple[str, Row]], overwrite: bool = False) -> None:
    """Write `count` distinct words with a vector each; the suffix of the path selects the format."""
    refuse_output(path, overwrite)
    if not count:
        raise DataError(f"{path}: no words to write; nothing was written")
    encoded, has_size = KINDS[path.suffix.lower()]
    written = 0
    with atomic.new_file(path, overwrite) as draft, draft.open("wb") as file:
        if has_size:
            file.write(f"{count} {width}\n".encode())
        for word, row_D in rows:
            assert writable(word)
            assert row_D.shape == (width,)
            file.write(encoded(word, row_D.astype("<f4")))
            written += 1
        assert written == count


def refuse_output(path: Path, overwrite: bool) -> None:
    """Refuse an unknown suffix or an existing file, before any work."""
    if path.suffix.lower() not in KINDS:
        raise OutputError(f"{path}: words are written to .vec (word2vec text), .txt (GloVe) or .bin (word2vec binary)")
    atomic.refuse_existing(path, overwrite)


def _line(word: str, row_D: Row) -> bytes:
    return f"{word} {' '.join(row_D.astype(str))}\n".encode()


def _record(word: str, row_D: Row) -> bytes:
    return word.encode() + b" " + row_D.tobytes()


KINDS: dict[str, tuple[Callable[[str, Row], bytes], bool]] = {
    ".vec": (_line, True),
    ".txt": (_line, False),
    ".bin": (_record, True),
}

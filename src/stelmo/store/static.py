"""Static word vectors: a file or folder → words and their rows. Knows no task.   V words, D width, T tokens.

GloVe            a word a line, then D numbers, a space between; the word itself may hold spaces
word2vec text    the same behind a line "V D"; fastText's .vec is one
word2vec binary  a line "V D", then for each word: its bytes, a space, D float32, little-endian
array            FOLDER/words.txt, a word a line, and one .npy of (V, D) beside it; the folder or the .npy is named
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import DataError
from stelmo.text.files import LineReader

WORDS = "words.txt"
GZIP = b"\x1f\x8b"
DAMAGED = (OSError, EOFError, zlib.error)  # what reading a torn gzip file ends in
LONGEST_WORD = 4096  # bytes in a binary file; more is no word but a wrong width

Matrix = NDArray[np.float32]
Only = set[str] | None


class StaticVectors:
    """One vector for each word, wherever it stands."""

    def __init__(self, words: list[str], vectors_VD: Matrix) -> None:
        self.words, self.vectors_VD = words, vectors_VD
        self.index = {word: row for row, word in enumerate(words)}

    @property
    def width(self) -> int:
        return int(self.vectors_VD.shape[1])

    def row(self, word: str) -> int | None:
        """The word's row, else that of its lower-cased form; None: neither is there."""
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
    """The vectors, of some words alone where `only` names them; their lower-cased forms stay, for `row` falls back."""
    path = Path(path)
    wanted = None if only is None else only | {word.lower() for word in only}
    if path.is_dir():
        return _array(_npy_in(path), wanted)
    if path.suffix == ".npy":
        return _array(path, wanted)
    size = _binary_size(path)
    found = _text(path, wanted) if size is None else _binary(path, size, wanted)
    _refuse_infinite(found, str(path))
    return found


class _Rows:
    """Words and numbers as they come, end to end: a matrix in the end without a second copy."""

    def __init__(self, wanted: Only) -> None:
        self._wanted, self._where = wanted, dict[str, str]()
        self._words: list[str] = []
        self._numbers = bytearray()
        self.count = 0

    def wants(self, word: str, where: str) -> bool:
        """Whether the numbers are of use. A word for the second time is refused: which row would count?"""
        self.count += 1
        if self._wanted is not None and word not in self._wanted:
            return False
        if word in self._where:
            raise DataError(f"{where}: the word {word!r} as in {self._where[word]}; expected every word once")
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
    """The first line of word2vec's files: two whole numbers and nothing else."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdecimal() and field.isascii() for field in fields):
        return None
    return _Size(*map(int, fields))


def _check_count(rows: _Rows, size: _Size, path: Path) -> None:
    if rows.count != size.words:
        raise DataError(f"{path}: {rows.count} words; its first line promises {size.words}, so copy the file again")


def _refuse_infinite(found: StaticVectors, name: str) -> None:
    bad_V = ~np.isfinite(found.vectors_VD).all(1)
    if bad_V.any():
        word = found.words[int(bad_V.argmax())]
        raise DataError(f"{name}: the vector of {word!r} is not finite; expected numbers of float32")


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
    if size is not None:
        _check_count(rows, size, path)
    if not rows.count or not width:
        raise DataError(f"{path}: no vectors; expected a word and its numbers on each line")
    return rows.vectors(width)


def _add_line(rows: _Rows, fields: list[str], width: int, where: str) -> None:
    """The last D fields are the numbers, for the word may hold spaces: ". . ." is one of GloVe's."""
    first = len(fields) - width
    if first < 1 or width < 1 or (first > 1 and _is_number(fields[first - 1])):
        raise DataError(f"{where}: {max(0, len(fields) - 1)} numbers; expected {width or 'some'} behind the word")
    word = " ".join(fields[:first])
    if not rows.wants(word, where):
        return
    try:
        rows.add(word, np.array(fields[first:], np.float32).tobytes())
    except ValueError:
        bad = next(field for field in fields[first:] if not _is_number(field))
        raise DataError(f"{where}: {bad[:40]!r} behind {word[:40]!r}; expected {width} numbers") from None


def _is_number(field: str | bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# Binary


def _binary_size(path: Path) -> _Size | None:
    """What the first line says, where no readable number follows the first word: then the file is binary."""
    with _opened(path) as file:
        try:
            head = file.read(LONGEST_WORD)
        except DAMAGED:  # the reader of lines says where
            return None
    line, _, rest = head.partition(b"\n")
    size = _size(line.decode("ascii", "replace"))
    numbers = rest.partition(b" ")[2].split()
    return None if size is None or not numbers or _is_number(numbers[0]) else size


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
        for raw, numbers in _binary_rows(file, size, path):
            where = f"{path}, word {rows.count + 1}"
            word = _decoded(raw, where)
            if rows.wants(word, where):
                rows.add(word, np.frombuffer(numbers, "<f4").astype(np.float32).tobytes())
    return rows.vectors(size.width)


def _binary_rows(file: BinaryIO, size: _Size, path: Path) -> Iterator[tuple[bytes, bytes]]:
    for count in range(size.words + 1):
        try:
            word, numbers = _binary_word(file), file.read(4 * size.width)
        except DAMAGED as error:
            raise DataError(f"{path}: damaged behind word {count} ({error}); copy the file again") from error
        if count == size.words:
            if word:
                raise DataError(f"{path}: more than the {size.words} words its first line promises; copy it again")
            return
        if len(word) > LONGEST_WORD:
            raise DataError(f"{path}: no word behind word {count}; the width cannot be {size.width}")
        if not word or len(numbers) < 4 * size.width:
            raise DataError(f"{path}: {count} words; its first line promises {size.words}, so copy the file again")
        yield word, numbers


def _binary_word(file: BinaryIO) -> bytes:
    """Up to the space. Some writers end every vector with a line feed, which is not of the next word."""
    word = bytearray()
    while (byte := file.read(1)) not in (b" ", b"") and len(word) <= LONGEST_WORD:
        word += byte
    return bytes(word.lstrip(b"\n"))


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: {raw[:40]!r} is not UTF-8; expected a word") from error


# An array with its words


def _npy_in(folder: Path) -> Path:
    found = sorted(folder.glob("*.npy"))
    if len(found) != 1 or not (folder / WORDS).is_file():
        raise DataError(f"{folder}: {len(found)} .npy files, expected one with {WORDS} beside it; or name a file")
    return found[0]


def _array(path: Path, wanted: Only) -> StaticVectors:
    """Memory-mapped: a float32 array is read from the disk as its rows are asked for."""
    stored_VD = _mapped(path)
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


def _mapped(path: Path) -> NDArray[Any]:
    try:
        stored: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not a .npy array ({str(error).splitlines()[0]}); expected one of floats") from error
    if stored.ndim != 2 or not stored.size or stored.dtype.kind != "f":
        raise DataError(f"{path}: an array {stored.shape} of {stored.dtype}; expected floats of (words, width)")
    return stored

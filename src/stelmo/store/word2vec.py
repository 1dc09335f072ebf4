"""Words and their rows → a file that readers of word2vec or GloVe know. Knows no model.   V words, D width.

.vec  word2vec text: a line "V D", then a line for each word: the word, a space, D numbers
.txt  GloVe: the same without the first line
.bin  word2vec binary: a line "V D", then for each word its bytes, a space, D float32, little-endian

Numbers are those of float32, written so that they are read back bit by bit. `static.py` reads all three.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from stelmo.errors import DataError, OutputError
from stelmo.store import atomic

Row = NDArray[Any]  # (D,)

BYTE_ORDER_MARK = "\ufeff"  # readers take it off the first word


def writable(word: str) -> bool:
    """Whether readers find the word again: they cut a line at white space, some at any of Unicode's."""
    if not word or word.startswith(BYTE_ORDER_MARK) or any(map(str.isspace, word)):
        return False
    return not any("\ud800" <= character <= "\udfff" for character in word)  # half a character: no UTF-8 for it


def write(path: Path, count: int, width: int, rows: Iterable[tuple[str, Row]], overwrite: bool = False) -> None:
    """A file of `count` distinct words with a vector each, whole or not at all; its ending says which kind."""
    refuse_output(path, overwrite)
    if not count:
        raise DataError(f"{path}: no words for it; nothing was written")
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
    """A name no words can go to, refused before any work."""
    if path.suffix.lower() not in KINDS:
        raise OutputError(f"{path}: words go to .vec (word2vec text), .txt (GloVe) or .bin (word2vec binary)")
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

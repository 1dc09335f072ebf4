"""A vocabulary file's lines ↔ word ids. Knows no model and no characters."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stelmo.errors import DataError, ModelError

UNKNOWN = "<UNK>"
MOST_BYTES, MOST_WORDS = 64 << 20, 4_000_000  # of a model's vocabulary; the largest published one has 793,471 words


@dataclass(frozen=True)
class Vocabulary:
    """Words by id, as the softmax (and a word-id model's input table) number them."""

    words: tuple[str, ...]
    name: str = field(default="vocabulary", compare=False)

    @classmethod
    def of(cls, lines: Iterable[str], name: str = "vocabulary") -> "Vocabulary":
        """The line `!!!MAXTERMID` of some published files is left out: it is not a word."""
        vocabulary = cls(tuple(line for line in lines if line != "!!!MAXTERMID"), name)
        vocabulary._refuse_duplicates()
        return vocabulary

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """The word's id, or that of <UNK>."""
        found = self._ids.get(word)
        return self.unknown if found is None else found

    @cached_property
    def unknown(self) -> int:
        return self.require(UNKNOWN)

    def require(self, symbol: str) -> int:
        if symbol not in self._ids:
            raise DataError(f"{self.name}: no line {symbol}; a vocabulary has <S>, </S> and <UNK>, case kept")
        return self._ids[symbol]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def _refuse_duplicates(self) -> None:
        if len(self._ids) == len(self.words):
            return
        seen: set[str] = set()
        for number, word in enumerate(self.words, 1):
            if word in seen:
                raise DataError(f"{self.name}:{number}: {word!r} occurs twice; each word has one line")
            seen.add(word)


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocab.txt of a model."""
    try:
        if path.exists() and not path.is_file():  # a device has no end
            raise ModelError(f"{path}: not a regular file; expected a vocabulary")
        if path.stat().st_size > MOST_BYTES:
            raise ModelError(f"{path}: more than {MOST_BYTES:,} bytes; expected a vocabulary")
        return parse_vocabulary(path.read_bytes(), str(path))
    except OSError as problem:
        raise ModelError(f"{path}: cannot be read ({problem.strerror})") from None


def parse_vocabulary(raw: bytes, where: str) -> Vocabulary:
    """One word per line; only a line feed ends a line, because a word may contain any other separator."""
    if raw.count(b"\n") > MOST_WORDS:
        raise ModelError(f"{where}: more than {MOST_WORDS:,} lines; expected a vocabulary")
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        raise ModelError(f"{where}:{line}: not UTF-8; a vocabulary has one word per line, in UTF-8") from None
    words = (line.removesuffix("\r") for line in lines[: -1 if not lines[-1] else None])
    try:
        return Vocabulary.of(words, where)
    except DataError as problem:  # the vocabulary is part of a model
        raise ModelError(str(problem)) from None


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\n" for word in vocabulary)

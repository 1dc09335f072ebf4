"""A vocabulary file's lines ↔ word ids. Knows no model and no characters."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from stelmo.errors import DataError

UNKNOWN = "<UNK>"


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
                raise DataError(f"{self.name}:{number}: {word!r} is there twice; each word has one line")
            seen.add(word)

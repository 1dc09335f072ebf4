"""Words ↔ ids: the vocabulary, and the ids that the input layer of each kind of model reads. Knows no tensors.

U words. A model that reads bytes gets (U, C) character ids, from `chars`; one that reads word ids gets (U,); one that
reads code points (ELMoForManyLangs) gets (U, K): the number of the word, the ids of its characters, or both, as its
configuration says. The characters of a word are a row of `width` ids, looked up by name in the model's own alphabet:

  <eow>  its code points, at most width − 2; unknown ones are <oov>  <bow>  <pad> …
  <eow>  <bos> or <eos>                                              <bow>  <pad> …

The markers are the wrong way round on purpose: the published models were trained that way. A longer word is cut before
anything else, so its number is that of the cut word. Case and Unicode form are not changed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stelmo.config import CodePointInput, ModelConfig, WordInput
from stelmo.errors import DataError, ModelError
from stelmo.text import chars

Ids = NDArray[np.int64]
WordIds = Callable[[Sequence[str]], Ids]

UNKNOWN = "<UNK>"
MAXTERMID = "!!!MAXTERMID"  # a line of some published vocabularies that is left out
MOST_BYTES, MOST_WORDS = 64 << 20, 4_000_000  # of a model's vocabulary; the largest published one has 793,471 words

_BEGIN_SENTENCE, _END_SENTENCE, _UNKNOWN = "<bos>", "<eos>", "<oov>"
_NO_CHARACTER, _BEGIN_WORD, _END_WORD = "<pad>", "<bow>", "<eow>"
ALPHABET_MARKERS = (_BEGIN_SENTENCE, _END_SENTENCE, _UNKNOWN, _NO_CHARACTER, _BEGIN_WORD, _END_WORD)
WORD_MARKERS = (_BEGIN_SENTENCE, _END_SENTENCE, _UNKNOWN)
# Sentences are wrapped in the markers of the byte models; here they have other names.
_OUR_NAMES = {chars.BEGIN_SENTENCE: _BEGIN_SENTENCE, chars.END_SENTENCE: _END_SENTENCE}


@dataclass(frozen=True)
class Vocabulary:
    """Words by id, as the softmax (and a word-id model's input table) number them."""

    words: tuple[str, ...]
    name: str = field(default="vocabulary", compare=False)

    @classmethod
    def of(cls, lines: Iterable[str], name: str = "vocabulary") -> "Vocabulary":
        """Of a corpus, where each word has one line."""
        vocabulary = cls(tuple(line for line in lines if line != MAXTERMID), name)
        if len(vocabulary._ids) < len(vocabulary):
            seen: set[str] = set()
            for number, word in enumerate(vocabulary, 1):
                if word in seen:
                    raise DataError(f"{name}:{number}: {word!r} occurs twice; each word has one line")
                seen.add(word)
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


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocab.txt of a model. A repeated word keeps all its rows and has the id of the last, as in bilm-tf."""
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
    return Vocabulary(tuple(word for word in words if word != MAXTERMID), where)


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\n" for word in vocabulary)


# Code points


@dataclass(frozen=True)
class Alphabet:
    """Symbols by id, as the character table numbers them: single code points and six markers."""

    symbols: tuple[str, ...]
    name: str = field(default="alphabet", compare=False)

    def __post_init__(self) -> None:
        refuse_flaws(self.symbols, ALPHABET_MARKERS, self.name)

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, word: str, width: int) -> list[int]:
        """The row of one word, not longer than width − 2 unless it is a sentence marker."""
        ids, unknown = self._ids, self._ids[_UNKNOWN]
        if word in (_BEGIN_SENTENCE, _END_SENTENCE):
            inside = [ids[word]]
        else:
            inside = [ids.get(character, unknown) for character in word]
        padding = [ids[_NO_CHARACTER]] * (width - 2 - len(inside))
        return [ids[_END_WORD], *inside, ids[_BEGIN_WORD], *padding]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols)}


def encode_code_points(
    words: Sequence[str], vocabulary: Vocabulary | None, alphabet: Alphabet | None, width: int = 50
) -> NDArray[np.int64]:
    """Words → (U, K): the number in the vocabulary, then the `width` ids of the alphabet, each where it is given."""
    cut = [_OUR_NAMES.get(word) or word[: width - 2] for word in words]
    columns = []
    if vocabulary is not None:
        unknown = vocabulary.require(_UNKNOWN)
        numbers = [vocabulary.id(word) if word in vocabulary else unknown for word in cut]
        columns.append(np.array(numbers, np.int64).reshape(-1, 1))
    if alphabet is not None:
        rows = [alphabet.encode(word, width) for word in cut]
        columns.append(np.array(rows, np.int64).reshape(len(cut), width))
    return np.concatenate(columns, 1)


def refuse_flaws(symbols: Sequence[str], markers: Sequence[str], where: str) -> None:
    """Refuse a table that has a symbol twice, or lacks a marker."""
    found: set[str] = set()
    for number, symbol in enumerate(symbols):
        if symbol in found:
            raise ModelError(f"{where}: {symbol!r} occurs twice, the second time as {number}; each has one id")
        found.add(symbol)
    missing = [marker for marker in markers if marker not in found]
    if missing:
        raise ModelError(f"{where}: no {', '.join(missing)}; the table has {', '.join(markers)}")


def word_ids(config: ModelConfig, vocabulary: Vocabulary | None, alphabet: Alphabet | None = None) -> WordIds:
    """The function from words to ids for this model. It can be pickled."""
    reads = config.input
    if isinstance(reads, CodePointInput):
        words = vocabulary if reads.word_table is not None else None
        symbols = alphabet if reads.convolution is not None else None
        return partial(encode_code_points, vocabulary=words, alphabet=symbols, width=reads.max_characters)
    if not isinstance(reads, WordInput):
        return partial(chars.encode_words, width=reads.max_characters)
    if vocabulary is None:
        raise ModelError("a model that reads word ids needs its vocabulary; none was given")
    return partial(_numbers, vocabulary)


def _numbers(vocabulary: Vocabulary, words: Sequence[str]) -> Ids:
    return np.array([vocabulary.id(word) for word in words], np.int64)

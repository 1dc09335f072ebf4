"""Files of text → chunks of lines → chunks of numbered words: the unit of parallel work. Knows no corpus folder.

Chunks depend on the text alone, not on who computes them. Words are numbered within their chunk, as they come.

N words, S sentences, L lines of a chunk.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo import __version__
from stelmo.config import PrepareSettings
from stelmo.corpus.order import key_of
from stelmo.errors import DataError
from stelmo.text import formats, sentences, tokens
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.files import LineReader

CHARACTERS = 1 << 20  # of a chunk, about; a longer line is a chunk of its own
_MARKERS = frozenset((BEGIN_SENTENCE, END_SENTENCE))


class Lines(NamedTuple):
    """A chunk to do: lines that are not blank, with their numbers from 1."""

    file: int
    format: str
    numbers: list[int]
    texts: list[str]


class Chunk(NamedTuple):
    """A chunk done."""

    identity: NDArray[np.uint8]  # hash of the lines and of all settings that matter here
    source: NDArray[np.int64]  # (1,) number of the file
    skipped: NDArray[np.int64]  # (1,) tokens <S> and </S> left out
    ids_N: NDArray[np.uint32]
    ends_S: NDArray[np.int64]
    keys_S: NDArray[np.uint64]  # hash of (seed, file, line): who is held out
    words: NDArray[np.uint8]  # UTF-8, end to end
    word_ends: NDArray[np.int64]
    hashes_L: NDArray[np.uint64]  # of the text of each line
    numbers_L: NDArray[np.int64]


class Text:
    """The chunks of all files in order; `fraction` says how much of the files has been read."""

    def __init__(self, files: Sequence[str], sizes: Sequence[int], format: str | None) -> None:
        self._files, self._sizes, self._format = files, sizes, format
        self._finished = 0
        self._reader: LineReader | None = None

    def fraction(self) -> float:
        within = 0.0 if self._reader is None else self._reader.fraction() or 0.0
        done = sum(self._sizes[: self._finished]) + within * sum(self._sizes[self._finished : self._finished + 1])
        return done / max(1, sum(self._sizes))

    def __iter__(self) -> Iterator[Lines]:
        for number, name in enumerate(self._files):
            self._finished = number
            with LineReader(name) as self._reader:
                yield from _cut(self._reader, number, self._format)
        self._finished, self._reader = len(self._files), None


def _cut(reader: LineReader, file: int, format: str | None) -> Iterator[Lines]:
    """The lines of a file in chunks of about so many characters."""
    numbers: list[int] = []
    texts: list[str] = []
    room = CHARACTERS
    for number, line in reader:
        text = line.strip()
        if not text:
            continue
        format = format or _recognised(reader.name, text)
        if texts and len(text) > room:
            yield Lines(file, format, numbers, texts)
            numbers, texts, room = [], [], CHARACTERS
        numbers.append(number)
        texts.append(text)
        room -= len(text)
    if texts and format:
        yield Lines(file, format, numbers, texts)


def _recognised(name: str, first: str) -> str:
    """The format of a file, by its name and its first line."""
    guessed = formats.guess(name)
    if guessed not in ("text", "tokens"):
        raise DataError(
            f"{name}: looks like a file of {guessed}; say --from text, tokens or wiki if it is one of these"
        )
    return "wiki" if _is_mark_of_document(first) else guessed


def _is_mark_of_document(line: str) -> bool:
    return line == "</doc>" or (line.startswith("<doc ") and line.endswith(">"))


def number_words(lines: Lines, settings: PrepareSettings) -> Chunk:
    """Split, tokenise, count through."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    ids, ends, counts = array("I"), array("q"), []
    skipped = 0
    kept = [place for place, text in enumerate(lines.texts) if lines.format != "wiki" or not _is_mark_of_document(text)]
    for place in kept:
        before = len(ends)
        for sentence in _sentences(lines.texts[place], lines.format, settings):
            words = sentence if _MARKERS.isdisjoint(sentence) else [word for word in sentence if word not in _MARKERS]
            skipped += len(sentence) - len(words)
            if words:
                ids.extend(map(numbers.__getitem__, words))
                ends.append(len(ids))
        counts.append(len(ends) - before)
    kept_numbers = np.array([lines.numbers[place] for place in kept], np.int64)
    table = [word.encode() for word in numbers]
    return Chunk(
        identity=identity_of(lines, settings),
        source=np.array([lines.file]),
        skipped=np.array([skipped]),
        ids_N=np.array(ids, np.uint32),
        ends_S=np.array(ends, np.int64),
        keys_S=np.repeat(
            np.broadcast_to(key_of(settings.seed, lines.file, kept_numbers), kept_numbers.shape),
            np.array(counts, np.int64),
        ),
        words=np.frombuffer(b"".join(table), np.uint8),
        word_ends=np.cumsum([len(word) for word in table], dtype=np.int64),
        hashes_L=np.array([_hash(lines.texts[place]) for place in kept], np.uint64),
        numbers_L=kept_numbers,
    )


def identity_of(lines: Lines, settings: PrepareSettings) -> NDArray[np.uint8]:
    """Equal where `number_words` gives the same chunk."""
    chosen = (settings.language, settings.contractions, settings.seed)
    about = (__version__, *chosen, lines.file, lines.format, lines.numbers)
    digest = blake2b(repr(about).encode(), digest_size=16)
    digest.update("\n".join(lines.texts).encode())
    return np.frombuffer(digest.digest(), np.uint8)


def words_of(chunk: Chunk) -> list[bytes]:
    """The chunk's distinct words by their number in it."""
    data, ends = chunk.words.tobytes(), chunk.word_ends.tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _sentences(text: str, format: str, settings: PrepareSettings) -> Iterator[list[str]]:
    """One at a time: a line may be a book."""
    if format == "tokens":
        yield text.split()
        return
    for start, end in sentences.split(text, settings.language):
        found = tokens.tokenize(text[start:end], settings.language, settings.contractions)
        yield [token.text for token in found]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")

"""A chunk of lines → numbered words ↔ one file of the working folder.

Words are numbered within their chunk, in order of appearance.   N words, S sentences, L lines of a chunk.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo import __version__
from stelmo.corpus.inputs import Lines, is_document_mark
from stelmo.corpus.order import key_of
from stelmo.errors import DataError
from stelmo.settings import PrepareSettings
from stelmo.store import atomic
from stelmo.store.containers import read_npz
from stelmo.text import sentences, tokens
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE

AGAIN = "delete its folder and prepare the text again"
_MARKERS = frozenset((BEGIN_SENTENCE, END_SENTENCE))


class Chunk(NamedTuple):
    identity: NDArray[np.uint8]  # hash of the lines and of all settings that change the chunk
    source: NDArray[np.int64]  # (1,) number of the file
    skipped: NDArray[np.int64]  # (1,) tokens <S> and </S> left out
    ids_N: NDArray[np.uint32]
    ends_S: NDArray[np.int64]
    keys_S: NDArray[np.uint64]  # hash of (seed, file, line): decides which sentences are held out
    words: NDArray[np.uint8]  # the distinct words in UTF-8, concatenated
    word_ends: NDArray[np.int64]
    hashes_L: NDArray[np.uint64]  # of the text of each line
    numbers_L: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.ends_S, prepend=0)

    def distinct_words(self) -> list[bytes]:
        """By their number in the chunk."""
        data, ends = self.words.tobytes(), self.word_ends.tolist()
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def number_words(lines: Lines, settings: PrepareSettings) -> Chunk:
    """Split into sentences, tokenise and number the words."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    ids, ends, sentences_L = array("I"), array("q"), []
    skipped = 0
    kept = [place for place, text in enumerate(lines.texts) if lines.format != "wiki" or not is_document_mark(text)]
    for place in kept:
        before = len(ends)
        for sentence in _sentences(lines.texts[place], lines.format, settings):
            words = sentence if _MARKERS.isdisjoint(sentence) else [word for word in sentence if word not in _MARKERS]
            skipped += len(sentence) - len(words)
            if words:
                ids.extend(map(numbers.__getitem__, words))
                ends.append(len(ids))
        sentences_L.append(len(ends) - before)
    numbers_L = np.array([lines.numbers[place] for place in kept], np.int64)
    keys_L = np.broadcast_to(key_of(settings.seed, lines.file, numbers_L), numbers_L.shape)
    table = [word.encode() for word in numbers]
    return Chunk(
        identity=identity_of(lines, settings),
        source=np.array([lines.file]),
        skipped=np.array([skipped]),
        ids_N=np.array(ids, np.uint32),
        ends_S=np.array(ends, np.int64),
        keys_S=np.repeat(keys_L, np.array(sentences_L, np.int64)),
        words=np.frombuffer(b"".join(table), np.uint8),
        word_ends=np.cumsum([len(word) for word in table], dtype=np.int64),
        hashes_L=np.array([_hash(lines.texts[place]) for place in kept], np.uint64),
        numbers_L=numbers_L,
    )


def _sentences(text: str, format: str, settings: PrepareSettings) -> Iterator[list[str]]:
    """One at a time, because a line can hold a whole book."""
    if format == "tokens":
        yield text.split()
        return
    for start, end in sentences.split(text, settings.language):
        found = tokens.tokenize(text[start:end], settings.language, settings.contractions)
        yield [token.text for token in found]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def identity_of(lines: Lines, settings: PrepareSettings) -> NDArray[np.uint8]:
    """Equal if `number_words` returns the same chunk."""
    chosen = (settings.language, settings.contractions, settings.seed)
    about = (__version__, *chosen, lines.file, lines.format, lines.numbers)
    digest = blake2b(repr(about).encode(), digest_size=16)
    digest.update("\n".join(lines.texts).encode())
    return np.frombuffer(digest.digest(), np.uint8)


# Files


def write(chunk: Chunk, path: Path) -> None:
    with atomic.new_file(path, overwrite=True) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **chunk._asdict())


def read(path: Path) -> Chunk:
    arrays = read_npz(path, AGAIN, Chunk._fields)
    return Chunk(**arrays)


def read_field(name: str, paths: Iterable[Path]) -> Iterator[NDArray[Any]]:
    """One array of every chunk, without reading the others."""
    for path in paths:
        yield read_npz(path, AGAIN, (name,))[name]


def read_finished(path: Path, identity: NDArray[np.uint8]) -> Chunk | None:
    """The chunk an earlier run has left, if it has this identity and is not damaged."""
    try:
        chunk = read(path)
    except DataError:
        return None
    return chunk if np.array_equal(chunk.identity, identity) else None

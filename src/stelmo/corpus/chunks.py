"""Names of files and folders → the input files of a corpus → chunks of their lines → numbered words ↔ a file of the
working folder.

Chunks are the unit of parallel work; they depend on the text alone, not on the number of processes. Words are numbered
within their chunk, in order of appearance.   N words, S sentences, L lines of a chunk.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo import __version__
from stelmo.corpus.folder import InputFile
from stelmo.corpus.windows import key_of
from stelmo.errors import DataError
from stelmo.settings import PrepareSettings
from stelmo.store import atomic
from stelmo.store.containers import read_npz
from stelmo.text import formats, sentences, tokens
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.files import LineReader

CHUNK_CHARACTERS = 1 << 20  # approximate; a longer line is a separate chunk
AGAIN = "delete its folder and prepare the text again"
_MARKERS = frozenset((BEGIN_SENTENCE, END_SENTENCE))


# Input files and their lines


def find_inputs(names: Sequence[str | Path], outputs: Iterable[Path]) -> tuple[InputFile, ...]:
    """Files as they are named; for a folder, all files in and below it, sorted, without hidden ones and `outputs`."""
    excluded = [path.resolve() for path in outputs]
    found: list[Path] = []
    for path in map(Path, names):
        if not path.is_dir():
            found.append(path)
            continue
        for file in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if file.is_file() and not hidden and not any(map(file.resolve().is_relative_to, excluded)):
                found.append(file)
    if not found:
        raise DataError(f"{', '.join(map(str, names)) or 'no input'}: no files found; expected text files")
    repeated = next((path for path, times in Counter(found).items() if times > 1), None)
    if repeated is not None:
        raise DataError(f"{repeated}: named twice; name each file once")
    return tuple(map(describe_input, found))


def describe_input(path: Path) -> InputFile:
    if str(path) == "-":
        raise DataError("standard input cannot be read again when an interrupted run resumes; give a file")
    try:
        status = path.stat()
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: {getattr(problem, 'strerror', None) or problem}; expected a text file") from None
    if not path.is_file():
        raise DataError(f"{path}: not a file; expected text, plain or compressed")
    return InputFile(name=str(path), bytes=status.st_size, modified=status.st_mtime_ns)


class Lines(NamedTuple):
    """A chunk of the lines of one file that are not blank, with their numbers from 1."""

    file: int
    format: str
    numbers: list[int]
    texts: list[str]


class ChunkReader:
    """Iterates over the chunks of all files in order; `fraction` is the share of the bytes read so far."""

    def __init__(self, files: Sequence[InputFile], format: str | None) -> None:
        self._files, self._format = files, format
        self._finished = 0
        self._reader: LineReader | None = None

    def fraction(self) -> float:
        sizes = [file.bytes for file in self._files]
        within = 0.0 if self._reader is None else self._reader.fraction() or 0.0
        done = sum(sizes[: self._finished]) + within * sum(sizes[self._finished : self._finished + 1])
        return done / max(1, sum(sizes))

    def __iter__(self) -> Iterator[Lines]:
        for number, file in enumerate(self._files):
            self._finished = number
            with LineReader(file.name) as self._reader:
                yield from _chunks(self._reader, number, self._format)
        self._finished, self._reader = len(self._files), None


def _chunks(reader: LineReader, file: int, format: str | None) -> Iterator[Lines]:
    """The chunks of one file; without a format, the name and the first line decide."""
    numbers: list[int] = []
    texts: list[str] = []
    room = CHUNK_CHARACTERS
    for number, line in reader:
        text = line.strip()
        if not text:
            continue
        if format is None:
            guessed = formats.guess(reader.name)
            if guessed not in ("text", "tokens"):
                raise DataError(
                    f"{reader.name}: looks like a {guessed} file; if it is not, choose --from text, tokens or wiki"
                )
            format = "wiki" if is_document_mark(text) else guessed
        if texts and len(text) > room:
            yield Lines(file, format, numbers, texts)
            numbers, texts, room = [], [], CHUNK_CHARACTERS
        numbers.append(number)
        texts.append(text)
        room -= len(text)
    if texts and format:
        yield Lines(file, format, numbers, texts)


def is_document_mark(line: str) -> bool:
    """Whether WikiExtractor writes such a line before or after an article."""
    return line == "</doc>" or (line.startswith("<doc ") and line.endswith(">"))


# Numbered words


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
        """The words in the order of their numbers in the chunk."""
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
    digests = [blake2b(lines.texts[place].encode(), digest_size=8).digest() for place in kept]
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
        hashes_L=np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64),
        numbers_L=numbers_L,
    )


def _sentences(text: str, format: str, settings: PrepareSettings) -> Iterator[list[str]]:
    """The sentences of a line, one at a time, because a line can hold a whole book."""
    if format == "tokens":
        yield text.split()
        return
    for start, end in sentences.split(text, settings.language):
        found = tokens.tokenize(text[start:end], settings.language, settings.contractions)
        yield [token.text for token in found]


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

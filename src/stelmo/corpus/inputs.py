"""Names of files and folders → the input files of a corpus → chunks of their lines, the unit of parallel work.

The chunks depend on the text alone, not on the number of processes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stelmo.corpus.folder import InputFile
from stelmo.errors import DataError
from stelmo.text import formats
from stelmo.text.files import LineReader

CHUNK_CHARACTERS = 1 << 20  # approximate; a longer line is a chunk of its own


def find_inputs(names: Sequence[str | Path], outputs: Iterable[Path]) -> tuple[InputFile, ...]:
    """Files as they are named; for a folder, all files in and below it, sorted. `outputs` are left out."""
    excluded = [path.resolve() for path in outputs]
    found: list[Path] = []
    for path in map(Path, names):
        found += _files_below(path, excluded) if path.is_dir() else [path]
    if not found:
        raise DataError(f"{', '.join(map(str, names)) or 'no input'}: no files found; expected text files")
    repeated = next((path for path, times in Counter(found).items() if times > 1), None)
    if repeated is not None:
        raise DataError(f"{repeated}: named twice; name each file once")
    return tuple(map(describe_input, found))


def _files_below(folder: Path, excluded: Sequence[Path]) -> list[Path]:
    """Without hidden files."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    visible = (path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return [path for path in visible if not any(path.resolve().is_relative_to(other) for other in excluded)]


def describe_input(path: Path) -> InputFile:
    if str(path) == "-":
        raise DataError("standard input cannot be read again when an interrupted run resumes; give a file")
    try:
        status = path.stat()
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: {getattr(problem, 'strerror', None) or problem}") from None
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
    numbers: list[int] = []
    texts: list[str] = []
    room = CHUNK_CHARACTERS
    for number, line in reader:
        text = line.strip()
        if not text:
            continue
        format = format or _detect_format(reader.name, text)
        if texts and len(text) > room:
            yield Lines(file, format, numbers, texts)
            numbers, texts, room = [], [], CHUNK_CHARACTERS
        numbers.append(number)
        texts.append(text)
        room -= len(text)
    if texts and format:
        yield Lines(file, format, numbers, texts)


def _detect_format(name: str, first_line: str) -> str:
    guessed = formats.guess(name)
    if guessed not in ("text", "tokens"):
        raise DataError(f"{name}: looks like a {guessed} file; if it is not, choose --from text, tokens or wiki")
    return "wiki" if is_document_mark(first_line) else guessed


def is_document_mark(line: str) -> bool:
    """Whether WikiExtractor writes such a line before or after an article."""
    return line == "</doc>" or (line.startswith("<doc ") and line.endswith(">"))

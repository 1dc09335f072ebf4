"""A corpus → the vectors of one of N shards, and N finished parts → one file. Knows no file format and no cluster.

Blocks go round: block k falls to shard k mod N. Every shard reads the whole text, so that all cut it alike, and
computes its own blocks; a block's bits depend on the block alone, so the parts together are the bytes of one run.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

from stelmo.config import OutputSettings
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError
from stelmo.jobs import blocks, parts, run, work
from stelmo.jobs.blocks import Block
from stelmo.jobs.parts import Part
from stelmo.jobs.run import Advance
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence


class Shard(NamedTuple):
    number: int  # counted from 1
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """2/8 → the second of eight."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        shard = cls(*map(int, found.groups())) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise ConfigError(f"--shard {text!r}: expected I/N with I from 1 to N, such as 2/8")
        return shard


class Done(NamedTuple):
    folder: Path
    sentences: int  # of this shard


class _Seen:
    """What went by of the whole text."""

    def __init__(self) -> None:
        self.blocks = self.sentences = self.own = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, block: Sequence[Sentence]) -> None:
        self.blocks += 1
        self.sentences += len(block)
        self._digest.update(blocks.encoded(block))

    def text(self) -> str:
        return self._digest.hexdigest()


def embed_shard(
    model: Model,
    sentences: Iterable[Sentence],
    path: Path,
    settings: OutputSettings,
    shard: Shard,
    *,
    overwrite: bool = False,
    advance: Advance = lambda tokens: None,
) -> Done:
    """The shard's part of the output `path`, in a folder beside it; `merge` puts all parts together."""
    folder = refuse_output(path, shard, overwrite)
    if model.settings.state == "carry":
        raise ConfigError("--shard: under state 'carry' a sentence depends on all before it; choose warm or fresh")
    about, shape = work.about(model, settings), work.shape(model, settings)
    working = work.working_folder(folder, about, overwrite)
    with work.kept_if_begun(working):
        seen = _computed(model, sentences, settings, shard, working, advance)
        if not seen.blocks:
            raise DataError(work.NO_SENTENCE)
    whole = {"blocks": seen.blocks, "sentences": seen.sentences, "text": seen.text()}
    part = Part(shard=shard.number, of=shard.of, settings=about, shape=shape, **whole)
    parts.finish(working, folder, part)
    return Done(folder, seen.own)


def _computed(
    model: Model,
    sentences: Iterable[Sentence],
    settings: OutputSettings,
    shard: Shard,
    folder: Path,
    advance: Advance,
) -> _Seen:
    """The shard's blocks, computed where an earlier run has not left them."""
    seen = _Seen()
    for number, block in enumerate(work.cut(model, work.keyed(sentences, settings), settings)):
        seen.add(block)
        if number % shard.of != shard.number - 1:
            continue
        file = folder / blocks.name(number)
        if not blocks.finished(file, block):
            blocks.write(Block(block, work.compute(model, block, settings)[0]), file)
        seen.own += len(block)
        advance(work.token_count(block))
    return seen


def refuse_output(path: Path, shard: Shard, overwrite: bool) -> Path:
    """Where the part goes; a name that cannot be, refused before any work."""
    vectors.writer_for(path)
    folder = parts.folder_of(path, *shard)
    atomic.refuse_existing(folder, overwrite)
    return folder


def merge(folders: Sequence[Path], path: Path, *, overwrite: bool = False) -> int:
    """All parts of one run → the file a run without shards writes; says how many sentences. The parts stay."""
    kind = run.refuse_output(path, overwrite)
    whole, files = parts.complete(folders or parts.beside(path))
    seen = _Seen()
    with (
        atomic.new_file(path, overwrite) as draft,
        vectors.writing(draft, kind, whole.shape, whole.settings) as writer,
    ):
        count = run.assemble(_read(files, seen), writer)
        if seen.text() != whole.text:
            raise DataError(f"{files[0].parent}: the blocks are not those of the text the parts name; run them again")
    return count


def _read(files: Iterable[Path], seen: _Seen) -> Iterator[Block]:
    for file in files:
        try:
            block = blocks.read(file)
        except (OSError, ValueError, KeyError, BadZipFile) as problem:
            raise DataError(f"{file}: damaged ({problem}); delete its folder and run the shard again") from None
        seen.add(block.sentences)
        yield block

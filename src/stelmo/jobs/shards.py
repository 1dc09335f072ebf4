"""A text → the blocks of one of N shards in a folder, and N finished shard folders → one file of vectors.

Block k belongs to shard k mod N. Every shard reads the whole text, so that all shards cut it at the same places, but
computes only its own blocks. A block's bits depend on the block alone, so merging gives the bytes of a single run.

part.json    written last: which shard of how many, the text, the settings
000002.npz   the blocks of the shard, numbered over the whole text
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from stelmo.config import Positive, Settings, parse
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError
from stelmo.jobs import blocks, run
from stelmo.jobs.blocks import Block, Totals
from stelmo.jobs.run import Advance, Embedded
from stelmo.settings import OutputSettings
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

NOTE = "part.json"


class Shard(NamedTuple):
    number: int  # from 1
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """2/8 → the second of eight."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        shard = cls(*map(int, found.groups())) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise ConfigError(f"--shard {text!r}: expected I/N with I from 1 to N, such as 2/8")
        return shard

    def owns(self, block: int) -> bool:
        return block % self.of == self.number - 1


class ShardNote(Settings):
    """The contents of part.json. Within one run, the notes of all shards differ only in `shard`."""

    stelmo: Literal[1] = 1  # version of this format
    shard: Positive  # from 1
    of: Positive
    settings: dict[str, Any]  # everything that decides the numbers, including the model's fingerprint
    shape: vectors.Shape
    blocks: Positive  # of the whole text
    sentences: Positive  # of the whole text
    text: str  # digest of all sentences


class Done(NamedTuple):
    folder: Path
    sentences: int  # of this shard
    made: bool  # False: the same shard had already finished


# One shard


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
    """Compute one shard of the output `path`, in a folder beside it; `merge` joins all shards."""
    folder = refuse_output(path, shard, overwrite)
    if model.settings.state == "carry":
        raise ConfigError("--shard: with state 'carry' a sentence depends on all before it; choose warm or fresh")
    used, shape = blocks.run_settings(model, settings), blocks.output_shape(model, settings)
    if folder.exists() and not overwrite:
        return _find_finished(model, sentences, settings, shard, folder)
    working = blocks.working_folder(folder, used, overwrite)
    totals, own = Totals(), 0
    with blocks.removed_if_empty(working):
        for number, block in enumerate(blocks.cut(model, blocks.checked_keys(sentences, settings), settings)):
            totals.add(block)
            if shard.owns(number):
                file = working / blocks.file_name(number)
                if blocks.find_finished(file, block, shape) is None:
                    blocks.write(Block(block, blocks.compute(model, block, settings)[0]), file)
                own += len(block)
                advance(blocks.token_count(block))
        if not totals.blocks:
            raise DataError(blocks.NO_SENTENCE)
    whole = {"blocks": totals.blocks, "sentences": totals.sentences, "text": totals.text()}
    _finish(working, folder, shard, ShardNote(shard=shard.number, of=shard.of, settings=used, shape=shape, **whole))
    return Done(folder, own, True)


def refuse_output(path: Path, shard: Shard, overwrite: bool) -> Path:
    """Refuse a path that cannot be written, before any work → the folder of the shard."""
    vectors.writer_for(path)
    folder = path.with_name(f"{path.name}.{shard.number}-of-{shard.of}")
    atomic.refuse_existing(folder, overwrite or (folder / NOTE).is_file())
    return folder


def _find_finished(
    model: Model, sentences: Iterable[Sentence], settings: OutputSettings, shard: Shard, folder: Path
) -> Done:
    """The existing folder, if it is the shard of the same text and settings; any other is refused."""
    note, totals, own = _read_note(folder), Totals(), 0
    if note.settings == json.loads(json.dumps(blocks.run_settings(model, settings))):
        for number, block in enumerate(blocks.cut(model, sentences, settings)):
            totals.add(block)
            own += len(block) if shard.owns(number) else 0
    atomic.refuse_existing(folder, (note.shard, note.of, note.text) == (*shard, totals.text()))
    return Done(folder, own, False)


def _finish(working: Path, folder: Path, shard: Shard, note: ShardNote) -> None:
    """Add the note and give the working folder its final name."""
    wanted = {blocks.file_name(number) for number in range(note.blocks) if shard.owns(number)}
    for file in working.glob("*.npz"):
        if file.name not in wanted:  # left by a run over another text
            file.unlink()
    with atomic.new_file(working / NOTE, overwrite=True) as draft:
        draft.write_text(note.model_dump_json(indent=1) + "\n")
    atomic.remove(folder)
    working.replace(folder)


# All shards


def merge(folders: Sequence[Path], path: Path, *, overwrite: bool = False) -> Embedded:
    """Finished shards → the file that a single run writes, unless it exists already. The folders are kept."""
    writer_class = run.refuse_output(path, overwrite)
    note, files = _all_blocks(folders or _find_shards(path))
    if path.exists() and not overwrite:
        run.refuse_unfinished(path, note.settings, note.text)
        return Embedded(note.sentences, False)
    run.remove_dead_drafts(path)
    totals = Totals()
    with atomic.new_file(path, overwrite) as draft:
        with vectors.writing(draft, writer_class, note.shape, note.settings) as writer:
            run.write_blocks((blocks.read(file, note.shape) for file in files), writer, totals)
            if totals.text() != note.text:
                raise DataError(f"{files[0].parent}: the blocks do not match the text in {NOTE}; run the shards again")
        run.write_note(path, draft, note.settings, note.text)
    return Embedded(totals.sentences, True)


def _find_shards(path: Path) -> list[Path]:
    """Finished shard folders beside the output."""
    found = [entry for entry in path.absolute().parent.iterdir() if entry.name.startswith(f"{path.name}.")]
    folders = sorted(entry for entry in found if (entry / NOTE).is_file() and not entry.name.endswith(".partial"))
    if not folders:
        raise DataError(f"{path}: no shard such as {path.name}.1-of-8 beside it; --shard 1/8 makes the first")
    return folders


def _all_blocks(folders: Sequence[Path]) -> tuple[ShardNote, list[Path]]:
    """The note of the first folder and the files of all blocks in the order of the text; none may be missing."""
    notes = [_read_note(folder) for folder in folders]
    by_shard: dict[int, Path] = {}
    for folder, note in zip(folders, notes, strict=True):
        _refuse_other_run(folders[0], notes[0], folder, note)
        if note.shard in by_shard:
            raise DataError(f"{folder} and {by_shard[note.shard]}: both are shard {note.shard}; give only one of them")
        by_shard[note.shard] = folder
    of = notes[0].of
    missing = [f"{shard}/{of}" for shard in range(1, of + 1) if shard not in by_shard]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise DataError(f"shard {shown} is missing; run the same command with --shard {missing[0]}")
    files = [by_shard[number % of + 1] / blocks.file_name(number) for number in range(notes[0].blocks)]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file} is missing; delete the folder and run its shard again")
    return notes[0], files


def _read_note(folder: Path) -> ShardNote:
    values = atomic.read_json(folder / NOTE, DataError, "the folder is not a finished shard, so run its shard again")
    return parse(ShardNote, values, str(folder / NOTE), DataError)


def _refuse_other_run(first: Path, expected: ShardNote, folder: Path, found: ShardNote) -> None:
    """Refuse a shard whose note differs from that of the first folder, naming what differs."""
    settings = sorted(expected.settings.keys() | found.settings.keys())
    text, other_text = ((note.text, note.blocks, note.sentences) for note in (expected, found))
    compared: list[tuple[str, object, object]] = [
        ("number of shards", expected.of, found.of),
        *((name, expected.settings.get(name), found.settings.get(name)) for name in settings),
        ("text", text, other_text),
        ("shape", expected.shape, found.shape),
    ]
    for name, one, other in compared:
        if one != other:
            raise DataError(
                f"{folder} has another {name} than {first}; all shards come from one command, except for --shard"
            )

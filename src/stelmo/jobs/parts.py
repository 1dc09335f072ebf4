"""One shard's finished blocks ↔ a folder that says what it is a part of. Knows no model and no output format.

part.json    written last: which shard of how many, of what text, under which settings
000002.npz   the blocks that fall to the shard, numbered through the whole text
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from stelmo.config import Positive, Settings, parse
from stelmo.errors import DataError
from stelmo.jobs import blocks
from stelmo.store import atomic, vectors

NOTE = "part.json"


class Part(Settings):
    """All parts of one run say the same, but for the shard."""

    stelmo: Literal[1] = 1  # version of this format
    shard: Positive  # counted from 1
    of: Positive
    settings: dict[str, Any]  # all that decides the numbers, the model's fingerprint among it
    shape: vectors.Shape
    blocks: Positive  # of the whole text
    sentences: Positive  # of the whole text
    text: str  # digest of all sentences

    def owns(self, block: int) -> bool:
        return block % self.of == self.shard - 1


def folder_of(path: Path, shard: int, of: int) -> Path:
    """Beside the output that all parts are for."""
    return path.with_name(f"{path.name}.{shard}-of-{of}")


def beside(path: Path) -> list[Path]:
    """Finished parts of the output, whatever their number."""
    found = [entry for entry in path.absolute().parent.iterdir() if entry.name.startswith(f"{path.name}.")]
    parts = sorted(entry for entry in found if (entry / NOTE).is_file() and not entry.name.endswith(".partial"))
    if not parts:
        raise DataError(f"{path}: no part such as {path.name}.1-of-8 is beside it; --shard 1/8 makes the first")
    return parts


def finish(work: Path, folder: Path, part: Part) -> None:
    """The working folder, with what it is, in its place; a part that is there makes room."""
    wanted = {blocks.name(number) for number in range(part.blocks) if part.owns(number)}
    for file in work.glob("*.npz"):
        if file.name not in wanted:  # left by a run over another text
            file.unlink()
    with atomic.new_file(work / NOTE, overwrite=True) as draft:
        draft.write_text(part.model_dump_json(indent=1) + "\n")
    atomic.remove(folder)
    work.replace(folder)


def read(folder: Path) -> Part:
    try:
        values = json.loads((folder / NOTE).read_bytes())
    except (OSError, ValueError):
        raise DataError(f"{folder}: no finished part of a sharded run ({NOTE} is missing or damaged)") from None
    return parse(Part, values, str(folder / NOTE), DataError)


def complete(folders: Sequence[Path]) -> tuple[Part, list[Path]]:
    """What the parts have in common, and the files of all blocks in the order of the text; nothing may lack."""
    parts = [read(folder) for folder in folders]
    by_shard: dict[int, Path] = {}
    for folder, part in zip(folders, parts, strict=True):
        _refuse_another(folders[0], parts[0], folder, part)
        if part.shard in by_shard:
            raise DataError(f"{folder} and {by_shard[part.shard]}: both are shard {part.shard}; each goes in once")
        by_shard[part.shard] = folder
    whole = parts[0]
    missing = [f"{shard}/{whole.of}" for shard in range(1, whole.of + 1) if shard not in by_shard]
    if missing:
        raise DataError(f"shard {_listed(missing)} is missing; run the same command with --shard {missing[0]}")
    files = [by_shard[number % whole.of + 1] / blocks.name(number) for number in range(whole.blocks)]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file} is missing; delete the folder and run its shard again")
    return whole, files


def _refuse_another(first: Path, expected: Part, folder: Path, found: Part) -> None:
    for name, one, other in _compared(expected, found):
        if one != other:
            raise DataError(
                f"{folder} is of another {name} than {first}; all parts come from one command but for --shard"
            )


def _compared(one: Part, other: Part) -> Iterator[tuple[str, object, object]]:
    yield "number of shards", one.of, other.of
    for name in sorted(one.settings.keys() | other.settings.keys()):
        yield name, one.settings.get(name), other.settings.get(name)
    yield "text", (one.text, one.blocks, one.sentences), (other.text, other.blocks, other.sentences)
    yield "shape", one.shape, other.shape


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"

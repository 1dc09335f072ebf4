"""Names of files and settings → what a corpus is to be made of, and whether it is there already. Knows no text."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from stelmo.config import PrepareSettings
from stelmo.corpus import folder as shards
from stelmo.corpus.manifest import PARTS, InputFile, Manifest, recognises
from stelmo.errors import DataError, OutputError


class Recipe(NamedTuple):
    """With the text itself, all that decides the bytes of a corpus folder; a manifest has the same fields."""

    settings: PrepareSettings
    inputs: tuple[InputFile, ...]
    vocabulary_file: InputFile | None


def recipe_of(inputs: Iterable[str | Path], settings: PrepareSettings, ours: Sequence[Path]) -> Recipe:
    """The files there, but none that we write ourselves."""
    files = tuple(_described(path) for path in _expanded(inputs, ours))
    given = None if settings.vocabulary is None else _described(Path(settings.vocabulary))
    return Recipe(settings, files, given)


def _expanded(inputs: Iterable[str | Path], ours: Sequence[Path]) -> list[Path]:
    """Files as they are named; of a folder, all files in it and below, sorted, but none that we write."""
    found: list[Path] = []
    for name in inputs:
        path = Path(name)
        found += _inside(path, ours) if path.is_dir() else [path]
    if not found:
        raise DataError(f"{', '.join(map(str, inputs)) or 'no input'}: no file there; expected text files")
    twice = next((path for path, times in Counter(found).items() if times > 1), None)
    if twice is not None:
        raise DataError(f"{twice}: named twice; each file is read once")
    return found


def _inside(folder: Path, ours: Sequence[Path]) -> list[Path]:
    avoided = [path.resolve() for path in ours]
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    visible = (path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return [path for path in visible if not any(path.resolve().is_relative_to(avoid) for avoid in avoided)]


def _described(path: Path) -> InputFile:
    if str(path) == "-":
        raise DataError("standard input can be read only once, and an interrupted run reads again; give a file")
    try:
        status = path.stat()
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: {getattr(problem, 'strerror', None) or problem}") from None
    if not path.is_file():
        raise DataError(f"{path}: not a file; expected text, plain or compressed")
    return InputFile(name=str(path), bytes=status.st_size, modified=status.st_mtime_ns)


def standing(folder: Path, recipe: Recipe, overwrite: bool) -> Manifest | None:
    """The finished corpus of the same recipe, if it is there; anything else that is in the way is refused."""
    if not folder.absolute().parent.is_dir():
        raise OutputError(f"{folder}: there is no folder {folder.parent} to write in; make it first")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not recognises(folder):
        raise OutputError(f"{folder} exists and is no corpus; choose another name")
    if overwrite:
        _refuse_loss(folder)
        return None
    manifest = shards.read(folder).manifest
    different = _differences(Recipe(manifest.settings, manifest.inputs, manifest.vocabulary_file), recipe)
    if different:
        raise OutputError(f"{folder} was made with {different}; choose another name or allow overwriting (--overwrite)")
    return manifest


def _refuse_loss(folder: Path) -> None:
    ours = ("manifest.json", "vocab.txt", "types.", "targets.npy", *(f"{part}-" for part in PARTS))
    lost = sorted(path.name for path in folder.iterdir() if not path.name.startswith(ours))
    if lost:
        raise OutputError(f"{folder}: overwriting would delete {', '.join(lost[:3])}; choose another folder")


def _differences(old: Recipe, new: Recipe) -> str:
    """What two recipes differ in, for a person."""
    before, after = old.settings.model_dump(), new.settings.model_dump()
    found = [f"{name} {before[name]}, not {after[name]}" for name in after if after[name] != before[name]]
    if old.vocabulary_file != new.vocabulary_file and before["vocabulary"] == after["vocabulary"]:
        found.append("another vocabulary file of that name")
    if old.inputs != new.inputs:
        found.append(f"other inputs ({_first_three(_different_inputs(old.inputs, new.inputs))})")
    return "; ".join(found)


def _different_inputs(old: Sequence[InputFile], new: Sequence[InputFile]) -> list[str]:
    more_or_fewer = {file.name for file in old} ^ {file.name for file in new}
    return sorted(more_or_fewer) or [file.name for file in new if file not in old] or ["in another order"]


def _first_three(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")

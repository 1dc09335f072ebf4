"""A corpus folder's manifest.json ↔ what was counted, of what, and how. Knows no shards."""

import hashlib
import json
from pathlib import Path

from pydantic import Field

from stelmo.config import PrepareSettings, Settings, parse
from stelmo.errors import DataError

VERSION = 1
MANIFEST = "manifest.json"
PARTS = ("train", "heldout")
AGAIN = "prepare the text again with --overwrite"


class InputFile(Settings):
    name: str
    bytes: int
    modified: int = Field(description="nanoseconds since 1970")


class StoredFile(Settings):
    bytes: int
    sha256: str


class Repeated(Settings):
    where: str = Field(description="file:line of the first one")
    times: int


class Part(Settings):
    sentences: int
    tokens: int
    unknown: int = Field(description="tokens outside the vocabulary")
    shards: int


class Manifest(Settings):
    corpus: int = Field(description="version of the folder's format")
    settings: PrepareSettings
    inputs: tuple[InputFile, ...]
    vocabulary_file: InputFile | None = Field(None, description="the vocabulary that was given")
    lines: int = Field(description="lines that are not blank")
    duplicate_lines: int = Field(description="lines that are the same as one before")
    most_repeated: tuple[Repeated, ...] = ()
    types: int = Field(description="distinct words, <S> and </S> included")
    vocabulary: int = Field(description="lines of vocab.txt")
    long_tokens: int = Field(description="tokens of more than 48 bytes, which a model of 50 characters cuts")
    skipped_markers: int = Field(description="tokens <S> or </S> in the text, left out")
    train: Part
    heldout: Part
    files: dict[str, StoredFile]


def fingerprint(manifest: Manifest) -> str:
    digests = sorted((name, file.sha256) for name, file in manifest.files.items())
    return hashlib.sha256(json.dumps([manifest.corpus, digests]).encode()).hexdigest()[:32]


def recognises(folder: Path) -> bool:
    """Other folders have a manifest.json, too; ours says `corpus`."""
    try:
        return "corpus" in json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, TypeError):
        return False


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `stelmo prepare` makes a corpus out of text")
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{folder}: no {MANIFEST}, so no finished corpus; `stelmo prepare` makes one") from None
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: cannot be read ({problem}); {AGAIN}") from None
    version = values.get("corpus") if isinstance(values, dict) else None
    if version != VERSION:
        found = "not of a corpus" if version is None else f"a corpus of version {version}"
        raise DataError(f"{path}: {found}; this stelmo reads version {VERSION}, so prepare the text again")
    return parse(Manifest, values, str(path), DataError)


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """With the size and digest of every file there; the last file to be written."""
    files = {path.name: StoredFile(bytes=path.stat().st_size, sha256=digest(path)) for path in sorted(folder.iterdir())}
    finished = manifest.model_copy(update={"files": files})
    (folder / MANIFEST).write_text(finished.model_dump_json(indent=2) + "\n")
    return finished


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(manifest: Manifest) -> list[tuple[str, str]]:
    """In lines for a person."""
    tokens = manifest.train.tokens + manifest.heldout.tokens
    settings = manifest.settings.model_dump(exclude_none=True)
    marks = manifest.skipped_markers
    return [
        ("format", f"stelmo corpus, version {manifest.corpus}"),
        ("inputs", f"{len(manifest.inputs):,} files, {sum(file.bytes for file in manifest.inputs):,} bytes"),
        ("settings", ", ".join(f"{name} {value}" for name, value in settings.items())),
        *((part, _counted(getattr(manifest, part))) for part in PARTS),
        ("types", f"{manifest.types:,} distinct words"),
        ("vocabulary", f"{manifest.vocabulary:,} words"),
        ("lines", f"{manifest.lines:,}; {_share(manifest.duplicate_lines, manifest.lines)} the same as one before"),
        *(("", f"{line.times:,} times {line.where}") for line in manifest.most_repeated),
        ("long words", f"{_share(manifest.long_tokens, tokens)} of the tokens are longer than 48 bytes, and cut"),
        *([("left out", f"{marks:,} tokens <S> or </S>, which are the models' own")] if marks else []),
    ]


def _counted(part: Part) -> str:
    return f"{part.sentences:,} sentences, {part.tokens:,} tokens, {_share(part.unknown, part.tokens)} unknown"


def _share(some: int, all_: int) -> str:
    return f"{some:,} ({some / max(1, all_):.2%})"

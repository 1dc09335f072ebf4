"""CoNLL-U files → sentences of words and their parts of speech. Knows no vectors."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stelmo.config import choose
from stelmo.errors import DataError
from stelmo.text.files import LineReader

COLUMN = {"upos": 3, "xpos": 4}  # 17 universal tags; the treebank's own, in English those of the Penn Treebank
SPLITS = ("train", "dev", "test")
_NOT_A_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # a multiword token, an empty node


class Sentence(NamedTuple):
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def find(folder: Path) -> dict[str, Path]:
    """Split → file: train.conllu, or as treebanks name it, en_ewt-ud-train.conllu."""
    return {split: _find(folder, split) for split in SPLITS}


def _find(folder: Path, split: str) -> Path:
    found = sorted(path for path in folder.glob("*.conllu*") if re.search(rf"\b{split}\.conllu", path.name))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or f"no {split}.conllu"
        raise DataError(f"{folder}: {names}; expected one file each for train, dev and test of a treebank")
    return found[0]


def read(path: Path, tags: str = "upos") -> list[Sentence]:
    choose("tags", tags, tuple(COLUMN))
    sentences = list(_sentences(path, tags))
    if not sentences:
        raise DataError(f"{path}: no sentences; expected CoNLL-U")
    return sentences


def _sentences(path: Path, tags: str) -> Iterator[Sentence]:
    words: list[tuple[str, str]] = []
    where = ""
    with LineReader(path) as reader:
        for number, line in reader:
            if not line.strip(" \t"):
                if words:
                    yield _sentence(words, where)
                words = []
            elif not line.startswith("#") and (word := _word(line, tags, f"{path}:{number}")):
                where = where if words else f"{path}:{number}"
                words.append(word)
    if words:
        yield _sentence(words, where)


def _sentence(words: list[tuple[str, str]], where: str) -> Sentence:
    tokens, tags = zip(*words, strict=True)
    return Sentence(tokens, tags, where)


def _word(line: str, tags: str, where: str) -> tuple[str, str] | None:
    fields = line.split("\t")
    if len(fields) != 10:
        raise DataError(f"{where}: {len(fields)} columns; CoNLL-U has 10, with tabs between them")
    if _NOT_A_WORD.fullmatch(fields[0]):
        return None
    tag = fields[COLUMN[tags]]
    if not fields[1] or tag in ("", "_"):
        other = "upos" if tags == "xpos" else "xpos"
        raise DataError(f"{where}: word {fields[1]!r}, {tags} {tag!r}; expected a word with its tag, or choose {other}")
    return fields[1], tag

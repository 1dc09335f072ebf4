"""Lines of a named format → sentences of tokens. Knows no compression and no tokenisation rules.

text     raw text, one paragraph per line
tokens   one sentence per line, tokens separated by white space; a blank line is an empty sentence
conllu   Universal Dependencies; the syntactic words
columns  one token per line, tabs or spaces between columns, a blank line after each sentence (CoNLL-2000, 2003, 2012,
         BIO files)
jsonl    one JSON value per line: {"tokens": [...]}, {"text": "..."}, [...] or "..."
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import dropwhile
from pathlib import PurePath
from typing import Any, NamedTuple

from stelmo.errors import ConfigError, DataError
from stelmo.text.files import LineReader, display

FORMATS = ("text", "tokens", "conllu", "columns", "jsonl")

Tokenizer = Callable[[str], list[list[str]]]
_Row = tuple[int, str]

_COMPRESSED = {".gz", ".xz", ".zst"}
_SUFFIXES = {
    ".conllu": "conllu",
    ".tsv": "columns",
    ".conll": "columns",
    ".bio": "columns",
    ".iob": "columns",
    ".iob2": "columns",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".ndjson": "jsonl",
    ".tok": "tokens",
}
EXTENSIONS = {".txt", *_SUFFIXES, *_COMPRESSED}  # of text files


class Sentence(NamedTuple):
    """Tokens and where they come from: the file, and the line (from 1) the sentence starts in.

    `columns` are other columns of the data: names, each with the values of the tokens.
    """

    tokens: list[str]
    source: str
    line: int
    columns: tuple[tuple[str, list[str]], ...] = ()


def guess(path: str) -> str:
    """The format a file's name suggests."""
    name = PurePath(path.lower())
    return _SUFFIXES.get(PurePath(name.stem if name.suffix in _COMPRESSED else name).suffix, "text")


def read(
    reader: LineReader,
    name: str,
    format: str,
    *,
    tokenizer: Tokenizer,
    column: int = 0,
    keep: Sequence[str] = (),
) -> Iterator[Sentence]:
    """The sentences of a file. `tokenizer` splits raw text; `column` (from 0) holds the word in "columns".

    `keep` names further columns to read: "upos" and others in CoNLL-U, a number such as "3" or "pos=3" in columns, and
    in JSON lines a key, whose value is a list with a string for each token, or one string for all of them.
    """
    if format not in FORMATS:
        raise ConfigError(f"format {format!r}: expected one of {', '.join(FORMATS)}")
    if column < 0:
        raise ConfigError(f"column {column}: expected 0 for the first column, or more")
    if keep and format in ("text", "tokens"):
        raise ConfigError(f"{display(name)}: {format} has no column {keep[0]!r}; give conllu, columns or jsonl")
    source = display(name)
    match format:
        case "text":
            return (Sentence(tokens, source, number) for number, line in reader for tokens in tokenizer(line))
        case "tokens":
            return (Sentence(line.split(), source, number) for number, line in reader)
        case "conllu":
            for asked in keep:
                if asked not in _CONLLU:
                    raise ConfigError(f"column {asked!r}: CoNLL-U has {', '.join(_CONLLU[2:])}")
            return _conllu(reader, source, keep)
        case "columns":
            return _columns(reader, source, column, [_named_column(asked) for asked in keep])
        case _:
            return _jsonl(reader, source, tokenizer, keep)


# CoNLL-U and columns: rows, with blank lines between the sentences


def _blocks(reader: LineReader) -> Iterator[list[_Row]]:
    """Rows between blank lines. Only tabs and spaces are blank: a word may be a no-break space."""
    rows: list[_Row] = []
    for number, line in reader:
        if line.strip(" \t"):
            rows.append((number, line))
        elif rows:
            yield rows
            rows = []
    if rows:
        yield rows


_CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NOT_A_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # a multiword token, an empty node


def _conllu(reader: LineReader, source: str, keep: Sequence[str]) -> Iterator[Sentence]:
    for block in _blocks(reader):
        rows = [row for row in block if not row[1].startswith("#")]
        if words := _syntactic_words(rows, source):
            kept = tuple((name, [fields[_CONLLU.index(name)] for fields in words]) for name in keep)
            yield Sentence([fields[1] for fields in words], source, rows[0][0], kept)


def _syntactic_words(rows: list[_Row], source: str) -> list[list[str]]:
    """The ten fields of each word, without multiword tokens and empty nodes."""
    words: list[list[str]] = []
    for number, line in rows:
        where = f"{source}:{number}"
        fields = line.split("\t")
        if len(fields) != 10:
            raise DataError(f"{where}: {len(fields)} columns; CoNLL-U has 10, with tabs between them")
        if _NOT_A_WORD.fullmatch(fields[0]):
            continue
        if fields[0] != str(len(words) + 1):
            raise DataError(f"{where}: word number {fields[0]!r}; expected {len(words) + 1}")
        _filled(fields[1], where, 1)
        words.append(fields)
    return words


def _named_column(asked: str) -> tuple[str, int]:
    """pos=3 → ("pos", 3); 3 → ("column 3", 3)."""
    name, _, number = asked.rpartition("=")
    if not number.isdecimal():
        raise ConfigError(f"column {asked!r}: expected the number of a column, counted from 0, such as 3 or pos=3")
    return name or f"column {number}", int(number)


def _columns(reader: LineReader, source: str, column: int, keep: Sequence[tuple[str, int]]) -> Iterator[Sentence]:
    for block in _blocks(reader):
        first_words = dropwhile(partial(_is_comment, columns=len(_fields(block[-1][1]))), block)
        rows = [row for row in first_words if not _is_document_mark(row)]
        if rows:
            words = [_field(line, column, f"{source}:{number}") for number, line in rows]
            kept = tuple(
                (name, [_field(line, place, f"{source}:{number}", name) for number, line in rows])
                for name, place in keep
            )
            yield Sentence(words, source, rows[0][0], kept)


def _is_comment(row: _Row, columns: int) -> bool:
    """Checked only before the first word of a sentence: further down, "# NN O" is the word "#".

    Before it, a row with tabs and as many columns as the sentence's last row is a word; with another number of
    columns, it is a comment such as MultiCoNER's "# id 5239 TAB domain=en" or GermEval's "# TAB URL TAB [date]".
    """
    line = row[1]
    if line.startswith(("# ", "#\t")) and ("\t" not in line or len(_fields(line)) != columns):
        return True
    return _is_document_mark(row)


def _is_document_mark(row: _Row) -> bool:
    return row[1].startswith(("#begin document", "#end document")) or row[1].split(maxsplit=1)[:1] == ["-DOCSTART-"]


def _field(line: str, column: int, where: str, what: str = "the word") -> str:
    fields = _fields(line)
    if column >= len(fields):
        raise DataError(f"{where}: {len(fields)} columns; {what} is expected in column {column}, counted from 0")
    return _filled(fields[column], where, column)


def _fields(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]


def _filled(word: str, where: str, column: int) -> str:
    if not word:
        raise DataError(f"{where}: column {column}, counted from 0, is empty; a word is expected there")
    return word


# JSON lines


def _jsonl(reader: LineReader, source: str, tokenizer: Tokenizer, keep: Sequence[str]) -> Iterator[Sentence]:
    for number, line in reader:
        if line.strip():
            where = f"{source}:{number}"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:  # ValueError also for a number of many thousand digits
                raise DataError(f"{where}: not a JSON value ({error}); expected one on each line") from error
            for tokens in _json_sentences(value, where, tokenizer):
                kept = tuple((key, _json_column(value, key, len(tokens), where)) for key in keep)
                yield Sentence(tokens, source, number, kept)


def _json_column(values: Any, key: str, count: int, where: str) -> list[str]:
    """The value of a key for each token: a list as long as the tokens, or one string for all of them."""
    value = values.get(key) if isinstance(values, dict) else None
    if isinstance(value, str):
        return [value] * count
    if isinstance(value, list) and len(value) == count and "tokens" in values:
        return _strings(value, where)
    raise DataError(
        f"{where}: no column {key!r} for {count} tokens; expected a string, or a list with a string for each"
    )


def _json_sentences(parsed: Any, where: str, tokenizer: Tokenizer) -> list[list[str]]:
    match parsed:
        case {"tokens": value}:
            return [_strings(value, where)]
        case {"text": str(value)} | list(value) | str(value):
            return of_value(value, where, tokenizer)
        case dict(value):
            found = f"an object with the keys {_short(sorted(value))}" if value else "an object with no keys"
        case value:
            found = f"the value {_short(value)}"
    raise DataError(f'{where}: {found}; expected {{"tokens": [...]}}, {{"text": "..."}}, an array or a string')


def of_value(value: object, where: str, tokenizer: Tokenizer) -> list[list[str]]:
    """The sentences of one field of a table: a string is raw text, a list is the tokens of one sentence."""
    if isinstance(value, str):
        return tokenizer(value)
    if isinstance(value, list):
        return [_strings(value, where)]
    found = "no value" if value is None else f"{type(value).__name__} {value!r:.40}"
    raise DataError(f"{where}: {found}; expected text, or the tokens of a sentence as a list")


def _strings(value: Any, where: str) -> list[str]:
    """The tokens, checked. An empty string is a token like any other: the model has an encoding for it."""
    if not isinstance(value, list):
        raise DataError(f"{where}: tokens are {_short(value)}; expected an array of strings")
    for index, token in enumerate(value):
        if not isinstance(token, str):
            raise DataError(f"{where}: token {index} is {_short(token)}; expected a string")
    return value


def _short(value: Any) -> str:
    shown = json.dumps(value, default=repr)  # a table can hold what JSON cannot
    return shown if len(shown) <= 40 else shown[:40] + "…"

"""CoNLL-2012 columns → documents with clusters of mentions, and clusters → the columns of a response. Knows no model.

    #begin document (bc/cctv/00/cctv_0001); part 000
    name  part  number  word  tag  parse  lemma  frame  sense  speaker  entity  [one column per predicate]  coreference

    #end document

A blank line ends a sentence. In the last column "(12" opens a mention of cluster 12, "12)" closes the one opened last,
"(12)" is a mention of one word, "|" separates several, and "-", "_" or nothing means that none begins or ends here.
Mentions of different clusters may nest and cross. Only word, speaker and coreference are read.

Documents without clusters may also be plain text, separated by blank lines.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

from stelmo.errors import DataError, OutputError
from stelmo.store.atomic import new_file
from stelmo.tasks.reading import (
    ExampleError,
    Lines,
    Row,
    Skipped,
    Source,
    all_lines,
    expect_width,
    files,
    filled,
    is_tokenised,
    refuse_empty,
    rows,
    skipping_flawed,
)
from stelmo.text.sentences import tokenize

FILES = {
    "train": ("train.conll", "train*gold_conll", "train"),
    "dev": ("dev.conll", "dev*gold_conll", "dev", "development"),
    "test": ("test.conll", "test*gold_conll", "test"),
}

Span = tuple[int, int]  # the first and the last word, both inclusive, counted from the start of the document
Clusters = tuple[frozenset[Span], ...]
Prediction = Clusters

_WORD, _SPEAKER, _WIDTH = 3, 9, 12
_NOTHING = ("", "-", "_")
_NO_SPEAKER = "-"  # where the file names no speaker
_BRACKET = re.compile(r"(\(?)(\d+)(\)?)")
_TITLE = re.compile(r"\((.*)\); part (\S+)")


class Example(NamedTuple):
    """A document (or a part of one). `name` is the text after "#begin document"; responses are matched by it."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[tuple[str, ...], ...]
    clusters: Clusters
    where: str


def read(path: Path, skipped: Skipped | None = None) -> list[Example]:
    """The documents of a file, or of every gold file below a folder."""
    examples: list[Example] = []
    names: set[str] = set()
    for document in chain.from_iterable(map(_documents, files(path, "*gold_conll"))):
        with skipping_flawed(skipped):
            examples.append(_new(_example(document), names))
    return refuse_empty(examples, path, "documents", skipped)


def read_new(path: Path) -> list[Example]:
    """Documents to be clustered: columns, of which the last ones may be missing, or plain text."""
    lines = all_lines(path)
    documents = _documents(lines)
    first = next(documents, [])
    if first and _begins(first[0]):
        names: set[str] = set()
        return [_new(_example(document, labelled=False), names) for document in chain([first], documents)]
    return refuse_empty(list(_of_text(lines)), path, "documents")


def gold(example: Example) -> Prediction:
    return example.clusters


def disjoint(clusters: Iterable[frozenset[Span]]) -> Clusters:
    """Each mention only in its first cluster, as in the official scorer; OntoNotes repeats a few mentions."""
    seen: set[Span] = set()
    kept = []
    for cluster in clusters:
        kept.append(cluster - seen)
        seen |= cluster
    return tuple(cluster for cluster in kept if cluster)


def write(path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    """The response file for the official scorer, with placeholders in the columns that were not read."""
    with new_file(path, overwrite=True) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for example, clusters in zip(examples, predictions, strict=True):
            file.writelines(f"{line}\n" for line in _response(example, clusters))


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    """The clusters of each example, found by its name; other documents are ignored."""
    responses = {response.name: response for response in map(_example, _documents(path))}
    for example in examples:
        if example.name not in responses:
            raise DataError(f"{path}: no document {example.name}; expected a response to each document")
        found, expected = (sum(map(len, each.sentences)) for each in (responses[example.name], example))
        if found != expected:
            raise DataError(f"{path}: document {example.name} has {found} words; expected {expected}, as in the key")
    return [responses[example.name].clusters for example in examples]


# From rows to a document


def _begins(row: Row) -> bool:
    return row.fields[:2] == ["#begin", "document"]


def _ends(row: Row) -> bool:
    return row.fields[:2] == ["#end", "document"]


def _documents(source: Source) -> Iterator[list[Row]]:
    """The rows of each document, from its begin line to its end line if it has both."""
    document: list[Row] = []
    for row in rows(source):
        if document and _begins(row):
            yield document
            document = []
        if document or row.fields:
            document.append(row)
        if _ends(row):
            yield document
            document = []
    if document:
        yield document


def _sentences(document: list[Row]) -> list[list[Row]]:
    begin, *body = document
    if not _begins(begin):
        raise ExampleError(begin.where, "a line outside any document", "a line '#begin document (name); part 000'")
    if not body or not _ends(body.pop()):
        raise ExampleError(begin.where, "a document without an end", "a line '#end document' after its last word")
    sentences = [list(group) for words, group in groupby(body, key=lambda row: bool(row.fields)) if words]
    if not sentences:
        raise ExampleError(begin.where, "a document without words", "one or more")
    return sentences


def _example(document: list[Row], labelled: bool = True) -> Example:
    """Without labels, columns after the word may be missing."""
    sentences = _sentences(document)
    for sentence in sentences:
        width = max(_WIDTH, len(sentence[0].fields))
        for row in sentence:
            if labelled:
                expect_width(row, width, "CoNLL-2012 (12, and in a sentence one more for each predicate)")
            elif len(row.fields) <= _WORD:
                expected = f"{_WORD + 1} or more, the word as the fourth"
                raise ExampleError(row.where, f"{len(row.fields)} columns", expected)
    cells = ((row.where, row.fields[-1]) for sentence in sentences for row in sentence)
    return Example(
        name=" ".join(document[0].fields[2:]),
        sentences=tuple(tuple(filled(row, _WORD, "a word") for row in sentence) for sentence in sentences),
        speakers=tuple(
            tuple(row.fields[_SPEAKER] if len(row.fields) > _SPEAKER else _NO_SPEAKER for row in sentence)
            for sentence in sentences
        ),
        clusters=_clusters(cells) if labelled else (),
        where=document[0].where,
    )


def _of_text(lines: Lines) -> Iterator[Example]:
    """Tokenised text has one sentence per line; other text is split into sentences."""
    name = re.sub(r"\s", "_", Path(lines.name).name)
    paragraphs = groupby(lines, key=lambda numbered: bool(numbered[1].strip()))
    for part, numbered in enumerate(list(group) for full, group in paragraphs if full):
        paragraph = [line for _, line in numbered]
        tokenised = any(map(is_tokenised, paragraph))
        found = [line.split() for line in paragraph] if tokenised else tokenize("\n".join(paragraph))
        sentences = tuple(map(tuple, found))
        speakers = tuple((_NO_SPEAKER,) * len(sentence) for sentence in sentences)
        yield Example(f"({name}); part {part:03}", sentences, speakers, (), f"{lines.name}:{numbered[0][0]}")


def _new(example: Example, names: set[str]) -> Example:
    """The example; a repeated name is an error, because responses are matched by it."""
    if example.name in names:
        raise ExampleError(example.where, f"document {example.name} occurs twice", "another name or part")
    names.add(example.name)
    return example


# From brackets to clusters, and back


def _clusters(cells: Iterable[tuple[str, str]]) -> Clusters:
    """The clusters of a document's last column, ordered by first mention. `cells` are (place for messages, cell)."""
    clusters: dict[str, list[Span]] = {}
    open_: dict[str, list[tuple[int, str]]] = {}
    for index, (where, cell) in enumerate(cells):
        for opens, name, closes in _brackets(cell, where):
            if opens:
                clusters.setdefault(name, [])
                open_.setdefault(name, []).append((index, where))
            if closes and not open_.get(name):
                raise ExampleError(where, f"{name}) closes a mention that was not opened", f"({name} further up")
            if closes:
                clusters[name].append((open_[name].pop()[0], index))
    for name, starts in open_.items():
        for _, where in starts:
            raise ExampleError(where, f"({name} opens a mention that is not closed", f"{name}) in the same document")
    return tuple(sorted(disjoint(map(frozenset, clusters.values())), key=min))


def _brackets(cell: str, where: str) -> list[tuple[str, str, str]]:
    """What opens and closes at a word. Opening brackets come first in any case, as in the official scorer."""
    if cell in _NOTHING:
        return []
    found = [match.groups() for piece in cell.split("|") if (match := _BRACKET.fullmatch(piece)) and piece != match[2]]
    if len(found) != cell.count("|") + 1:
        raise ExampleError(where, f"coreference {cell!r}", "(12, 12) or (12), with | between several, or - for none")
    return sorted(((a, b, c) for a, b, c in found), key=lambda bracket: not bracket[0])


def _response(example: Example, clusters: Clusters) -> Iterator[str]:
    """The lines of a document; two mentions of one cluster that cross are refused."""
    clusters = disjoint(clusters)
    pieces: list[list[str]] = [[] for sentence in example.sentences for _ in sentence]
    for number, cluster in enumerate(clusters):
        for start, end in cluster:
            if start == end:
                pieces[start].append(f"({number})")
            else:
                pieces[start].append(f"({number}")
                pieces[end].append(f"{number})")
    cells = ["|".join(sorted(piece)) or "-" for piece in pieces]
    if set(_clusters(("", cell) for cell in cells)) != set(clusters):
        raise OutputError(
            f"{example.where}: two mentions of one cluster cross, which CoNLL-2012 cannot express; "
            f"mentions of a cluster must be nested or disjoint"
        )
    title = _TITLE.fullmatch(example.name)
    name, part = title.groups() if title else (example.name, "0")
    rest = iter(cells)
    yield f"#begin document {example.name}"
    for words, speakers in zip(example.sentences, example.speakers, strict=True):
        for place, (word, speaker) in enumerate(zip(words, speakers, strict=True)):
            columns = name, part, str(place), word, "-", "*", "-", "-", "-", speaker, "*", next(rest)
            yield "\t".join(columns)
        yield ""
    yield "#end document"

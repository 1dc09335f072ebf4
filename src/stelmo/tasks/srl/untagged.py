"""Text without tags → words and a predicate for each frame. Knows no tags.

JSON lines    {"words": ["Kim", "left"], "predicates": [1]}; with "frames" that have a "predicate" as well
text          Kim *said* we *won* .
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.tasks.reading import ExampleError, tokens_of
from stelmo.text.files import LineReader

_MARKED = re.compile(r"\*([^\s*]+)\*")


class Frame(NamedTuple):
    words: tuple[str, ...]
    predicate: int
    lemma: str
    where: str


def frames(path: Path) -> Iterator[Frame]:
    with LineReader(path) as reader:
        for number, line in reader:
            if line.strip():
                read = _of_json if line.lstrip().startswith("{") else _of_text
                yield from read(line, f"{reader.name}:{number}")


def _of_json(line: str, where: str) -> Iterator[Frame]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExampleError(where, f"not JSON ({error})", "a JSON object on each line") from error
    match value:
        case {"words": [_, *_] as words, "predicates": list(predicates)}:
            found = [(predicate, "") for predicate in predicates]
        case {"words": [_, *_] as words, "frames": list(frames)}:
            found = [_predicate(frame, where) for frame in frames]
        case _:
            raise ExampleError(where, "no lists of words and predicates", '{"words": […], "predicates": [3, …]}')
    if not all(isinstance(word, str) and word for word in words):
        raise ExampleError(where, "a word that is empty or not a string", "strings that are not empty")
    for predicate, lemma in found:
        if type(predicate) is not int or not 0 <= predicate < len(words):
            raise ExampleError(where, f"the predicate {predicate!r}", f"the position of a word, 0 to {len(words) - 1}")
        yield Frame(tuple(words), predicate, lemma, where)


def _predicate(frame: Any, where: str) -> tuple[Any, str]:
    match frame:
        case {"predicate": predicate}:
            lemma = str(frame.get("lemma") or "")
            return predicate, "" if lemma == "-" else lemma
    raise ExampleError(where, "a frame without a predicate", '{"predicate": position}')


def _of_text(line: str, where: str) -> Iterator[Frame]:
    if not _MARKED.search(line):
        raise ExampleError(where, "no predicate is marked", "one or more in asterisks, as in: Kim *said* we *won* .")
    text = _MARKED.sub(r"\1", line)
    words = tokens_of(text)
    ends = list(_ends(text, words))
    for number, match in enumerate(_MARKED.finditer(line)):
        start = match.start() - 2 * number  # the two asterisks of each earlier mark are removed
        yield Frame(words, next(place for place, end in enumerate(ends) if end > start), "", where)


def _ends(text: str, words: tuple[str, ...]) -> Iterator[int]:
    """The position in the text where each word ends."""
    end = 0
    for word in words:
        end = text.index(word, end) + len(word)
        yield end

"""Raw text → sentences, as spans of characters. Knows no files and no ids.

The rules are those of `sentencex`; a language that it does not know gets its general rules. A blank line
always ends a sentence; a single line break ends one only where the punctuation says so.
"""

from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

import regex

from stelmo.text import tokens
from stelmo.text.tokens import Token


class Span(NamedTuple):
    """`text[start:end]` is one sentence, neither empty nor with white space around it."""

    start: int
    end: int


# sentencex looks for blank lines too, but misses those that hold spaces.
_BLANK_LINE = regex.compile(r"(?:\r\n|[\n\r\x85\u2028])[^\S\n\r\x85\u2028]*+(?:\r\n|[\n\r\x85\u2028])|\u2029")
# sentencex counts characters as we do, but cannot take a lone surrogate and panics at "J\u3000.": it steps back one
# byte over white space. Each is replaced by one character, so offsets hold.
_UNREADABLE = regex.compile(r"(?P<surrogate>\p{Cs})|[^\S\t-\r ]")


def split(text: str, language: str = "en") -> list[Span]:
    """The sentences of a text, in order; all that lies between them is white space."""
    code = tokens.primary(language)
    paragraphs = [0, *(match.end() for match in _BLANK_LINE.finditer(text)), len(text)]
    plain = text if text.isascii() else _UNREADABLE.sub(lambda match: "x" if match["surrogate"] else " ", text)
    cuts = [start + cut for start, end in pairwise(paragraphs) for cut in _boundaries(plain[start:end], code)]
    spans = []
    for start, end in pairwise([0, *cuts, len(text)]):
        piece = text[start:end]
        if sentence := piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            spans.append(Span(first, first + len(sentence)))
    return spans


def tokenize_text(text: str, language: str = "en", contractions: str = "ptb") -> list[list[Token]]:
    """The tokens of each sentence of a text, with offsets into the whole text."""
    return [
        [Token(word, a + start, a + end) for word, start, end in tokens.tokenize(text[a:b], language, contractions)]
        for a, b in split(text, language)
    ]


def tokenize(text: str, language: str = "en", contractions: str = "ptb") -> list[list[str]]:
    """The tokens of each sentence of a text, as plain strings."""
    return [[token.text for token in sentence] for sentence in tokenize_text(text, language, contractions)]


# For each open quotation mark, and in some languages for each full stop, sentencex reads on to the end of its text:
# quadratic time. A limit on these marks makes it linear; ordinary paragraphs of 80,000 characters stay below it.
_MOST_MARKS = 2048
_MOST_WORK = _MOST_MARKS * 100_000  # marks times characters of a piece: no other thread runs while sentencex does
_MARK = regex.compile(r"[\p{Quotation_Mark}\p{Sentence_Terminal}`]")


def _boundaries(paragraph: str, language: str) -> list[int]:
    """Where sentences begin. A paragraph that would take too long is split piece by piece, in linear time."""
    if len(paragraph) <= _MOST_MARKS:
        return _piece_boundaries(paragraph, language)
    marks = [match.start() for match in _MARK.finditer(paragraph)]
    found: list[int] = []
    start = 0
    while True:
        first = bisect_left(marks, start)
        beyond = first + _MOST_MARKS
        end = marks[beyond] if beyond < len(marks) else len(paragraph)
        end = min(end, start + _MOST_WORK // max(1, min(beyond, len(marks)) - first))
        begins = [start + begin for begin in _piece_boundaries(paragraph[start:end], language)]
        if end == len(paragraph):
            return found + begins
        # The last quarter is split again together with what follows: boundaries near the end of a piece are unreliable.
        certain = max(2, bisect_left(begins, end - (end - start) // 4))
        found += begins[: certain - 1]
        if certain <= len(begins):
            start = begins[certain - 1]
        else:  # no sentence ends here, so it is cut
            space = paragraph.rfind(" ", start + 1, end)
            start = end if space < 0 else space + 1


def _piece_boundaries(piece: str, language: str) -> list[int]:
    import sentencex  # here, because `import stelmo` does not need it

    return [boundary["start_index"] for boundary in sentencex.get_sentence_boundaries(language, piece)]

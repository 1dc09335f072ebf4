"""Sentences with their vectors → a small printed table."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

TOKENS_SHOWN = 40  # per sentence
NUMBERS_SHOWN = 4

Array = NDArray[Any]
Labelled = tuple[str, Array]  # the label of a row, and its vector


def print_words(sentences: Sequence[tuple[Sequence[str], Array]]) -> None:
    """Every word with the first numbers of its vector and the most similar word among those shown."""
    rows: list[Labelled] = []
    ends: list[int] = []
    for tokens, vectors in sentences:
        rows += zip(tokens[:TOKENS_SHOWN], vectors[:TOKENS_SHOWN], strict=True)
        ends.append(len(rows))
    places = np.searchsorted(ends, np.arange(len(rows)), side="right")
    names = [f"{word} ({place + 1})" if len(ends) > 1 else word for (word, _), place in zip(rows, places, strict=True)]
    table = _table("word", rows, names)
    for end in ends[:-1]:
        if end:
            table.rows[end - 1].end_section = True
    Console().print(table)


def shared_word(sentences: Sequence[Sequence[str]], vocabulary: Sequence[str] | None) -> str | None:
    """The word that most sentences have in common, once in each; of several the rarest (or longest). None: no word."""
    counts = Counter(word for tokens in sentences for word, times in Counter(tokens).items() if times == 1)
    found = [word for word, times in counts.items() if times > 1 and word.isalpha()]
    ranks = {word: rank for rank, word in enumerate(vocabulary or ())}
    return max(found, key=lambda word: (counts[word], ranks.get(word, len(ranks)), len(word)), default=None)


def print_by_layer(word: str, sentences: Sequence[Sequence[str]], layers: Sequence[Array]) -> None:
    """How similar the uses of one word are, layer by layer: layer 0 knows only the word, the others its context."""
    uses = [
        (number, layers[number - 1][:, tokens.index(word)])
        for number, tokens in enumerate(sentences, 1)
        if tokens.count(word) == 1
    ]
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("cosine of")
    for depth in range(len(uses[0][1])):
        table.add_column(f"layer {depth}", justify="right")
    for (left, left_LD), (right, right_LD) in combinations(uses, 2):
        dots_L = np.einsum("ld,ld->l", left_LD, right_LD, dtype=np.float64)
        cosines_L = dots_L / np.maximum(np.linalg.norm(left_LD, axis=1) * np.linalg.norm(right_LD, axis=1), 1e-12)
        table.add_row(Text(f"{word} ({left}), {word} ({right})"), *(f"{cosine:.2f}" for cosine in cosines_L))
    Console().print(table)


def print_sentences(sentences: Sequence[tuple[Sequence[str], Array]]) -> None:
    """Every sentence with the first numbers of its vector and the most similar other sentence."""
    rows = [(" ".join(tokens[:TOKENS_SHOWN]), vector) for tokens, vector in sentences]
    Console().print(_table("sentence", rows, [name for name, _ in rows]))


def _table(kind: str, rows: Sequence[Labelled], names: Sequence[str]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for title in (kind, "vector", f"most similar {kind}", "cosine"):
        table.add_column(title, justify="right" if title == "cosine" else "left")
    for (label, vector), (position, cosine) in zip(rows, _nearest([vector for _, vector in rows]), strict=True):
        numbers = " ".join(f"{number:6.2f}" for number in vector[:NUMBERS_SHOWN])
        nearest = names[position] if position >= 0 else ""
        similarity = f"{cosine:.2f}" if position >= 0 else ""
        # Text, not str: a word in square brackets is a word, not markup.
        table.add_row(Text(label), f"{numbers} …", Text(nearest), similarity)
    return table


def _nearest(vectors: Sequence[Array]) -> list[tuple[int, float]]:
    """For each vector, the position and cosine of the most similar other one; position −1: there is no other."""
    if len(vectors) < 2:
        return [(-1, 0.0)] * len(vectors)
    matrix = np.stack(vectors).astype(np.float64)
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, -np.inf)
    best = cosines.argmax(1)
    return [(int(position), float(cosines[row, position])) for row, position in enumerate(best)]

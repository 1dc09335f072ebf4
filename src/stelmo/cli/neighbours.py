"""`stelmo neighbours`: a word in its sentence → its most similar uses, beside its neighbours without context."""

import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from stelmo.cli import screen
from stelmo.cli.arguments import ModelName, TextOrTokens, loaded, split_texts
from stelmo.cli.index import opened
from stelmo.config import choose
from stelmo.settings import Layer

if TYPE_CHECKING:
    from stelmo.embed.model import Model
    from stelmo.explore.search import Hit

EXAMPLE = 'Example: `stelmo neighbours play --in "He made a great play ." --layer all -k 5`'
NUMBER = 4  # width of a similarity


def neighbours(
    word: Annotated[str, typer.Argument(metavar="WORD", help="A word of the sentence.")],
    text: Annotated[str, typer.Option("--in", metavar="SENTENCE", help="The sentence that contains it.")],
    name: ModelName = None,
    folder: Annotated[
        Path | None,
        typer.Option("--index", metavar="DIR", help="Index made by `stelmo index`; default: the bundled one."),
    ] = None,
    layer: Annotated[str, typer.Option(help="mean, top, a number (0: without context), or all (each layer).")] = "mean",
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="Number of neighbours of each kind.")] = 10,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only uses of the same word.")] = False,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Static vectors such as GloVe; default: the model's layer 0, which sees spelling only."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    format: TextOrTokens = "text",
    language: Annotated[str | None, typer.Option(help="Language of the sentence; default: that of the index.")] = None,
    contractions: Annotated[
        str | None, typer.Option(help="ptb: do n't; moses: don 't; default: as in the index.")
    ] = None,
) -> None:
    """Find the uses of any word in an indexed corpus that are most similar to a word in your sentence; beside them, its
    neighbours without context.

    As in Table 4 of the paper: a static vector mixes the meanings of a word; a contextual one finds uses with the same
    meaning.
    """
    from stelmo.explore import index as indices  # imported here, because `--help` does not need torch
    from stelmo.explore import search

    rules = indices.Rules() if folder is None else indices.rules_of(folder)
    sentences = split_texts([text], format, language or rules.language, contractions or rules.contractions)
    tokens, position = search.find_word(word, sentences)
    model = loaded(name)
    depth = model.config.depth
    names: dict[str, Layer] = {"mean": "mean", "top": "top", **{str(number): number for number in range(depth)}}
    choose("--layer", layer, (*names, "all"))
    layers = list(range(depth)) if layer == "all" else [names[layer]]
    index = opened(folder, model)
    static = _static(model, vectors, tokens[position], count)
    only = word if same_word else None
    contextual = search.nearest_by_layer(model, index, tokens, position, layers, count, only)
    if not as_json:
        _print(tokens, position, static, contextual)
        return
    values = {
        "tokens": tokens,
        "position": position,
        "static": [{"word": word, "similarity": similarity} for word, similarity in static],
        "contextual": {
            str(layer): [{**hit.use._asdict(), "similarity": hit.similarity} for hit in hits]
            for layer, hits in contextual.items()
        },
    }
    typer.echo(json.dumps(values, ensure_ascii=False))


def _static(model: "Model", path: Path | None, word: str, count: int) -> list[tuple[str, float]]:
    from stelmo.explore import search

    if path is None and model.vocabulary is None:
        screen.note("the model has no vocabulary, so it has no static neighbours; give --vectors FILE")
        return []
    source = search.static_of_model(model) if path is None else search.static_of_file(path)
    found = source.neighbours(word, count)
    if not found and path is not None:
        screen.note(f"{path} has no vector for {word!r}")
    return found


def _print(
    tokens: list[str], position: int, static: list[tuple[str, float]], contextual: "dict[Layer, list[Hit]]"
) -> None:
    """A table per layer, with the static neighbours on the left."""
    console = Console()
    room = console.width - max([len("without context"), *(len(word) for word, _ in static)]) - 2 * NUMBER - 8
    console.print(_marked(tokens, position, console.width), "", sep="\n")
    for layer, hits in contextual.items():
        table = screen.plain_table()
        table.add_column("without context")
        table.add_column("", justify="right")
        table.add_column(f"in context ({layer if layer in ('mean', 'top') else f'layer {layer}'})")
        table.add_column("", justify="right")
        for left, hit in zip_longest(static, hits):
            cells = [Text(), Text()] if left is None else [Text(left[0]), Text(f"{left[1]:.2f}")]
            if hit is not None:
                cells += [_marked(hit.use.tokens, hit.use.position, room), Text(f"{hit.similarity:.2f}")]
            table.add_row(*cells)
        console.print(table, "", sep="\n")


def _marked(tokens: Sequence[str], position: int, room: int) -> Text:
    """The word with as many tokens on both sides as fit."""
    for around in range(len(tokens), -1, -1):
        first, last = max(0, position - around), position + around + 1
        if cell_len(" ".join(tokens[first:last])) + 4 <= room:  # 4: two ellipses
            break
    before, behind = tokens[first:position], tokens[position + 1 : last]
    left, right = " ".join(["…"] * (first > 0) + [*before]), " ".join([*behind] + ["…"] * (last < len(tokens)))
    return Text.assemble(f"{left} " if left else "", (tokens[position], "reverse"), f" {right}" if right else "")

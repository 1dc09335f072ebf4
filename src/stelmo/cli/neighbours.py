"""`stelmo neighbours`: a word in its sentence → its most similar uses, beside its neighbours without context."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stelmo.cli import screen
from stelmo.cli.arguments import Contractions, Language, ModelName, loaded
from stelmo.cli.index import opened
from stelmo.config import choose
from stelmo.settings import Layer
from stelmo.text import sentences

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
    format: Annotated[str, typer.Option("--from", help="text, or tokens (split at white space).")] = "text",
    language: Language = "en",
    contractions: Contractions = "ptb",
) -> None:
    """A word in its sentence → its nearest uses in an indexed corpus, beside its static neighbours.

    As in Table 4 of the paper: one vector per word mixes its meanings; a contextual vector finds uses of the same one.
    """
    choose("--from", format, ("text", "tokens"))
    tokenizer = partial(sentences.tokenize, language=language, contractions=contractions)
    from stelmo.explore import search  # here, because `--help` needs no torch

    tokens, position = search.find_word(word, [text.split()] if format == "tokens" else tokenizer(text))
    model = loaded(name)
    layers = _layers(layer, model.config.depth)
    index = opened(folder, model)
    static = _static(model, vectors, tokens[position], count)
    only = word if same_word else None
    contextual = search.nearest_by_layer(model, index, tokens, position, layers, count, only)
    if as_json:
        typer.echo(_json(tokens, position, static, contextual))
    else:
        _print(tokens, position, static, contextual)


def _layers(asked: str, depth: int) -> list[Layer]:
    names: dict[str, Layer] = {"mean": "mean", "top": "top", **{str(number): number for number in range(depth)}}
    choose("--layer", asked, (*names, "all"))
    return list(range(depth)) if asked == "all" else [names[asked]]


def _static(model: "Model", path: Path | None, word: str, count: int) -> list[tuple[str, float]]:
    from stelmo.explore import search

    if path is None and model.vocabulary is None:
        screen.note("the model has no vocabulary, so it has no static neighbours; give --vectors FILE")
        return []
    source = search.static_of_model(model) if path is None else search.static_of_file(path)
    found = source.neighbours(word, count)
    if not found:
        screen.note(f"{path} has no vector for {word!r}")
    return found


def _json(
    tokens: list[str], position: int, static: list[tuple[str, float]], contextual: "dict[Layer, list[Hit]]"
) -> str:
    values: dict[str, Any] = {
        "tokens": tokens,
        "position": position,
        "static": [{"word": word, "similarity": similarity} for word, similarity in static],
        "contextual": {
            str(layer): [{**hit.use._asdict(), "similarity": hit.similarity} for hit in hits]
            for layer, hits in contextual.items()
        },
    }
    return json.dumps(values, ensure_ascii=False)


def _print(
    tokens: list[str], position: int, static: list[tuple[str, float]], contextual: "dict[Layer, list[Hit]]"
) -> None:
    """A table per layer, with the static neighbours on the left."""
    console = Console()
    room = console.width - max([len("without context"), *(len(word) for word, _ in static)]) - 2 * NUMBER - 8
    console.print(_marked(tokens, position, console.width), "", sep="\n")
    for layer, hits in contextual.items():
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("without context")
        table.add_column("", justify="right")
        table.add_column(f"in context ({layer if layer in ('mean', 'top') else f'layer {layer}'})")
        table.add_column("", justify="right")
        for left, hit in zip_longest(static, hits):
            table.add_row(*_static_cells(left), *_use_cells(hit, room))
        console.print(table, "", sep="\n")


def _static_cells(found: tuple[str, float] | None) -> tuple[Text, Text]:
    return (Text(), Text()) if found is None else (Text(found[0]), Text(f"{found[1]:.2f}"))


def _use_cells(hit: "Hit | None", room: int) -> tuple[Text, Text]:
    if hit is None:
        return Text(), Text()
    return _marked(hit.use.tokens, hit.use.position, room), Text(f"{hit.similarity:.2f}")


def _marked(tokens: Sequence[str], position: int, room: int) -> Text:
    """The word with as many tokens on both sides as fit."""
    around = next(size for size in range(len(tokens), -1, -1) if not size or _size(tokens, position, size) <= room)
    first, last = max(0, position - around), position + around + 1
    before, behind = tokens[first:position], tokens[position + 1 : last]
    left, right = " ".join(["…"] * (first > 0) + [*before]), " ".join([*behind] + ["…"] * (last < len(tokens)))
    return Text.assemble(f"{left} " if left else "", (tokens[position], "reverse"), f" {right}" if right else "")


def _size(tokens: Sequence[str], position: int, around: int) -> int:
    return cell_len(" ".join(tokens[max(0, position - around) : position + around + 1])) + 4  # two ellipses

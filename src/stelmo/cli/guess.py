"""`stelmo guess`: the words that fit a gap, judged by the words before it, after it, and both."""

import json
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from stelmo.cli import screen
from stelmo.cli.arguments import (
    Contractions,
    Language,
    ModelName,
    OptionsFile,
    SoftmaxFile,
    StartState,
    TextOrTokens,
    VocabularyFile,
    loaded,
    refuse_carry,
    split_texts,
)
from stelmo.errors import DataError

if TYPE_CHECKING:
    from stelmo.lm.probabilities import Guesses

EXAMPLE = 'Example: `stelmo guess "The ___ barked all night ." --model my-model`'


def guess(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help='Sentences with gaps: "The ___ barked ."')],
    name: ModelName = None,
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="Number of words for each gap.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each gap.")] = False,
    format: TextOrTokens = "text",
    language: Language = "en",
    contractions: Contractions = "ptb",
    state: StartState = None,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    softmax: SoftmaxFile = None,
) -> None:
    """List the words that fit the gaps (___) of a sentence, with their probabilities.

    "both" is the geometric mean of the two directions, normalised to sum to 1. If there are several gaps, the others
    are filled with their best words.
    """
    from stelmo.lm import gaps  # imported here, because `--help` does not need torch

    refuse_carry(state)
    places = [(tokens, gaps.find(tokens)) for tokens in split_texts(texts, format, language, contractions)]
    if not any(positions for _, positions in places):
        raise DataError(f'no gap; write {gaps.GAP} in place of a word, as in "The {gaps.GAP} barked ."')
    model = loaded(name, options=options, vocabulary=vocabulary, softmax=softmax, state=state)
    for tokens, positions in places:
        for position, guesses in zip(positions, gaps.fill(model, tokens, positions, count), strict=True):
            if as_json:
                lists = {kind: [guess._asdict() for guess in best] for kind, best in guesses._asdict().items()}
                typer.echo(json.dumps({"tokens": tokens, "position": position, **lists}, ensure_ascii=False))
            else:
                _print_table(tokens, position, guesses)


def _print_table(tokens: list[str], position: int, guesses: "Guesses") -> None:
    """Three lists side by side, best word first."""
    table = screen.plain_table()
    for name in guesses._fields:
        table.add_column(name)
        table.add_column("", justify="right")
    for row in zip(*guesses, strict=True):
        table.add_row(*chain.from_iterable((Text(found.word), Text(f"{found.probability:.1%}")) for found in row))
    words = Text.assemble(
        *((f"{token} ", "reverse" if place == position else "") for place, token in enumerate(tokens))
    )
    Console().print(words, table, "", sep="\n")

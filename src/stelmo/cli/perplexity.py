"""`stelmo perplexity`: how well a model predicts a text, or a corpus's held-out text, in both directions."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stelmo.cli import screen
from stelmo.cli.arguments import (
    LOAD,
    BatchTokens,
    Column,
    Contractions,
    Device,
    From,
    Inputs,
    Language,
    OptionsFile,
    Overwrite,
    Precision,
    SoftmaxFile,
    StartState,
    Threads,
    VocabularyFile,
    loaded,
    refuse_carry,
)
from stelmo.cli.screen import Row
from stelmo.errors import ConfigError, DataError
from stelmo.settings import TrainSettings

if TYPE_CHECKING:
    from stelmo.embed.model import Model
    from stelmo.lm.perplexity import Tally
    from stelmo.train.validation import HeldOut

EXAMPLE = "Example: `stelmo perplexity my-model heldout.txt --per-file`, or `stelmo perplexity run/model --data corpus`"
ROWS: int = TrainSettings.model_fields["batch"].default


def perplexity(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Model file or folder, with its softmax.")],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Files, sentences in quotes, or - for standard input."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Corpus folder made by `stelmo prepare`: measure its held-out text as pretraining does, one row per "
            "input file and one for all."
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help="With --data: read about N evenly spread tokens for each row; default: all."),
    ] = None,
    side_by_side: Annotated[
        int,
        typer.Option("--rows", min=1, help="With --data: rows of text read side by side, the `batch` of pretraining."),
    ] = ROWS,
    per_file: Annotated[bool, typer.Option("--per-file", help="One row per file.")] = False,
    per_sentence: Annotated[bool, typer.Option("--per-sentence", help="One row per sentence.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Output file for the rows of --per-file, --per-sentence or --data: .tsv, .jsonl; - prints JSON lines.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    format: From = None,
    column: Column = 0,
    language: Language = "en",
    contractions: Contractions = "ptb",
    state: StartState = None,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    softmax: SoftmaxFile = None,
    precision: Precision = LOAD.precision,
    device: Device = LOAD.device,
    threads: Threads = LOAD.threads,
    batch_tokens: BatchTokens = LOAD.batch_tokens,
    overwrite: Overwrite = False,
) -> None:
    """Measure the perplexity of a model on text with the full softmax: forward, backward, and their geometric mean.

    Each direction predicts the words of a sentence and one sentence marker. Words outside the vocabulary are scored as
    `<UNK>`; figures are given with and without them. Lines without words are skipped.
    """
    files = {"options": options, "vocabulary": vocabulary, "softmax": softmax}
    compute = {"precision": precision, "device": device, "threads": threads, "batch_tokens": batch_tokens}
    if data is not None:
        unread = {
            "FILE": inputs,
            "--per-file": per_file,
            "--per-sentence": per_sentence,
            "--from": format,
            "--state": state,
        }
        for option, value in unread.items():
            if value:
                raise ConfigError(f"--data and {option} cannot be combined; --data reads the held-out text of a corpus")
        if as_json and str(output) == "-":
            raise ConfigError("--json and -o - both print; give one of them")
        screen.refuse_rows_output(output, overwrite)
        _measure_corpus(name, files | compute, data, side_by_side, tokens, output, as_json, overwrite)
        return
    if tokens is not None or side_by_side != ROWS:
        raise ConfigError(f"{'--tokens' if tokens else '--rows'} requires --data CORPUS")
    refuse_carry(state)
    _refuse_conflicts(per_file, per_sentence, output, as_json)
    screen.refuse_rows_output(output, overwrite)
    found = Inputs(inputs or [], format, column, language, contractions)
    model = loaded(name, **files, state=state, **compute)
    rows_writer = screen.writing_rows(output, overwrite) if per_file or per_sentence else nullcontext(_ignore)
    with rows_writer as write:
        total = _total(model, found, write if per_file else _ignore, write if per_sentence else _ignore)
    about = {"model": name, "state": model.settings.state, "vocabulary": len(model.vocabulary or ())}
    if as_json:
        typer.echo(json.dumps(about | _figures(total), ensure_ascii=False))
    elif str(output) != "-":
        _show(total, about)


def _refuse_conflicts(per_file: bool, per_sentence: bool, output: Path | None, as_json: bool) -> None:
    if per_file and per_sentence:
        raise ConfigError(
            "--per-file and --per-sentence cannot be combined; the rows of --per-sentence name the file, too"
        )
    if output is not None and not (per_file or per_sentence):
        raise ConfigError(f"-o {output} requires --per-file or --per-sentence, whose rows it writes")
    if as_json and (per_file or per_sentence) and (output is None or str(output) == "-"):
        raise ConfigError(
            "--json prints the totals; write the rows with -o FILE, or print them as JSON lines with -o - alone"
        )


def _ignore(row: Row) -> None:
    pass


def _total(model: "Model", found: Inputs, write_file: screen.Write, write_sentence: screen.Write) -> "Tally":
    """Score the input and write its rows; an input without words is refused."""
    from stelmo.lm.perplexity import scored

    tallies: dict[str, Tally] = {}
    with screen.progress("scoring", found.fraction) as advance:
        for sentence, tally in scored(model, found, advance=advance):
            write_sentence(
                {
                    "file": sentence.source,
                    "line": sentence.line,
                    "words": tally.words,
                    "unknown": tally.unknown,
                    "forward": tally.all.forward,
                    "backward": tally.all.backward,
                    "combined": tally.all.combined,
                    "text": " ".join(sentence.tokens),
                }
            )
            tallies[sentence.source] = tallies[sentence.source] + tally if sentence.source in tallies else tally
    if not tallies:
        raise DataError("the input contains no words")
    total, *more = tallies.values()
    for source, tally in tallies.items():
        write_file({"file": source, **_figures(tally)})
    for tally in more:
        total += tally
    return total


def _figures(tally: "Tally") -> Row:
    row: Row = {"sentences": tally.sentences, "words": tally.words, "unknown": tally.unknown}
    for prefix, found in (("", tally.all), ("known_", tally.known)):
        row |= {prefix + name: getattr(found, name) for name in ("forward", "backward", "combined")}
    return row


def _show(total: "Tally", about: Row) -> None:
    """The figures as a table, and one sentence on what they count."""
    both = [("forward", "forward"), ("backward", "backward"), ("combined", "geometric mean")]
    screen.show_rows(
        [
            {"perplexity": title, "all_words": getattr(total.all, name), "known_words": getattr(total.known, name)}
            for name, title in both
        ]
    )
    typer.echo(
        f"{total.words:,} words, {total.sentences:,} ends of sentences; outside the vocabulary of "
        f"{about['vocabulary']:,} words and scored as <UNK>: {total.unknown:,} ({total.unknown / total.words:.1%}); "
        f"state {about['state']}"
    )


# The held-out text of a corpus


def _measure_corpus(
    name: str,
    settings: dict[str, Any],
    data: Path,
    side_by_side: int,
    tokens: int | None,
    output: Path | None,
    as_json: bool,
    overwrite: bool,
) -> None:
    from stelmo.corpus import folder
    from stelmo.train.validation import measure_heldout

    corpus = folder.read(data)
    model = loaded(name, **settings)
    found = measure_heldout(model, corpus, rows=side_by_side, tokens=tokens, progress=screen.progress)
    written = [_heldout_row(part) for part in found]
    if output is not None:
        with screen.writing_rows(output, overwrite) as write:
            for row in written:
                write(row)
    if as_json:
        *files, everything = written
        about = {"model": name, "corpus": str(data), "vocabulary": len(model.vocabulary or ())}
        typer.echo(json.dumps(about | {"files": files, "all": everything}, ensure_ascii=False))
    elif str(output) != "-":
        screen.show_rows(
            [
                {
                    "held-out text": row["file"],
                    "words": row["words"],
                    "unknown": f"{row['unknown_share']:.1%}",
                    "forward": row["forward"],
                    "backward": row["backward"],
                    "geometric mean": row["combined"],
                }
                for row in written
            ]
        )
        typer.echo(
            f"full softmax over {len(model.vocabulary or ()):,} words; unknown: outside that vocabulary, scored as "
            f"<UNK>; {side_by_side} rows side by side, state carried"
        )


def _heldout_row(part: "HeldOut") -> Row:
    figures = part.perplexity
    return {
        "file": part.file,
        "words": part.words,
        "unknown": part.unknown,
        "unknown_share": part.unknown / part.words,
        "predictions": figures.predictions,
        "forward": figures.forward,
        "backward": figures.backward,
        "combined": figures.combined,
    }

"""Results of cells → the report: every table and figure, with the published numbers beside ours. Runs nothing.

A cell without a result appears as "not run".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from stelmo.paper import cells, encoders, pictures
from stelmo.paper.cells import Cell, Setup
from stelmo.paper.document import Block, Command, Commands, Heading, Link, Picture, Table, Text, markdown, page
from stelmo.paper.published import TABLE_1, TABLE_2, TABLE_3, TABLE_5, TABLE_6, TABLE_7, TITLES
from stelmo.paper.run import NOT_RUN, about, command_line, is_finished, printed
from stelmo.probes.run import HEADLINES
from stelmo.store import atomic
from stelmo.tasks import experiment
from stelmo.tasks.experiment import Results, mean_and_deviation, read_results
from stelmo.tasks.network import named
from stelmo.tasks.task import Gain

TITLE = "The paper's tables and figures, run again"


def write(setup: Setup) -> Path:
    """REPORT/report.md, with the plots beside it, and report.html, with the plots inside."""
    blocks = list(report(setup))
    for name, text in (("report.md", markdown(blocks)), ("report.html", page(blocks, TITLE, setup.to))):
        with atomic.new_file(setup.to / name, overwrite=True) as draft:
            draft.write_text(text, encoding="utf-8")
    return setup.to / "report.md"


def report(setup: Setup) -> Iterator[Block]:
    yield Heading(1, TITLE)
    model = "the model that comes with stelmo" if setup.model is None else f"the model {Path(setup.model).name}"
    vectors = Path(cells.vectors_of(setup)).name
    yield Text(
        "Peters et al. (2018) used a model of 93.6 M parameters trained on a billion words, and networks of full size. "
        f"Here: {model}, networks of the `{setup.size}` size, static vectors {vectors}. "
        "Where the data sets differ from the published ones, compare gains, not absolute scores."
    )
    for part in setup.parts:
        yield from PARTS[part](setup)
    yield Heading(2, "Commands")
    yield Text(
        "Each cell is one command; the whole report is written by `stelmo paper`. Times are of all seeds and of all "
        "attempts to run the command, with one thread."
    )
    yield Commands(tuple(Command(cell.name, about(cell, setup.to), command_line(cell)) for cell in cells.cells(setup)))


# Results of a cell

GAIN = ("gain", "95 %", "p", "relative")  # of one cell over another


def found(setup: Setup, cell: Cell) -> Results | None:
    return read_results(cells.run_of(setup, cell.name)) if is_finished(cell, setup.to) else None


def formatted(scores: Sequence[float]) -> str:
    """The mean, and the standard deviation if there are several seeds."""
    mean, deviation = mean_and_deviation(scores)
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def _mean(setup: Setup, cell: Cell) -> float:
    """Of a finished cell, over its seeds."""
    return mean_and_deviation(read_results(cells.run_of(setup, cell.name)).headline)[0]


def _headline(setup: Setup, cell: Cell) -> Link:
    result = found(setup, cell)
    return Link(NOT_RUN if result is None else formatted(result.headline), cell.name)


def _dev(setup: Setup, cell: Cell) -> Link:
    result = found(setup, cell)
    return Link(NOT_RUN if result is None else formatted(result.dev), cell.name)


def gain(baseline: float, elmo: float) -> tuple[str, str]:
    """Absolute, and relative to the baseline's error: ("+3.3", "+6.8 %")."""
    removed = error_removed(baseline, elmo)
    return f"{elmo - baseline:+.1f}", "–" if math.isnan(removed) else f"{removed:+.1f} %"


def error_removed(baseline: float, elmo: float) -> float:
    """The share of the baseline's error that ELMo removes, in per cent; not a number if the baseline has no error."""
    return 100 * (elmo - baseline) / (100 - baseline) if baseline < 100 else math.nan


def certainty(found: Gain | None) -> tuple[str, str]:
    """The interval and p: ("+1.2 to +4.0", "0.004")."""
    if found is None:
        return "–", "–"
    p = "< 0.001" if found.p < 0.001 else f"{found.p:.3f}"
    return f"{found.low:+.1f} to {found.high:+.1f}", f"**{p}**" if found.is_significant else p


# Tables


def table_1(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Table 1: six tasks")
    yield Text(
        "Test score (dev score if a data set has no test split), mean ± deviation over the seeds; relative: share of "
        "the baseline's error removed. 95 %: interval of the gain when examples and seeds are drawn again with "
        "replacement (paired bootstrap); p: two-sided, bold below 0.05. ELMo at: where it enters the network, as in "
        "the paper or, at some sizes, where dev scores are better. On dev: without → with ELMo. Seeds: of both, or "
        "without / with ELMo."
    )
    # Scores first: on a phone, what follows them has to be scrolled to.
    scores = ("task", "baseline", "+ ELMo", *GAIN, "on dev")
    rows: list[tuple[str | Link, ...]] = []
    gains: dict[str, Gain] = {}
    for task in setup.tasks:
        pair = cells.baseline(setup, task), cells.with_elmo(setup, task)
        if (measured := _gain(setup, task, *pair)) is not None:
            gains[task] = measured
        before, after = (found(setup, cell) for cell in pair)
        metric = train = seeds = "–"
        if (either := after or before) is not None:
            counts = dict.fromkeys(str(len(one.seeds)) for one in (before, after) if one is not None)
            metric, train, seeds = either.metric, f"{either.examples['train']:,}", " / ".join(counts)
        paper = TABLE_1[task]
        published = f"{paper.baseline} → {paper.elmo} ({' / '.join(gain(*paper))})"
        data = str(cells.folder_of(setup.data, task).relative_to(setup.data))
        ours, place = (_headline(setup, cell) for cell in pair), named(task).elmo(setup.size)["placement"]
        on_dev = " → ".join(_dev(setup, cell).text for cell in pair)
        details = (on_dev, published, place, metric, data, train, seeds)
        rows.append((TITLES[task], *ours, *_over(setup, *pair, measured), *details))
    yield Table((*scores, "published", "ELMo at", "metric", "data", "train", "seeds"), tuple(rows))
    if gains:
        yield Text(_summary(setup, gains))
        yield Picture(
            pictures.gains(setup, gains), "The gain of each task with its 95 % interval, and the published gain"
        )


def _summary(setup: Setup, gains: Mapping[str, Gain]) -> str:
    """How many gains of Table 1 are significant, and how many are as large as the paper's; which ones."""
    pairs = {task: (cells.baseline(setup, task), cells.with_elmo(setup, task)) for task in gains}
    scores = {task: [_mean(setup, cell) for cell in pair] for task, pair in pairs.items()}
    counted = {
        "Significant gains (p < 0.05)": [task for task, gain in gains.items() if gain.is_significant and gain.mean > 0],
        "Share of errors removed at least as large as the paper's": [
            task for task, pair in scores.items() if error_removed(*pair) >= error_removed(*TABLE_1[task])
        ],
    }
    lines = []
    for what, tasks in counted.items():
        names = ", ".join(TITLES[task] for task in tasks)
        lines.append(f"{what}: {len(tasks)} of {len(gains)}{f' ({names})' if names else ''}.")
    return " ".join(lines)


def table_2(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Table 2: which layers")
    yield Text("Dev score: without ELMo, with its last layer alone, and with all layers under a strong or weak λ.")
    rows: list[tuple[str | Link, ...]] = []
    for task in setup.among(setup.ablated):
        ours = [cells.baseline(setup, task), *cells.table_2(setup, task)]
        rows.append((TITLES[task], *(_dev(setup, cell) for cell in ours)))
        rows += _published(task, TABLE_2)
    yield Table(("task", "baseline", "last only", "all, λ = 1", "all, λ = 0.001"), tuple(rows))


def table_3(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Table 3: where ELMo enters the network")
    rows: list[tuple[str | Link, ...]] = []
    for task in setup.among(setup.ablated):
        rows.append((TITLES[task], *(_dev(setup, cell) for cell in cells.table_3(setup, task))))
        rows += _published(task, TABLE_3)
    yield Text("Dev score, with ELMo at the network's input, at both places, and at its output.")
    yield Table(("task", "input", "input and output", "output"), tuple(rows))


def _published(task: str, table: Mapping[str, tuple[float, ...]]) -> list[tuple[str | Link, ...]]:
    return [(f"{TITLES[task]}, published", *map(str, table[task]))] if task in table else []


def table_4(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Table 4: neighbours of a word in its sentence")
    answers = printed(cells.neighbours(setup), setup.to)
    if answers is None:
        yield Text(f"{NOT_RUN}.")
        return
    answer = answers if isinstance(answers, dict) else answers[0]
    contextual = answer["contextual"]
    if isinstance(contextual, dict):  # by layer
        contextual = list(contextual.values())[-1]
    rows = []
    for entry, use in zip(answer["static"], contextual, strict=False):
        tokens = list(use["tokens"])
        tokens[use["position"]] = f"**{tokens[use['position']]}**"
        rows.append((entry["word"], " ".join(tokens)))
    yield Text(f"“{cells.PLAY}”")
    yield Table(("without context", "in context"), tuple(rows), texts=(0, 1))


def table_5(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Table 5: word senses")
    yield Text("F1 on all of Raganato's sets; layer 0 and static vectors see no context and are the controls.")
    yield from _probe(setup, "table5", TABLE_5)


def table_6(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Table 6: parts of speech")
    yield Text(
        "Accuracy of a linear classifier. The paper's figures are for the Penn Treebank, ours for UD English EWT."
    )
    yield from _probe(setup, "table6", TABLE_6)


def _probe(setup: Setup, part: str, paper: dict[str, float]) -> Iterator[Block]:
    cell = cells.probe(setup, part)
    rows = printed(cell, setup.to)
    if rows is None:
        yield Text(f"{NOT_RUN}.")
        return
    names = HEADLINES[cells.PROBES[part][0]]
    ours = [
        (
            row["method"],
            row["vectors"] or "–",
            *("–" if row.get(name) is None else Link(f"{row[name]:.1f}", cell.name) for name in names),
        )
        for row in rows
    ]
    yield Table(("ours", "vectors", *names), tuple(ours), texts=(0, 1))
    yield Table(("published", "figure"), tuple((name, f"{value:.1f}") for name, value in paper.items()))


def table_7(setup: Setup) -> Iterator[Block]:
    from stelmo.train import tune

    yield Heading(2, "Table 7: perplexity before and after tuning")
    yield Text(
        "On held-out sentences of the task's text, both directions; tuned for one epoch on the rest. Then the task's "
        "score with ELMo from the model before and after tuning, and the gain of the tuned one over the network "
        "without ELMo, as in Table 1; the paper's Table 1 has a tuned model in most cases."
    )
    rows: list[tuple[str | Link, ...]] = []
    for task in setup.among(cells.TUNED):
        _, cell = cells.tuning(setup, task)
        stages = list(tune.figures(cells.run_of(setup, cell.name)).values()) if is_finished(cell, setup.to) else []
        ours = [f"{stage.perplexity:.1f}" for stage in stages[-2:]] if len(stages) > 1 else [NOT_RUN] * 2
        perplexities = (Link(text, cell.name) for text in ours)
        plain, tuned = cells.baseline(setup, task), cells.with_tuned_elmo(setup, task)
        scores = (_headline(setup, each) for each in (cells.with_elmo(setup, task), tuned))
        rows.append(
            (
                TITLES[task],
                *perplexities,
                *map(str, TABLE_7[task]),
                *scores,
                *_over(setup, plain, tuned, _gain(setup, task, plain, tuned)),
            )
        )
    head = ("text", "before", "after", "published before", "published after", "score before", "score after")
    yield Table((*head, *GAIN), tuple(rows))


def figure_1(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Figure 1: sample efficiency")
    yield Text(
        "Score by share of the training examples, with and without ELMo; then by epoch, on all examples. Baseline "
        "needs: the share at which the baseline reaches the score of + ELMo, interpolated on a logarithmic axis."
    )
    for task in setup.among(setup.curves):
        shares = {
            share: (found(setup, before), found(setup, after))
            for share, (before, after) in cells.figure_1(setup, task).items()
        }
        baseline = {share: mean_and_deviation(pair[0].headline)[0] for share, pair in shares.items() if pair[0]}
        rows: list[tuple[str | Link, ...]] = []
        for share, pair in cells.figure_1(setup, task).items():
            elmo = shares[share][1]
            needed = "–" if elmo is None else equal_share(mean_and_deviation(elmo.headline)[0], baseline)
            rows.append((f"{share:.0%}", *(_headline(setup, cell) for cell in pair), needed))
        yield Table((TITLES[task], "baseline", "+ ELMo", "baseline needs"), tuple(rows))
        for file, description in pictures.sample_efficiency(setup, task, shares):
            yield Picture(file, description)


def equal_share(score: float, baseline: Mapping[float, float]) -> str:
    """The smallest share with which the baseline (share → score, in increasing order) has this score: "4.2%"."""
    if len(baseline) < 2:
        return "–"
    if score < baseline[first := min(baseline)]:
        return f"< {first:.0%}"
    for (share, low), (next_share, high) in pairwise(baseline.items()):
        if low <= score <= high:
            way = (score - low) / (high - low) if high > low else 0.0
            return f"{100 * share * (next_share / share) ** way:.3g}%"
    return f"> {max(baseline):.0%}"


def controls(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Controls: what else could be used")
    yield Text(
        "Test score; gain over the static vectors alone with its 95 % interval and p, as in Table 1. All are added to "
        "the same network at the same places, beside the same static vectors."
    )
    rows: list[tuple[str | Link, ...]] = []
    for task in setup.among(setup.controls):
        chosen = cells.controls(setup, task)
        plain = next(iter(chosen.values()))
        for name, cell in chosen.items():
            rows.append(
                (
                    TITLES[task],
                    name,
                    _headline(setup, cell),
                    *_over(setup, plain, cell, _gain(setup, task, plain, cell)),
                )
            )
    yield Table(("task", "vectors", "score", *GAIN), tuple(rows), texts=(0, 1))


def _gain(setup: Setup, task: str, before: Cell, after: Cell) -> Gain | None:
    """None if one of the cells was not run, or does not have the counts of each example."""
    if before == after or not (is_finished(before, setup.to) and is_finished(after, setup.to)):
        return None
    return experiment.gain(named(task), *(cells.run_of(setup, cell.name) for cell in (before, after)))


def _over(setup: Setup, before: Cell, after: Cell, measured: Gain | None) -> tuple[str, ...]:
    """The gain of one cell over another: the columns `GAIN`."""
    if before == after or not (is_finished(before, setup.to) and is_finished(after, setup.to)):
        return ("–",) * len(GAIN)
    absolute, relative = gain(_mean(setup, before), _mean(setup, after))
    return absolute, *certainty(measured), relative


def figure_2(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Figure 2: learned layer weights")
    runs = {task: found(setup, cells.with_elmo(setup, task)) for task in setup.tasks}
    learned = {f"{TITLES[task]}, {place}": mix for task, run in runs.items() if run for place, mix in run.mixes.items()}
    if not learned:
        yield Text(f"{NOT_RUN}.")
        return
    depth = max(len(mix["weights"]) for mix in learned.values())
    rows = [
        (name, *(f"{share:.2f}" for share in mix["weights"]), f"{mix['gamma']:.2f}") for name, mix in learned.items()
    ]
    yield Text("Softmax weights of the layers and γ, the mean over the seeds; layer 0 is the character network.")
    yield Table(("task and place", *(f"layer {layer}" for layer in range(depth)), "γ"), tuple(rows))
    yield Picture(pictures.layers(setup, learned), "A heat map of the learned layer weights of each task")


PARTS = {
    "table1": table_1,
    "table2": table_2,
    "table3": table_3,
    "table4": table_4,
    "table5": table_5,
    "table6": table_6,
    "table7": table_7,
    "figure1": figure_1,
    "figure2": figure_2,
    "controls": controls,
    "encoders": encoders.report,
}

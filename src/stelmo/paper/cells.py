"""The papers' experiments → `stelmo` commands, each with a folder for its result. Runs nothing.

A cell is one `stelmo` command, so that every figure can be reproduced. Cells of one chain share files and run one after
the other; chains run in parallel. All parts are of Peters et al. 2018, except `encoders`: Peters et al. 2018b.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stelmo.errors import ConfigError, DataError
from stelmo.store.folder import ENGLISH
from stelmo.tasks import reading
from stelmo.tasks.inputs import RANDOM
from stelmo.tasks.network import TASKS, named

PAPER = ("table1", "table2", "table3", "table4", "table5", "table6", "table7", "figure1", "figure2")
PARTS = (*PAPER, "encoders")
FRACTIONS = (0.02, 0.1, 0.5)  # of the training examples, in addition to all of them
TUNED = ("snli", "squad", "ner", "sst5")  # whose text Table 7 tunes on
PLAY = "The team made a fine play in the last minute ."
ENCODERS = ("laptop", "laptop-transformer", "laptop-gated-cnn")  # presets of about the same number of parameters
PROBES = {"table5": ("wsd", "wsd"), "table6": ("pos", "pos")}  # part → name of the probe, and the folder of its data


class Setup(NamedTuple):
    """What the user chose for all cells."""

    data: Path
    to: Path
    model: str | None = None
    size: str = "cpu"
    seeds: int = 3
    few_seeds: int = 2  # for the tasks whose networks take longest to train
    tasks: tuple[str, ...] = tuple(TASKS)
    ablated: tuple[str, ...] = ("snli", "srl")  # in Tables 2 and 3 and Figure 1
    vectors: str | None = None
    parts: tuple[str, ...] = PAPER
    corpus: Path | None = None  # this and the following: of the encoders
    processor_time: str = "60m"  # for training each
    encoders: tuple[str, ...] = ENCODERS
    settings: tuple[str, ...] = ()  # NAME=VALUE, of every training


class Cell(NamedTuple):
    name: str  # of its folder below the report's `runs`
    command: tuple[str, ...]  # the arguments of `stelmo`
    proof: str  # the file below `runs` that exists when it is finished
    chain: str
    printed: bool = False  # its standard output is its result, and is written to that file
    seeds: int | None = None  # of a task
    last: bool = False  # needs the results of other chains, and runs after them


def cells(setup: Setup) -> list[Cell]:
    """Every command that the chosen parts need, once."""
    found: dict[str, Cell] = {}
    for part in setup.parts:
        for cell in _of_part(setup, part):
            found.setdefault(cell.name, cell)
    return list(found.values())


def _of_part(setup: Setup, part: str) -> Iterator[Cell]:
    if part not in PARTS:
        raise ConfigError(f"--parts: {part!r} is not one of {', '.join(PARTS)}")
    if part in ("table1", "figure2"):
        yield from (cell for task in setup.tasks for cell in (baseline(setup, task), with_elmo(setup, task)))
    for task in setup.ablated:
        yield from _of_ablation(setup, part, task)
    if part in PROBES:
        yield probe(setup, part)
    if part == "table7":
        yield from (cell for task in TUNED if task in setup.tasks for cell in tuning(setup, task))
    if part == "table4":
        yield neighbours(setup)
    if part == "encoders":
        yield from (cell for preset in setup.encoders for cell in (training(setup, preset), probing(setup, preset)))
        yield embedding_speed(setup)


def _of_ablation(setup: Setup, part: str, task: str) -> Iterable[Cell]:
    if part == "table2":
        return [baseline(setup, task), *table_2(setup, task)]
    if part == "table3":
        return table_3(setup, task)
    if part == "figure1":
        return [cell for pair in figure_1(setup, task).values() for cell in pair]
    return []


# The tasks


def baseline(setup: Setup, task: str, fraction: float = 1.0) -> Cell:
    return _task(setup, task, {"--elmo": "none"}, fraction)


def with_elmo(setup: Setup, task: str, fraction: float = 1.0) -> Cell:
    """With the paper's settings for this task."""
    elmo = named(task).model.ELMO
    return _task(setup, task, {"--elmo": elmo["placement"], "--lambda": f"{elmo['l2']:g}"}, fraction)


def table_2(setup: Setup, task: str) -> tuple[Cell, Cell, Cell]:
    """The last layer alone, all with λ = 1, all with λ = 0.001."""
    place = {"--elmo": named(task).model.ELMO["placement"]}
    top, average, free = {"--layers": "top"}, {"--lambda": "1"}, {"--lambda": "0.001"}
    return _task(setup, task, place | top), _task(setup, task, place | average), _task(setup, task, place | free)


def table_3(setup: Setup, task: str) -> tuple[Cell, Cell, Cell]:
    """ELMo at the input, at both, at the output."""
    penalty = {"--lambda": f"{named(task).model.ELMO['l2']:g}"}
    at_input, both, output = (_task(setup, task, {"--elmo": place} | penalty) for place in ("input", "both", "output"))
    return at_input, both, output


def figure_1(setup: Setup, task: str) -> dict[float, tuple[Cell, Cell]]:
    """Share of the training examples → without and with ELMo."""
    return {share: (baseline(setup, task, share), with_elmo(setup, task, share)) for share in (*FRACTIONS, 1.0)}


def _task(setup: Setup, task: str, options: Mapping[str, str], fraction: float = 1.0) -> Cell:
    chosen = {**options, **({} if fraction == 1.0 else {"--fraction": f"{fraction:g}"})}
    name = "-".join([task, *(f"{key.lstrip('-')}-{value}" for key, value in chosen.items())])
    seeds = setup.few_seeds if task in ("squad", "coref") else setup.seeds
    command = {
        "--data": str(folder_of(setup.data, task)),
        "--to": str(run_of(setup, name)),
        "--size": setup.size,
        "--seeds": str(seeds),
        "--vectors": vectors_of(setup),
        "--cache": str(setup.to / "layers" / task),
        **chosen,
    }
    words = (word for pair in command.items() for word in pair)
    return Cell(name, ("task", task, *words, *_model(setup)), f"{name}/results.json", task, seeds=seeds)


def _model(setup: Setup) -> tuple[str, ...]:
    return () if setup.model is None else ("--model", setup.model)


# The rest


def probe(setup: Setup, part: str) -> Cell:
    name, folder = PROBES[part]
    data = setup.data / folder if name == "wsd" else _first_below(setup.data / folder, "*train*")
    vectors = vectors_of(setup)
    static = () if vectors == RANDOM else ("--vectors", vectors)
    command = ("probe", name, "--data", str(data), "--json", *static, *_model(setup))
    return Cell(f"probe-{name}", command, f"probe-{name}.json", f"probe-{name}", printed=True)


def neighbours(setup: Setup) -> Cell:
    vectors = vectors_of(setup)
    static = () if vectors == RANDOM else ("--vectors", vectors)
    command = ("neighbours", "play", "--in", PLAY, "--json", *static, *_model(setup))
    return Cell("neighbours", command, "neighbours.json", "neighbours", printed=True)


def tuning(setup: Setup, task: str) -> tuple[Cell, Cell]:
    """A corpus of the task's sentences, and the model tuned on it for one epoch."""
    model = setup.model or str(ENGLISH)
    corpus, run = (run_of(setup, f"{kind}-{task}") for kind in ("corpus", "tuned"))
    text = setup.to / "texts" / f"{task}.txt"
    words = ("--vocabulary", str(Path(model) / "vocab.txt"))
    prepare = ("prepare", str(text), "--to", str(corpus), "--from", "tokens", "--heldout", "0.05", *words)
    tune = ("tune", model, "--data", str(corpus), "--to", str(run))
    return (
        Cell(f"corpus-{task}", prepare, f"corpus-{task}/manifest.json", f"tuning-{task}"),
        Cell(f"tuned-{task}", tune, f"tuned-{task}.txt", f"tuning-{task}", printed=True),
    )


# The encoders


def training(setup: Setup, preset: str) -> Cell:
    """The same text, order of the text, vocabulary, seed and warm start for all; one thread, as for every cell."""
    name = f"encoder-{preset}"
    settings = (
        word for setting in (f"processor_time={setup.processor_time}", *setup.settings) for word in ("--set", setting)
    )
    start = () if setup.vectors in (None, RANDOM) else ("--vectors", str(setup.vectors))
    command = ("pretrain", preset, "--data", str(corpus_of(setup)), "--to", str(run_of(setup, name)), *settings, *start)
    return Cell(name, command, f"{name}.txt", name, printed=True)


def corpus_of(setup: Setup) -> Path:
    if setup.corpus is None:
        raise ConfigError("--parts encoders requires --corpus FOLDER, a corpus made by `stelmo prepare`")
    return setup.corpus


def probing(setup: Setup, preset: str) -> Cell:
    name = f"encoder-{preset}-probes"
    vectors = vectors_of(setup)
    static = () if vectors == RANDOM else ("--vectors", vectors)
    kept = ("--cache", str(setup.to / "probes"))
    command = ("probe", "pos,wsd,coarse", "--data", str(setup.data), "--model", _trained(setup, preset), *static, *kept)
    return Cell(name, (*command, "--json"), f"{name}.json", f"encoder-{preset}", printed=True)


def embedding_speed(setup: Setup) -> Cell:
    """All encoders in one command, in turns."""
    models = (_trained(setup, preset) for preset in setup.encoders)
    command = ("bench", *models, "--clock", "processor", "--json")
    return Cell("encoders-speed", command, "encoders-speed.json", "encoders-speed", printed=True, last=True)


def _trained(setup: Setup, preset: str) -> str:
    return str(run_of(setup, training(setup, preset).name) / "model")


def run_of(setup: Setup, name: str) -> Path:
    return setup.to / "runs" / name


def vectors_of(setup: Setup) -> str:
    """The user's choice, else the folder `vectors` of the data, else random."""
    if setup.vectors is not None:
        return setup.vectors
    found = sorted(path.parent for path in setup.data.glob("vectors/*/words.txt"))
    return str(found[0]) if found else RANDOM


def folder_of(data: Path, task: str) -> Path:
    """The task's own folder, or the first one in it that has the task's files."""
    for folder in [data / task, *sorted((data / task).glob("*/"))]:
        try:
            reading.find(folder, named(task).data.FILES, ("train", "dev"))
        except DataError:
            continue
        return folder
    raise DataError(f"{data / task}: no folder with the files of {task}; exclude the task with --tasks")


def _first_below(folder: Path, pattern: str) -> Path:
    found = sorted(path.parent for path in folder.rglob(pattern))
    if not found:
        raise DataError(f"{folder}: no file {pattern} below it; exclude the part with --parts")
    return found[0]

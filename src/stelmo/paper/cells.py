"""The papers' experiments → `stelmo` commands, each with a folder for its result. Runs nothing.

A cell is one `stelmo` command, so that every figure can be reproduced. Cells of one chain share files and run one after
the other; chains run in parallel. All parts are of Peters et al. 2018, except `encoders` (Peters et al. 2018b) and
`controls`: what a user could choose instead of ELMo as the paper has it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.errors import ConfigError, DataError
from stelmo.store import runs
from stelmo.store.folder import ENGLISH
from stelmo.tasks import reading
from stelmo.tasks.inputs import NONE, RANDOM
from stelmo.tasks.network import TASKS, named
from stelmo.train.warm_start import TRAINED

PAPER = ("table1", "table2", "table3", "table4", "table5", "table6", "table7", "figure1", "figure2")
PARTS = (*PAPER, "controls", "encoders")
FRACTIONS = (0.01, 0.03, 0.1, 0.3)  # of the training examples, in addition to all of them
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
    seeds_of: tuple[tuple[str, int], ...] = (("squad", 2),)  # of single tasks; `squad` takes longest to train
    tasks: tuple[str, ...] = tuple(TASKS)
    ablated: tuple[str, ...] = ("snli", "srl", "sst5")  # in Tables 2 and 3
    curves: tuple[str, ...] = ("srl", "sst5")  # in Figure 1
    ablation_seeds: int = 2  # at most, in Tables 2 and 3, Figure 1 and the controls
    vectors: str | None = None
    parts: tuple[str, ...] = PAPER
    controls: tuple[str, ...] = ("ner", "sst5")
    transformer: str | None = None  # folder of a Transformer whose token vectors are one of the controls
    corpus: Path | None = None  # this and the following: of the encoders
    processor_time: str = "60m"  # for training each
    encoders: tuple[str, ...] = ENCODERS
    settings: tuple[str, ...] = ()  # NAME=VALUE, of every training

    def among(self, tasks: Sequence[str]) -> list[str]:
        """Those of the given tasks that the user wants at all."""
        return [named(task).name for task in tasks if named(task).name in self.tasks]


class Cell(NamedTuple):
    name: str  # of its folder below the report's `runs`
    command: tuple[str, ...]  # the arguments of `stelmo`
    result_file: str  # the file below `runs` that exists when it is finished
    chain: str
    printed: bool = False  # its standard output is its result, and is written to that file
    seeds: int | None = None  # this and the following: of a task
    steps: int | None = None  # at most, if the size limits steps
    patience: int | None = None
    last: bool = False  # needs the results of other chains, and runs after them


def cells(setup: Setup) -> list[Cell]:
    """Every command that the chosen parts need, once: with the seeds of the part that needs most of them."""
    found: dict[str, Cell] = {}
    for part in setup.parts:
        for cell in _of_part(setup, part):
            other = found.setdefault(cell.name, cell)
            if (cell.seeds or 0) > (other.seeds or 0):
                found[cell.name] = cell
    if not found:
        raise ConfigError(
            f"--tasks {','.join(setup.tasks)}: --parts {','.join(setup.parts)} has nothing to run for them; --ablate "
            "chooses the tasks of Tables 2 and 3, --curves those of Figure 1"
        )
    return list(found.values())


def check_files(setup: Setup) -> None:
    """Refuse files that do not exist before anything runs; a report on finished cells does not need them."""
    if setup.vectors is not None and is_file(setup.vectors) and not Path(setup.vectors).exists():
        raise DataError(f"--vectors {setup.vectors}: no such file or folder; expected static word vectors")
    if setup.transformer is not None and not (Path(setup.transformer) / "config.json").is_file():
        raise DataError(f"--transformer {setup.transformer}: no config.json; expected the folder of a Transformer")


def _of_part(setup: Setup, part: str) -> Iterator[Cell]:
    if part not in PARTS:
        raise ConfigError(f"--parts: {part!r} is not one of {', '.join(PARTS)}")
    if part == "table1":
        yield from (cell for task in setup.tasks for cell in (baseline(setup, task), with_elmo(setup, task)))
    if part == "figure2":
        yield from (with_elmo(setup, task) for task in setup.tasks)
    if part == "table2":
        yield from (
            cell for task in setup.among(setup.ablated) for cell in (baseline(setup, task), *table_2(setup, task))
        )
    if part == "table3":
        yield from (cell for task in setup.among(setup.ablated) for cell in table_3(setup, task))
    if part == "figure1":
        yield from (
            cell for task in setup.among(setup.curves) for pair in figure_1(setup, task).values() for cell in pair
        )
    if part == "controls":
        yield from (cell for task in setup.among(setup.controls) for cell in controls(setup, task).values())
    if part in PROBES:
        yield probe(setup, part)
    if part == "table7":
        for task in setup.among(TUNED):
            yield from (baseline(setup, task), with_elmo(setup, task))
            yield from (*tuning(setup, task), with_tuned_elmo(setup, task))
    if part == "table4":
        yield neighbours(setup)
    if part == "encoders":
        yield from (cell for preset in setup.encoders for cell in (training(setup, preset), probing(setup, preset)))
        yield embedding_speed(setup)


# The tasks


def baseline(setup: Setup, task: str, fraction: float = 1.0) -> Cell:
    return _task(setup, task, {"--elmo": "none"}, fraction)


def with_elmo(setup: Setup, task: str, fraction: float = 1.0) -> Cell:
    return _task(setup, task, _default_elmo(setup, task), fraction)


def with_tuned_elmo(setup: Setup, task: str) -> Cell:
    """With the biLM that Table 7 tunes on the task's text; as many seeds as in Table 1, with which it is compared."""
    tuned = _Variant("tuned", ("--model", _trained(setup, tuning(setup, task)[1])), own_layers=True)
    cell = _task(setup, task, _default_elmo(setup, task), variant=tuned)
    return cell._replace(chain=f"tuning-{task}")


def controls(setup: Setup, task: str) -> dict[str, Cell]:
    """Description → cell: without ELMo, ELMo as in Table 1, and what a user could choose instead."""
    usual, most = _default_elmo(setup, task), setup.ablation_seeds
    found = {
        "static vectors alone": baseline(setup, task),
        "ELMo": with_elmo(setup, task),
        "its last layer alone": table_2(setup, task)[0],
        "ELMo, fine-tuned": _task(setup, task, usual, most=most, variant=_Variant("finetune", ("--finetune",))),
    }
    if setup.transformer is not None:
        name = Path(setup.transformer).resolve().name
        other = _Variant(f"transformer-{name}", ("--transformer", setup.transformer), own_layers=True)
        found[f"token vectors of {name}"] = _task(setup, task, usual, most=most, variant=other)
    return found


def _default_elmo(setup: Setup, task: str) -> dict[str, str]:
    """Where ELMo enters this task's network, and λ."""
    elmo = named(task).elmo(setup.size)
    return {"--elmo": elmo["placement"], "--lambda": f"{elmo['l2']:g}"}


def table_2(setup: Setup, task: str) -> tuple[Cell, Cell, Cell]:
    """The last layer alone, all with λ = 1, all with λ = 0.001."""
    place = {"--elmo": named(task).elmo(setup.size)["placement"]}
    top, average, free = {"--layers": "top"}, {"--lambda": "1"}, {"--lambda": "0.001"}
    last, averaged, mixed = (_task(setup, task, place | how, most=setup.ablation_seeds) for how in (top, average, free))
    return last, averaged, mixed


def table_3(setup: Setup, task: str) -> tuple[Cell, Cell, Cell]:
    """ELMo at the input, at both, at the output."""
    penalty = {"--lambda": f"{named(task).elmo(setup.size)['l2']:g}"}
    at_input, both, output = (
        _task(setup, task, {"--elmo": place} | penalty, most=setup.ablation_seeds)
        for place in ("input", "both", "output")
    )
    return at_input, both, output


def figure_1(setup: Setup, task: str) -> dict[float, tuple[Cell, Cell]]:
    """Share of the training examples → without and with ELMo."""
    return {share: (baseline(setup, task, share), with_elmo(setup, task, share)) for share in (*FRACTIONS, 1.0)}


class _Variant(NamedTuple):
    """A run that differs from others in more than the options its name shows."""

    name: str
    words: tuple[str, ...]  # added to the command
    own_layers: bool = False  # the vectors are not those of the report's biLM


def _task(
    setup: Setup,
    task: str,
    options: Mapping[str, str],
    fraction: float = 1.0,
    *,
    most: int | None = None,
    variant: _Variant | None = None,
) -> Cell:
    """One run of a task, with at most `most` seeds."""
    if vectors_of(setup) == NONE and options["--elmo"] in ("none", "output"):
        raise ConfigError(
            f"--vectors {NONE}: the networks of {task} with --elmo {options['--elmo']} would have no input; "
            f"give a file, {TRAINED} or {RANDOM}"
        )
    chosen = {**options, **({} if fraction == 1.0 else {"--fraction": f"{fraction:g}"})}
    named_by = [f"{key.lstrip('-')}-{value}" for key, value in chosen.items()]
    name = "-".join([task, *named_by, *([variant.name] if variant else [])])
    seeds = dict(setup.seeds_of).get(task, setup.seeds)
    if most is not None or fraction < 1.0:
        seeds = min(seeds, most or setup.ablation_seeds)
    own_layers = variant is not None and variant.own_layers
    command = {
        "--data": str(folder_of(setup.data, task)),
        "--to": str(run_of(setup, name)),
        "--size": setup.size,
        "--seeds": str(seeds),
        "--vectors": vectors_of(setup),
        "--cache": str(setup.to / "layers" / (f"{task}-{variant.name}" if variant and own_layers else task)),
        **chosen,
    }
    words = [word for pair in command.items() for word in pair]
    words += () if own_layers else _model(setup)
    words += variant.words if variant else ()
    recipe = named(task).recipe(setup.size)
    if fraction < 1.0 and "evaluate_every" in recipe:
        shorter = _for_share(recipe, fraction)
        words += [word for setting, value in shorter.items() for word in ("--set", f"{setting}={value}")]
        recipe |= shorter
    limits = recipe.get("steps"), recipe.get("patience")
    return Cell(name, ("task", task, *words), f"{name}/results.json", task, False, seeds, *limits)


def _for_share(recipe: Mapping[str, Any], fraction: float) -> dict[str, int]:
    """With fewer examples a network converges sooner, so it is evaluated after fewer steps.

    A learning rate that falls over the steps of the run should also have fallen sooner. Both are proportional to the
    root of the share, so that examples of a smaller share are still seen more often.
    """
    every = max(1, round(recipe["evaluate_every"] * math.sqrt(fraction)))
    if recipe.get("decay") == "linear":
        return {"steps": every * (recipe["steps"] // recipe["evaluate_every"]), "evaluate_every": every}
    return {"evaluate_every": every}


def _model(setup: Setup) -> tuple[str, ...]:
    return () if setup.model is None else ("--model", setup.model)


# The rest


def probe(setup: Setup, part: str) -> Cell:
    name, folder = PROBES[part]
    data = setup.data / folder
    if name == "pos":
        treebanks = sorted(path.parent for path in data.rglob("*train*"))
        if not treebanks:
            raise DataError(f"{data}: no file *train* below it; exclude the part with --parts")
        data = treebanks[0]
    command = ("probe", name, "--data", str(data), "--json", *_static(setup), *_model(setup))
    return Cell(f"probe-{name}", command, f"probe-{name}.json", f"probe-{name}", printed=True)


def neighbours(setup: Setup) -> Cell:
    command = ("neighbours", "play", "--in", PLAY, "--json", *_static(setup), *_model(setup))
    return Cell("neighbours", command, "neighbours.json", "neighbours", printed=True)


def tuning(setup: Setup, task: str) -> tuple[Cell, Cell]:
    """A corpus of the task's sentences, and the model tuned on it for one epoch."""
    model = setup.model or str(ENGLISH)
    corpus, run = (run_of(setup, f"{kind}-{task}") for kind in ("corpus", "tuned"))
    text = setup.to / "texts" / f"{task}.txt"
    words = ("--vocabulary", str(_folder_of_model(Path(model)) / "vocab.txt"))
    prepare = ("prepare", str(text), "--to", str(corpus), "--from", "tokens", "--heldout", "0.05", *words)
    tune = ("tune", model, "--data", str(corpus), "--to", str(run))
    return (
        Cell(f"corpus-{task}", prepare, f"corpus-{task}/manifest.json", f"tuning-{task}"),
        Cell(f"tuned-{task}", tune, f"tuned-{task}.txt", f"tuning-{task}", printed=True),
    )


def _folder_of_model(path: Path) -> Path:
    """Where a model's files are: it may be given as the run that trained it, or as its weights."""
    if runs.recognises(path):
        return runs.model_of(path)
    return path.parent if path.is_file() else path


# The encoders


def training(setup: Setup, preset: str) -> Cell:
    """The same text, order of the text, vocabulary, seed and warm start for all; one thread, as for every cell."""
    name = f"encoder-{preset}"
    settings = (
        word for setting in (f"processor_time={setup.processor_time}", *setup.settings) for word in ("--set", setting)
    )
    start = ("--vectors", str(setup.vectors)) if starts_from_vectors(setup) else ()
    command = ("pretrain", preset, "--data", str(corpus_of(setup)), "--to", str(run_of(setup, name)), *settings, *start)
    return Cell(name, command, f"{name}.txt", name, printed=True)


def starts_from_vectors(setup: Setup) -> bool:
    """Whether the encoders do, instead of from random weights."""
    return setup.vectors not in (None, RANDOM, NONE)


def corpus_of(setup: Setup) -> Path:
    if setup.corpus is None:
        raise ConfigError("--parts encoders requires --corpus FOLDER, a corpus made by `stelmo prepare`")
    return setup.corpus


def probing(setup: Setup, preset: str) -> Cell:
    name = f"encoder-{preset}-probes"
    kept = ("--cache", str(setup.to / "probes"))
    model = _trained(setup, training(setup, preset))
    command = ("probe", "pos,wsd,coarse", "--data", str(setup.data), "--model", model, *_static(setup), *kept)
    return Cell(name, (*command, "--json"), f"{name}.json", f"encoder-{preset}", printed=True)


def embedding_speed(setup: Setup) -> Cell:
    """All encoders in one command, interleaved; another choice of encoders is another measurement."""
    models = (_trained(setup, training(setup, preset)) for preset in setup.encoders)
    command = ("bench", *models, "--clock", "processor", "--json")
    name = "-".join(("speed", *setup.encoders))
    return Cell(name, command, f"{name}.json", name, printed=True, last=True)


def _trained(setup: Setup, cell: Cell) -> str:
    """The model that a run of pretraining or tuning leaves."""
    return str(run_of(setup, cell.name) / "model")


def run_of(setup: Setup, name: str) -> Path:
    return setup.to / "runs" / name


def vectors_of(setup: Setup) -> str:
    """The user's choice, else the folder `vectors` of the data, else random."""
    if setup.vectors is not None:
        return setup.vectors
    found = sorted(path.parent for path in setup.data.glob("vectors/*/words.txt"))
    return str(found[0]) if found else RANDOM


def is_file(vectors: str) -> bool:
    """Whether static vectors are a file or folder, which commands other than `task` can read as well."""
    return vectors not in (RANDOM, NONE, TRAINED)


def _static(setup: Setup) -> tuple[str, ...]:
    vectors = vectors_of(setup)
    return ("--vectors", vectors) if is_file(vectors) else ()


def folder_of(data: Path, task: str) -> Path:
    """The task's own folder, or the first one in it that has the task's files."""
    for folder in [data / task, *sorted((data / task).glob("*/"))]:
        try:
            reading.find(folder, named(task).data.FILES, ("train", "dev"))
        except DataError:
            continue
        return folder
    raise DataError(f"{data / task}: no folder with the files of {task}; exclude the task with --tasks")

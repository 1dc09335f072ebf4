"""A model and text of a new domain → the model fine-tuned to it. Knows no command line.

A model without a softmax (most published files have none) is given one first, trained while the biLM stays frozen.

to/softmax/      the run that trains the softmax, if one is needed
to/warm-start/   static vectors that were trained on the corpus
to/              the run that trains everything; the model is also validated before its first step
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stelmo.config import CodePointInput, ModelConfig, WordInput, parse
from stelmo.corpus.folder import Corpus, type_counts
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.formats import models
from stelmo.model.bilm import Softmax
from stelmo.progress import NoProgress
from stelmo.settings import TrainSettings, VectorSettings
from stelmo.store.runs import SOFTMAX, Run
from stelmo.store.saved import SavedModel
from stelmo.train.learner import Start, log_frequencies
from stelmo.train.presets import Layer, Plan, overridden
from stelmo.train.pretrain import Outcome, pretrain
from stelmo.train.run_state import Best, StageReport, TrainProgress
from stelmo.train.warm_start import RowFit, WarmStart, WordVectors, read_vectors, trained_once
from stelmo.train.world import World, join, local_device

# One epoch, with a lower learning rate than training from the start.
TUNE: Layer = {"optimizer": "adam", "lr": 0.001, "warmup": 0.1, "decay": "linear", "batch": 32, "epochs": 1}
# A new softmax needs larger steps; dropout would only add noise to its input.
SOFTMAX_ALONE: Layer = {"lr": 0.003, "dropout": 0.0}


class Settings(NamedTuple):
    everything: TrainSettings
    softmax: TrainSettings
    vectors: VectorSettings | None = None  # what was set for static vectors; None: nothing


class Tuned(NamedTuple):
    outcome: Outcome  # of the last run that was started
    figures: dict[str, Best]  # held-out perplexity at each stage, by its name


def settings_of(
    file: Path | None = None, assignments: Iterable[str] = (), softmax_assignments: Iterable[str] = ()
) -> Settings:
    """Our defaults, overridden by the file and the assignments; for the softmax also by its own assignments."""
    values = overridden(TUNE, file, assignments)
    vectors = values.pop("vectors", None)
    return Settings(
        _parsed(values),
        _parsed(overridden({**values, **SOFTMAX_ALONE}, None, softmax_assignments)),
        None if vectors is None else parse(VectorSettings, vectors, "settings: vectors", ConfigError),
    )


def _parsed(values: dict[str, Any]) -> TrainSettings:
    for part in ("input", "encoder"):
        if part in values:
            named = "lstm" if dict(values[part]).get("kind") == "lstm" else part
            raise ConfigError(f"{named}: the architecture is that of the model; tuning has settings of training only")
    return parse(TrainSettings, values, "settings", ConfigError)


def tune(
    saved: SavedModel,
    corpus: Corpus,
    to: Path,
    settings: Settings,
    progress: TrainProgress | None = None,
    *,
    new_softmax: bool = False,
    vectors: str | None = None,
) -> Tuned:
    """Train until the budget is spent; the same call again resumes. `vectors`: static ones for a new softmax."""
    Run(to).refuse_foreign()
    head, listener = _own_softmax(saved, corpus, new_softmax), progress or NoProgress()
    warm = None
    if vectors is not None:
        if head is not None:
            raise ConfigError("--vectors: the model keeps its softmax; learn a new one with --new-softmax")
        chosen = settings.vectors or VectorSettings()
        warm = read_vectors(vectors, corpus, chosen, saved.config.projection, listener.message)
    elif settings.vectors is not None:
        raise ConfigError("vectors.*: these settings require --vectors FILE (or --vectors trained)")
    with join(local_device(settings.everything.device)) as world:
        if head is None:
            start = _frozen_start(saved, corpus, to, settings, warm, world, listener)
            outcome = pretrain(Plan(saved.config, settings.softmax, start), corpus, to / SOFTMAX, progress, world)
            if not outcome.finished:
                return Tuned(outcome, figures(to, warm is not None))
            learned = models.read(to / SOFTMAX / "model").read_softmax
            assert learned is not None, "a run writes the softmax with its model"
            head = learned()
        plan = Plan(saved.config, settings.everything, _start(saved, head, frozen=False))
        return Tuned(pretrain(plan, corpus, to, progress, world), figures(to, warm is not None))


def _own_softmax(saved: SavedModel, corpus: Corpus, new_softmax: bool) -> Softmax | None:
    """The model's own softmax; None: a new one is needed. A corpus with another vocabulary is refused."""
    reads = saved.config.input
    if isinstance(reads, CodePointInput) and reads.word_table is not None:
        raise ModelError(
            "a model with a word table of ELMoForManyLangs cannot be tuned: its words cannot be those of a softmax"
        )
    without = saved.read_softmax is None or new_softmax
    if without and not isinstance(reads, WordInput):
        return None
    if saved.vocabulary is None:
        raise ModelError(
            "the model has no vocabulary, so its softmax has no words; give its file (--vocabulary), or learn a new "
            "softmax (--new-softmax)"
        )
    if saved.vocabulary.words != corpus.vocabulary.words:
        way_out = "" if isinstance(reads, WordInput) else ", or learn a new softmax (--new-softmax)"
        raise DataError(
            f"{corpus.path}: its vocabulary of {len(corpus.vocabulary):,} words is not the model's of "
            f"{len(saved.vocabulary):,}; prepare the text with the model's (--vocabulary){way_out}"
        )
    return None if without or saved.read_softmax is None else saved.read_softmax()


def unigram_softmax(corpus: Corpus, config: ModelConfig) -> Softmax:
    """Predicts every word by its frequency, whatever the context: the weights are zero."""
    softmax = Softmax(len(corpus.vocabulary), config.projection).requires_grad_(False)
    softmax.weight.zero_()
    softmax.bias.copy_(log_frequencies(corpus, type_counts(corpus)))
    return softmax


def _frozen_start(
    saved: SavedModel,
    corpus: Corpus,
    to: Path,
    settings: Settings,
    warm: WarmStart | None,
    world: World,
    progress: TrainProgress,
) -> Start:
    """The model with a softmax that has the words' frequencies as biases and, if given, static vectors as rows."""
    start = _start(saved, unigram_softmax(corpus, saved.config), frozen=True)
    if warm is None:
        return start
    digest = hashlib.sha256((start.fingerprint + json.dumps(warm.about(), sort_keys=True)).encode()).hexdigest()
    start = start._replace(fingerprint=digest[:32])
    if world.on_rank_0(lambda: Run(to / SOFTMAX).newest(progress.message)) is not None:
        return start  # the run has begun: its checkpoint has the rows

    def learned() -> Softmax:
        def advance(share: float, figures: str) -> None:
            progress.update(StageReport("fitting the rows", share, figures))

        vectors = warm.vectors or trained_once(corpus, to, progress.message)
        found = WordVectors(corpus, vectors, warm.settings, saved.config.projection)
        fit = RowFit(saved.to(torch.float32).bilm, corpus, found, settings.softmax, saved.alphabet)
        return fit.run(max(1, warm.settings.steps // 10), advance)

    return start._replace(softmax=world.on_rank_0(learned, long=True))


def _start(saved: SavedModel, softmax: Softmax, frozen: bool) -> Start:
    digest = hashlib.sha256(saved.fingerprint().encode() + softmax.bias.double().numpy().tobytes())
    return Start(saved.bilm, softmax, frozen, saved.alphabet, digest.hexdigest()[:32])


def figures(to: Path, vectors: bool = False) -> dict[str, Best]:
    """Held-out perplexity of every stage that was reached, from the logs.

    `vectors`: a new softmax started from static vectors, to which its rows were fitted before the first validation.
    """
    alone, everything = (_validations(Run(path)) for path in (to / SOFTMAX, to))
    first, last = ("softmax learned", "everything learned") if alone else ("before", "after")
    found = {"rows from vectors" if vectors else "words by frequency": alone[:1], first: everything[:1]}
    found[last] = [min(everything, key=lambda found: found.perplexity)] if everything[1:] else []
    return {name: figures[0] for name, figures in found.items() if figures}


def _validations(run: Run) -> list[Best]:
    names = ("step", "perplexity_forward", "perplexity_backward", "heldout_tokens")
    return [Best(*(entry[name] for name in names)) for entry in run.log.entries() if "perplexity" in entry]

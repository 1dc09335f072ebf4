"""A corpus → a trained biLM in a run folder. Knows no command line.

One loop of steps, with log lines, validations and checkpoints in between. If the process is killed, the same call
resumes from the last checkpoint; unless the budget is a time, the result is the same to the last bit.
"""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stelmo.corpus.folder import Corpus
from stelmo.corpus.windows import Sentences
from stelmo.engine.plain import warm_state
from stelmo.errors import ConfigError, OutputError
from stelmo.formats import models
from stelmo.progress import NoProgress, stop_requested
from stelmo.settings import BUDGETS, seconds
from stelmo.store import atomic, runs
from stelmo.store.folder import FORMAT
from stelmo.store.runs import Run
from stelmo.store.saved import SavedModel
from stelmo.text.ids import word_ids
from stelmo.train.batches import Batches, sampled_words
from stelmo.train.learner import Learner, Losses, Start, counted_start, mean_token_vector, own_rows
from stelmo.train.presets import Plan, refuse_misfit
from stelmo.train.run_state import (
    Best,
    Clock,
    RunState,
    StageReport,
    StepReport,
    TrainProgress,
    draw_curve,
    schedule,
    tensorboard_writer,
)
from stelmo.train.validation import figures, validate
from stelmo.train.warm_start import WarmStart, warm_start
from stelmo.train.world import World, join, local_device

# Settings that may change when a run is resumed: they do not change its result, except for rounding.
# `average` changes what is validated and kept, but not the training; `count_biases` only changes the start.
# The budget may be changed, too: the learning rate follows the new one from there on.
MAY_DIFFER = frozenset(
    f"train.{name}" for name in ("threads", "device", "checkpoint_every", "keep", "average", "count_biases", *BUDGETS)
)
SECONDS_BETWEEN_PICTURES = 60.0
DIVERGED = 3.0  # nats by which the loss may exceed its lowest value
WARM_UP_SENTENCES, WARM_UP_WORDS = 64, 100  # of the training text, for the warm state of the model


class Outcome(NamedTuple):
    finished: bool
    worked: bool  # False: the run was already finished
    step: int
    tokens: int
    best: Best | None
    first: bool  # whether this process is the one that prints


def pretrain(
    plan: Plan, corpus: Corpus, to: Path, progress: TrainProgress | None = None, world: World | None = None
) -> Outcome:
    """Train until the budget is spent, patience ends or a signal arrives; the same call again resumes.

    A plan with a start is also validated before the first step. A model without one is centred when it is written: its
    token layer has no mean over the training text. If a `world` is given, it has been joined already.
    """
    refuse_misfit(plan, corpus)
    centred = plan.start is None  # a model that is tuned keeps its token layer comparable with what it was
    with ExitStack() as stack:
        threads = torch.get_num_threads()
        stack.callback(torch.set_num_threads, threads)
        torch.set_num_threads(plan.train.threads or threads)
        world = world or stack.enter_context(join(local_device(plan.train.device)))
        run, listener = Run(to), (progress or NoProgress()) if world.first else NoProgress()
        own_rows(plan.train, world)  # refused before anything is written
        world.on_rank_0(lambda: stack.enter_context(run.held()))
        world.on_rank_0(lambda: run.start(_about(plan, corpus), MAY_DIFFER))
        checkpoint = world.on_rank_0(lambda: run.newest(listener.message))
        if checkpoint is None and plan.warm is not None:
            plan = plan._replace(start=_warm_start(plan, plan.warm, corpus, run, world, listener))
        elif checkpoint is None and plan.start is None and plan.train.count_biases:
            plan = plan._replace(start=counted_start(plan.model, plan.train.seed, corpus))
        stop = stack.enter_context(stop_requested())
        return Pretraining(plan, corpus, run, world, listener, stop, centred).run(checkpoint)


class Pretraining:
    """The training loop of one process."""

    def __init__(
        self,
        plan: Plan,
        corpus: Corpus,
        run: Run,
        world: World,
        progress: TrainProgress,
        stop: Callable[[], bool],
        centred: bool,
    ) -> None:
        self._settings, self._corpus, self._run, self._world = plan.train, corpus, run, world
        self._progress, self._stop, self._centred = progress, stop, centred
        self._train, self._heldout = Sentences(corpus.train), Sentences(corpus.heldout)
        self._alphabet = plan.start.alphabet if plan.start else None
        self._ids_of = word_ids(plan.model, corpus.vocabulary, self._alphabet)
        self._batches = Batches(self._ids_of, corpus.words, corpus.targets_S)
        words = len(corpus.vocabulary)
        self._learner = Learner(plan.model, plan.train, words, self._train, self._batches, world, plan.start)
        self._schedule = schedule(plan.train, self._train.tokens + len(self._train))
        self._state = RunState(processes=world.size, due=plan.start is not None and plan.start.learned)
        self._events = tensorboard_writer(run.path / "tensorboard") if world.first else lambda step, figures: None
        self._tokens_of_a_step = plan.train.batch * plan.train.unroll
        self._clock = self._new_clock()
        self._resumed = self._state  # the state in which this process started

    def run(self, checkpoint: Path | None) -> Outcome:
        """Train all steps, or the remaining ones after a checkpoint."""
        self._resume(checkpoint)
        asked, words = self._settings.negatives, len(self._corpus.vocabulary)
        if asked not in ("all", 0, sampled_words(self._settings, words)):
            self._progress.message(f"{asked} negatives are more than half of the {words} words; using the full softmax")
        worked, state = not self._state.finished, self._state
        while not state.finished:
            if state.due:
                self._validate()
                continue
            before, lr = state.share, self._schedule.rate(state.step, state.share)
            losses = self._learner.step(state.step + 1, lr)
            state.step += 1
            forward, backward, stop, save, state.seconds = self._agreed(losses)
            state.add(forward, backward)
            state.share = self._schedule.share(state.step, state.seconds)
            state.due = self._schedule.validates(state.step, before, state.share)
            self._progress.update(self._report())
            if state.step % self._settings.log_every == 0:
                self._log_losses(lr, losses.norm)
            if stop or save:
                self._save(needed=stop > 0)
            if stop:
                break
        return Outcome(state.finished, worked, state.step, self._tokens, state.best, self._world.first)

    def _agreed(self, losses: Losses) -> list[float]:
        """Mean losses over all processes, whether any was told to stop, whether to save, and rank 0's clock."""
        size, every, clock = self._world.size, self._settings.checkpoint_every, self._clock
        save = self._state.step % every == 0 if isinstance(every, int) else clock.since_saved() >= seconds(every)
        own = [losses.forward / size, losses.backward / size, self._stop(), 0, 0]
        if self._world.first:
            own[3:] = [save, clock.seconds()]
        figures = torch.tensor(own, dtype=torch.float64, device=self._learner.device)
        self._world.all_reduce_(figures)
        return figures.tolist()

    def _validate(self) -> None:
        settings, state = self._settings, self._state
        found = validate(
            *self._learner.result(state.step),
            self._heldout,
            self._batches,
            rows=settings.batch,
            steps=settings.unroll,
            world=self._world,
            tokens=settings.validate_tokens,
        )
        state.due = False
        self._record(figures(found))
        before = replace(state)
        if state.judge(found):
            written = False
            with self._tolerating(True):
                if self._world.first:
                    self._write_model("model")
                written = True
            if not self._world.broadcast(written):
                state.best, state.worse = before.best, before.worse
        state.finished = state.share >= 1.0 or state.worse >= (settings.patience or math.inf)
        if state.finished:
            best = state.best is not None and state.best.step == state.step
            with self._tolerating(False):  # before the checkpoint that marks the end
                # An earlier end, if a finished run was continued, is not the last model any more.
                self._world.on_rank_0(
                    lambda: atomic.remove(self._run.path / "last") if best else self._write_model("last")
                )
        self._save(needed=state.finished)

    def _save(self, needed: bool) -> None:
        """A checkpoint, and the curve at the end and at most once a minute: drawing takes longer than a small step.

        If the checkpoint is not needed to resume, a full disk is reported and the previous checkpoint is kept.
        """
        if self._world.first and (needed or self._clock.since_drawn() > SECONDS_BETWEEN_PICTURES):
            self._clock.drawn()
            with self._tolerating(True):
                draw_curve(self._run)
        tensors = self._learner.tensors()
        about = {"ledger": replace(self._state, processes=self._world.size).to_json()}
        with self._tolerating(not needed):
            self._world.on_rank_0(lambda: self._run.save(self._state.step, tensors, about, self._settings.keep))
        self._clock.saved()

    def _write_model(self, name: str) -> None:
        (bilm, softmax), words = self._learner.result(self._state.step), self._corpus.vocabulary
        if self._centred:
            bilm = copy.deepcopy(bilm)
            bilm.centre(mean_token_vector(bilm, self._ids_of, self._corpus))
        start = None
        if bilm.config.has_state:
            count = min(WARM_UP_SENTENCES, len(self._train))
            text = [self._corpus.words.words(self._train[number][:WARM_UP_WORDS]) for number in range(count)]
            with torch.no_grad():
                start = warm_state(bilm, self._ids_of, text)
        saved = SavedModel(bilm, FORMAT, words, read_softmax=lambda: softmax, start=start, alphabet=self._alphabet)
        models.write(saved, self._run.path / name, overwrite=True)

    @contextmanager
    def _tolerating(self, allowed: bool) -> Iterator[None]:
        """Where `allowed`, a file that cannot be written is reported and training continues."""
        try:
            yield
        except OutputError as problem:
            if not allowed:
                raise OutputError(
                    f"{problem}; free some space and run the command again: it resumes from the last checkpoint"
                ) from problem
            self._progress.message(f"{problem}; training continues")

    def _log_losses(self, lr: float, norm: float) -> None:
        forward, backward = self._state.mean_losses()
        self._record({"loss_forward": forward, "loss_backward": backward, "lr": lr, "norm": norm})
        loss, lowest = (forward + backward) / 2, self._state.lowest_loss
        if lowest is not None and loss > lowest + DIVERGED:
            raise ConfigError(
                f"step {self._state.step:,}: the loss rose from {lowest:.2f} to {loss:.2f}, so training diverges; "
                f"the last checkpoint and the best model ({self._run.path / 'model'}) are kept: start another run "
                "with a lower lr or a smaller clip, or tune that model"
            )
        self._state.lowest_loss = loss if lowest is None else min(lowest, loss)

    def _record(self, figures: dict[str, float]) -> None:
        """A line of the log."""
        if not self._world.first:
            return
        step = self._state.step
        with self._tolerating(True):
            self._run.log.add({"step": step, "tokens": self._tokens, **figures, "seconds": self._state.seconds})
            self._events(step, figures)

    def _resume(self, checkpoint: Path | None) -> None:
        if checkpoint is not None:
            about, tensors = runs.read(checkpoint)
            self._state = RunState.from_json(about["ledger"])
            self._learner.load(tensors)
            self._follow_budget()
            if not self._state.finished:
                self._progress.message(f"resuming from step {self._state.step:,}")
            before, now = self._state.processes, self._world.size
            if before != now:
                self._progress.message(
                    f"{before} processes before, {now} now: the batch is the same, dropout and rounding differ"
                )
        self._clock, self._resumed = self._new_clock(), replace(self._state)
        if self._world.first and not self._state.finished:
            self._run.log.cut(self._state.step, "perplexity" if self._state.due else None)

    def _follow_budget(self) -> None:
        """The budget may differ from the one that the run had before."""
        state = self._state
        before, state.share = state.share, self._schedule.share(state.step, state.seconds)
        if state.share == before:
            return
        ended = state.worse >= (self._settings.patience or math.inf)
        state.finished = state.finished and ended
        state.due = state.due or (state.share >= 1.0 and not state.finished)
        self._progress.message(
            f"the budget has changed: {state.share:.1%} of it is spent, {before:.1%} of the one before; "
            "from here on the learning rate follows the new budget"
        )

    def _new_clock(self) -> Clock:
        return Clock(self._state.seconds, processor=self._settings.processor_time is not None)

    @property
    def _tokens(self) -> int:
        return self._state.step * self._tokens_of_a_step

    def _report(self) -> StepReport:
        state = self._state
        here = max(1e-9, self._clock.here())
        share_here = max(1e-9, state.share - self._resumed.share)
        return StepReport(
            step=state.step,
            steps=self._schedule.steps,
            tokens=self._tokens,
            rate=(state.step - self._resumed.step) * self._tokens_of_a_step / here,
            share=state.share,
            seconds_left=here / share_here * (1 - state.share),
            loss=(state.loss_forward + state.loss_backward) / (2 * max(1, state.losses)),
            best=state.best,
        )


def _about(plan: Plan, corpus: Corpus) -> dict[str, Any]:
    """Everything that decides the result, as stored in run.json."""
    return {
        "model": plan.model.model_dump(mode="json"),
        "train": plan.train.model_dump(mode="json"),
        "corpus": corpus.fingerprint(),
        **({"start": plan.start.fingerprint} if plan.start else {}),
        **({"vectors": plan.warm.about()} if plan.warm else {}),
    }


def _warm_start(plan: Plan, warm: WarmStart, corpus: Corpus, run: Run, world: World, progress: TrainProgress) -> Start:
    """Rank 0 trains the encoder (`EncoderFit`); the others read its last checkpoint."""

    def started() -> Start:
        def advance(share: float, figures: str) -> None:
            progress.update(StageReport("fitting the encoder", share, figures))

        return warm_start(warm, plan.model, plan.train.seed, corpus, run, progress.message, advance)

    found: list[Start] = []
    world.on_rank_0(lambda: found.append(started()), long=True)
    return found[0] if found else started()

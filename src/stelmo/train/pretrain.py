"""A corpus → a trained biLM in a run folder. Knows no command line.

One loop: a step; now and then a line of the log, a validation, a checkpoint. Killed at any moment, the same call goes
on from the last checkpoint and, unless the budget is a time, ends in the same bits.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stelmo.config import seconds
from stelmo.corpus.folder import Corpus
from stelmo.corpus.windows import Sentences
from stelmo.errors import OutputError
from stelmo.formats import models
from stelmo.interrupts import stop_asked
from stelmo.store import runs
from stelmo.store.folder import FORMAT
from stelmo.store.runs import Run
from stelmo.store.saved import SavedModel
from stelmo.train import curve, tensorboard
from stelmo.train.batches import Batches, word_ids
from stelmo.train.clock import Clock
from stelmo.train.fit import refuse_misfit
from stelmo.train.learner import Learner, Losses
from stelmo.train.ledger import Best, Ledger
from stelmo.train.presets import Plan
from stelmo.train.schedule import schedule
from stelmo.train.start import Start, sampled_words
from stelmo.train.validation import figures, validate
from stelmo.train.warm_start import WarmStart, warm_start
from stelmo.train.watch import Report, Silence, Watch
from stelmo.train.world import World, join, local_device

# Settings that may change on the way: they do not decide what a run turns out, but for rounding.
FREE = frozenset({"train.threads", "train.device", "train.checkpoint_every", "train.keep"})
SECONDS_BETWEEN_PICTURES = 60.0


class Outcome(NamedTuple):
    finished: bool
    worked: bool  # a run that was finished before has nothing to do
    step: int
    tokens: int
    best: Best | None
    first: bool  # whether this process is the one to speak of it


def pretrain(plan: Plan, corpus: Corpus, to: Path, watch: Watch | None = None, world: World | None = None) -> Outcome:
    """Train until the budget is spent, patience ends or a signal comes; the same call again goes on.

    A plan with a start is validated before the first step, too. A `world` given has been joined already.
    """
    refuse_misfit(plan, corpus)
    with ExitStack() as stack:
        stack.enter_context(_threads(plan.train.threads))
        world = world or stack.enter_context(join(local_device(plan.train.device)))
        run, listener = Run(to), (watch or Silence()) if world.first else Silence()
        world.rows(plan.train.batch)  # refused before anything is written
        world.lead(lambda: stack.enter_context(run.held()))
        world.lead(lambda: run.start(_about(plan, corpus), FREE))
        if plan.warm is not None:
            plan = plan._replace(start=_warm_start(plan, plan.warm, corpus, run, world, listener))
        stop = stack.enter_context(stop_asked())
        return Pretraining(plan, corpus, run, world, listener, stop).run()


class Pretraining:
    def __init__(
        self, plan: Plan, corpus: Corpus, run: Run, world: World, watch: Watch, stop: Callable[[], bool]
    ) -> None:
        self._settings, self._corpus, self._run, self._world = plan.train, corpus, run, world
        self._watch, self._stop = watch, stop
        self._train, self._heldout = Sentences(corpus.train), Sentences(corpus.heldout)
        self._alphabet = plan.start.alphabet if plan.start else None
        ids_of = word_ids(plan.model, corpus.vocabulary, self._alphabet)
        self._batches = Batches(ids_of, corpus.words, corpus.targets_S)
        words = len(corpus.vocabulary)
        self._learner = Learner(plan.model, plan.train, words, self._train, self._batches, world, plan.start)
        self._schedule = schedule(plan.train, self._train.tokens + len(self._train))
        self._ledger = Ledger(processes=world.size, due=plan.start is not None)
        self._events = tensorboard.events(run.path / "tensorboard") if world.first else lambda step, figures: None
        self._tokens_of_a_step = plan.train.batch * plan.train.unroll
        self._clock = Clock()
        self._start = self._ledger  # of this process's part of the run

    def run(self) -> Outcome:
        self._resume()
        self._say_what_is_sampled()
        worked = not self._ledger.finished
        while not self._ledger.finished:
            if self._ledger.due:
                self._validate()
            else:
                stop, save = self._step()
                if stop or save:
                    self._save(needed=stop)
                if stop:
                    break
        return self._outcome(worked)

    def _step(self) -> tuple[bool, bool]:
        """One step, then whether to stop and whether to save: asked here, agreed by all processes."""
        ledger, before = self._ledger, self._ledger.share
        lr = self._schedule.rate(ledger.step, before)
        losses = self._learner.step(ledger.step + 1, lr)
        ledger.step += 1
        forward, backward, stop, save, ledger.seconds = self._agreed(losses)
        ledger.add(forward, backward)
        ledger.share = self._schedule.share(ledger.step, ledger.seconds)
        ledger.due = self._schedule.validates(ledger.step, before, ledger.share)
        self._watch.step(self._report())
        if ledger.step % self._settings.log_every == 0:
            self._log_losses(lr, losses.norm)
        return stop > 0, save > 0

    def _agreed(self, losses: Losses) -> list[float]:
        """Mean losses of all processes, whether any was told to stop, and rank 0's clock."""
        size, first = self._world.size, self._world.first
        figures = torch.tensor(
            [
                losses.forward / size,
                losses.backward / size,
                self._stop(),
                first and self._save_due(),
                first * self._clock.seconds(),
            ],
            dtype=torch.float64,
            device=self._learner.device,
        )
        self._world.sum_(figures)
        return figures.tolist()

    def _save_due(self) -> bool:
        every = self._settings.checkpoint_every
        if isinstance(every, int):
            return self._ledger.step % every == 0
        return self._clock.since_saved() >= seconds(every)

    def _validate(self) -> None:
        settings, ledger = self._settings, self._ledger
        found = validate(
            self._learner.bilm,
            self._learner.softmax,
            self._heldout,
            self._batches,
            rows=settings.batch,
            steps=settings.unroll,
            world=self._world,
            tokens=settings.validate_tokens,
        )
        ledger.due = False
        self._record(figures(found))
        before = replace(ledger)
        if ledger.judge(found) and not self._world.share(self._keep_model("model")):
            ledger.best, ledger.worse = before.best, before.worse
        ended = ledger.share >= 1.0 or ledger.worse >= (settings.patience or math.inf)
        if ended:
            self._finish()
        self._save(needed=ended)

    def _finish(self) -> None:
        """The end of the run, written in full or refused; the checkpoint that says so comes last."""
        ledger = self._ledger
        ledger.finished = True
        if ledger.best is None or ledger.best.step != ledger.step:
            with self._going_on(False):
                self._world.lead(lambda: self._write_model("last"))

    def _save(self, needed: bool) -> None:
        """A checkpoint. Where it is not needed to go on, a full disk is said aloud and the one before stays."""
        self._draw(needed)
        tensors = self._learner.tensors()
        about = {"ledger": replace(self._ledger, processes=self._world.size).to_json()}
        with self._going_on(not needed):
            self._world.lead(lambda: self._run.save(self._ledger.step, tensors, about, self._settings.keep))
        self._clock.saved()

    def _keep_model(self, name: str) -> bool:
        """Whether it could be written, so far as this process is to write it."""
        with self._going_on(True):
            if self._world.first:
                self._write_model(name)
            return True
        return False

    def _write_model(self, name: str) -> None:
        bilm, softmax, words = self._learner.bilm, self._learner.softmax, self._corpus.vocabulary
        saved = SavedModel(bilm, FORMAT, words, read_softmax=lambda: softmax, alphabet=self._alphabet)
        models.write(saved, self._run.path / name, overwrite=True)

    @contextmanager
    def _going_on(self, allowed: bool) -> Iterator[None]:
        """What cannot be written is said; where that is allowed, training goes on."""
        try:
            yield
        except OutputError as problem:
            if not allowed:
                raise OutputError(
                    f"{problem}; make room and repeat the command: it goes on from the last checkpoint"
                ) from problem
            self._watch.say(f"{problem}; training goes on")

    def _log_losses(self, lr: float, norm: float) -> None:
        forward, backward = self._ledger.mean_losses()
        self._record({"loss_forward": forward, "loss_backward": backward, "lr": lr, "norm": norm})

    def _record(self, figures: dict[str, float]) -> None:
        """A line of the log."""
        if not self._world.first:
            return
        step = self._ledger.step
        with self._going_on(True):
            self._run.log.add({"step": step, "tokens": self._tokens, **figures, "seconds": self._ledger.seconds})
            self._events(step, figures)

    def _draw(self, needed: bool) -> None:
        """The curve, at the end and every minute at most: a picture takes longer than a small step."""
        if self._world.first and (needed or self._clock.since_drawn() > SECONDS_BETWEEN_PICTURES):
            self._clock.drawn()
            with self._going_on(True):
                curve.draw(self._run)

    def _resume(self) -> None:
        found = self._world.lead(lambda: self._run.newest(self._watch.say))
        if found is not None:
            about, tensors = runs.read(found)
            self._ledger = Ledger.from_json(about["ledger"])
            self._learner.load(tensors)
            self._say_what_is_resumed()
        self._clock, self._start = Clock(self._ledger.seconds), replace(self._ledger)
        if self._world.first and not self._ledger.finished:
            self._run.log.cut(self._ledger.step)

    def _say_what_is_sampled(self) -> None:
        asked, words = self._settings.negatives, len(self._corpus.vocabulary)
        if asked not in ("all", 0, sampled_words(self._settings, words)):
            self._watch.say(f"{asked} negatives are more than half of the {words} words: taking the full softmax")

    def _say_what_is_resumed(self) -> None:
        before, now = self._ledger.processes, self._world.size
        if not self._ledger.finished:
            self._watch.say(f"going on from step {self._ledger.step:,}")
        if before != now:
            self._watch.say(
                f"{before} processes so far, {now} from here on: the batch is the same, dropout and rounding are not"
            )

    @property
    def _tokens(self) -> int:
        return self._ledger.step * self._tokens_of_a_step

    def _report(self) -> Report:
        ledger = self._ledger
        here = max(1e-9, self._clock.here())
        share_here = max(1e-9, ledger.share - self._start.share)
        return Report(
            step=ledger.step,
            steps=self._schedule.steps,
            tokens=self._tokens,
            rate=(ledger.step - self._start.step) * self._tokens_of_a_step / here,
            share=ledger.share,
            seconds_left=here / share_here * (1 - ledger.share),
            loss=(ledger.loss_forward + ledger.loss_backward) / (2 * max(1, ledger.losses)),
            best=ledger.best,
        )

    def _outcome(self, worked: bool) -> Outcome:
        return Outcome(
            self._ledger.finished, worked, self._ledger.step, self._tokens, self._ledger.best, self._world.first
        )


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _about(plan: Plan, corpus: Corpus) -> dict[str, Any]:
    """What decides the run, as run.json keeps it."""
    return {
        "model": plan.model.model_dump(mode="json"),
        "train": plan.train.model_dump(mode="json"),
        "corpus": corpus.fingerprint(),
        **({"start": plan.start.fingerprint} if plan.start else {}),
        **({"vectors": plan.warm.about()} if plan.warm else {}),
    }


def _warm_start(plan: Plan, warm: WarmStart, corpus: Corpus, run: Run, world: World, watch: Watch) -> Start | None:
    """Rank 0 gives the spelling lesson; the others read its last checkpoint. A run that has begun needs neither."""
    if world.lead(lambda: run.newest(watch.say)) is not None:
        return None

    def started() -> Start:
        def advance(share: float, figures: str) -> None:
            watch.stage("learning to spell", share, figures)

        return warm_start(warm, plan.model, plan.train.seed, corpus, run, watch.say, advance)

    found: list[Start] = []
    world.lead(lambda: found.append(started()))
    return found[0] if found else started()

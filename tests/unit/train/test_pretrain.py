"""The loop: what it learns, what it keeps, where it goes on and what it refuses. Real processes are in tests/system."""

import dataclasses
import json
import time
from pathlib import Path
from typing import NamedTuple

import corpora
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import stelmo
from stelmo.corpus import folder as shards
from stelmo.corpus.windows import Sentences
from stelmo.engine.plain import warm_state
from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.formats import models
from stelmo.lm.perplexity import Perplexity, perplexity
from stelmo.model.bilm import BiLM
from stelmo.store.runs import Run, read_settings
from stelmo.text.ids import word_ids
from stelmo.train.learner import Learner, counted_start, random_softmax
from stelmo.train.presets import plan
from stelmo.train.pretrain import Outcome, pretrain
from stelmo.train.world import Distributed

SMALL = ("batch=8", "unroll=6", "lstm.cells=12", "validate_every=15", "log_every=7")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = corpora.make(tmp_path_factory.mktemp("data") / "corpus", corpora.sentences(200))
    return shards.read(folder)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    folder = corpora.make(tmp_path_factory.mktemp("four") / "corpus", list(corpora.FOUR), heldout=0)
    return corpora.validated_on_itself(folder)


def settings(*words, budget="tokens=1920", vocabulary=None):
    """40 steps."""
    return plan("tiny", assignments=[*SMALL, budget, *words], vocabulary=vocabulary)


class Finished(NamedTuple):
    path: Path
    outcome: Outcome


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A run that nothing interrupted; how often it saves does not matter. Tests only read it."""
    path = tmp_path_factory.mktemp("whole") / "run"
    return Finished(path, pretrain(settings(), corpus, path))


class KilledError(Exception):
    pass


class Witness:
    """Remembers what is said; ends the run at a step, as a kill would: without a word to it."""

    def __init__(self, last=None):
        self.last, self.said, self.reports = last, [], []

    def update(self, report):
        self.reports.append(report)
        if report.step == self.last:
            raise KilledError

    def message(self, message):
        self.said.append(message)


def killed(plan_, corpus, run, step):
    with pytest.raises(KilledError):
        pretrain(plan_, corpus, run, Witness(step))


def contents(run):
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("[ml]*/*"))}


def entries(run):
    lines = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in lines]


@pytest.mark.long
@pytest.mark.parametrize("negatives", ["all", 8])
def test_four_sentences_are_learnt_by_heart(negatives, four, tmp_path):
    words = ["batch=2", "unroll=8", "tokens=6400", "lr=0.01", "dropout=0", f"negatives={negatives}"]
    best = pretrain(plan("tiny", assignments=words), four, tmp_path / "run").best
    assert best.forward < 2
    assert best.backward < 2


VARIANTS = {
    "full softmax": [],
    "sampled softmax": ["negatives=16"],
    "adagrad": ["negatives=16", "optimizer=adagrad", "lr=0.2", "window_loss=true"],
    "adamw": ["negatives=16", "optimizer=adamw"],
    "in parts": ["accumulate=2"],
    "word ids": ["input.kind=words"],
    "averaged": ["average=0.9"],
}


@pytest.mark.parametrize("words", VARIANTS.values(), ids=VARIANTS)
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(words, corpus, tmp_path):
    chosen = settings("checkpoint_every=4", *words, budget="tokens=1152", vocabulary=len(corpus.vocabulary))
    pretrain(chosen, corpus, tmp_path / "whole")
    for step in (3, 18):  # before the first checkpoint; after a validation
        killed(chosen, corpus, tmp_path / "killed", step)
    assert pretrain(chosen, corpus, tmp_path / "killed").finished
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert entries(tmp_path / "killed") == entries(tmp_path / "whole")


def test_a_run_resumes_on_the_same_text_prepared_by_a_version_that_recorded_less(whole, corpus, tmp_path):
    chosen = settings("checkpoint_every=4")
    older = dataclasses.replace(corpus, manifest=corpus.manifest.model_copy(update={"by_input": None}))
    killed(chosen, older, tmp_path / "killed", 10)
    pretrain(chosen, corpus, tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(whole.path)


def test_killed_between_validation_and_checkpoint_it_repeats_the_validation(whole, corpus, tmp_path, monkeypatch):
    chosen = settings("checkpoint_every=5")

    def kill(*arguments, **options):
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr("stelmo.store.runs.Run.save", kill)
        pretrain(settings("checkpoint_every=1000"), corpus, tmp_path / "killed")
    assert (tmp_path / "killed" / "model").is_dir()
    pretrain(chosen, corpus, tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(whole.path)


def test_a_validation_that_is_repeated_is_logged_once(whole, corpus, tmp_path, monkeypatch):
    chosen, save, saved = settings("checkpoint_every=15"), Run.save, []

    def killed_after_the_validation(self, step, *arguments):
        saved.append(step)
        if saved == [15, 15]:
            raise KilledError
        return save(self, step, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(Run, "save", killed_after_the_validation)
        pretrain(chosen, corpus, tmp_path / "killed")
    pretrain(chosen, corpus, tmp_path / "killed")
    assert entries(tmp_path / "killed") == entries(whole.path)


def test_without_an_undamaged_checkpoint_a_run_begins_again_to_the_same_bytes(whole, corpus, tmp_path):
    chosen, witness = settings("checkpoint_every=4"), Witness()
    killed(chosen, corpus, tmp_path / "run", 10)
    for path in Run(tmp_path / "run").checkpoints():
        path.write_bytes(path.read_bytes()[:-5])
    pretrain(chosen, corpus, tmp_path / "run", witness)
    assert len(witness.said) == 2
    assert contents(tmp_path / "run") == contents(whole.path)


def test_a_damaged_checkpoint_costs_its_steps_but_no_bits(whole, corpus, tmp_path):
    chosen, witness = settings("checkpoint_every=5"), Witness()
    killed(chosen, corpus, tmp_path / "run", 33)
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-100])
    pretrain(chosen, corpus, tmp_path / "run", witness)
    assert "going back to the previous checkpoint" in witness.said[0]
    assert contents(tmp_path / "run") == contents(whole.path)


def test_biases_start_from_counts_and_everything_else_at_random(corpus):
    found = counted_start(settings().model, 0, corpus)
    words = [word for types in Sentences(corpus.train) for word in corpus.words.words(types)]
    total = len(words) + 2 * corpus.manifest.train.sentences + len(corpus.vocabulary)
    number = corpus.vocabulary.id("w3")
    assert found.softmax.bias[number].item() == pytest.approx(np.log((words.count("w3") + 1) / total))
    assert torch.equal(found.softmax.weight, random_softmax(len(corpus.vocabulary), settings().model, 0).weight)
    plain = BiLM(settings().model).reset(0).state_dict()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in found.bilm.state_dict().items())


def test_counted_biases_lower_the_first_losses(corpus, tmp_path):
    for name in ("true", "false"):
        pretrain(settings(f"count_biases={name}", "log_every=1", budget="tokens=48"), corpus, tmp_path / name)
    counted, zero = (entries(tmp_path / name)[0]["loss_forward"] for name in ("true", "false"))
    assert counted < zero - 0.1


def test_a_finished_run_is_left_alone(whole, corpus):
    again = pretrain(settings(), corpus, whole.path)
    assert (whole.outcome.worked, again.worked) == (True, False)
    assert again[2:] == whole.outcome[2:]


@pytest.mark.long
def test_parts_of_a_batch_add_up_to_the_batch(corpus, tmp_path):
    for parts in (1, 4):
        words = (f"accumulate={parts}", "precision=float64", "dropout=0", "negatives=16")
        pretrain(settings(*words), corpus, tmp_path / str(parts))
    one, four = (models.read(tmp_path / parts / "model").bilm.state_dict() for parts in "14")
    for name in one:
        np.testing.assert_allclose(four[name], one[name], atol=1e-10)


def perplexities(monkeypatch, *values):
    left = list(values)
    monkeypatch.setattr("stelmo.train.pretrain.validate", lambda *a, **k: Perplexity(*[left.pop(0)] * 2, 9))


def test_the_best_model_is_kept_and_the_last_one_beside_it(corpus, tmp_path, monkeypatch):
    perplexities(monkeypatch, 5.0, 3.0, 4.0)
    assert pretrain(settings("decay=none"), corpus, tmp_path / "run").best.step == 30
    perplexities(monkeypatch, 5.0, 3.0)
    pretrain(settings("decay=none", budget="tokens=1440"), corpus, tmp_path / "shorter")
    at_30 = contents(tmp_path / "shorter")
    found = contents(tmp_path / "run")
    assert found["model/model.safetensors"] == at_30["model/model.safetensors"]
    assert found["last/model.safetensors"] != found["model/model.safetensors"]
    assert not (tmp_path / "shorter" / "last").exists()


def test_an_earlier_end_is_not_kept_beside_a_later_one_that_is_the_best(corpus, tmp_path, monkeypatch):
    perplexities(monkeypatch, 3.0, 4.0)
    pretrain(settings("decay=none", budget="tokens=1440"), corpus, tmp_path / "run")
    assert (tmp_path / "run" / "last").is_dir()
    perplexities(monkeypatch, 2.0)
    pretrain(settings("decay=none"), corpus, tmp_path / "run")
    assert not (tmp_path / "run" / "last").exists()


def test_patience_ends_a_run_early(corpus, tmp_path, monkeypatch):
    perplexities(monkeypatch, 5.0, 3.0, 4.0, 4.0, 2.0)
    outcome = pretrain(settings("validate_every=5", "patience=2"), corpus, tmp_path / "run")
    assert (outcome.finished, outcome.step, outcome.best.step) == (True, 20, 10)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint(corpus, tmp_path):
    chosen = settings("lr=1e30", "clip=none", "checkpoint_every=1", "decay=none", "warmup=3")
    with pytest.raises(ConfigError, match=r"step \d+: the (loss|gradient) is not a number .* lower lr"):
        pretrain(chosen, corpus, tmp_path / "run")
    assert list((tmp_path / "run" / "checkpoints").iterdir())


def test_a_loss_that_rises_far_stops_the_run_and_keeps_the_last_checkpoint(corpus, tmp_path, monkeypatch):
    step = Learner.step

    def rising(self, number, lr):
        losses = step(self, number, lr)
        return losses._replace(forward=1.0 if number <= 21 else 9.0)

    monkeypatch.setattr(Learner, "step", rising)
    with pytest.raises(ConfigError, match=r"step 28: the loss rose from .* so training diverges"):
        pretrain(settings("checkpoint_every=25"), corpus, tmp_path / "run")
    assert max(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == "000000025.safetensors"
    assert (tmp_path / "run" / "model").is_dir()


def test_a_time_budget_ends_by_the_clock(corpus, tmp_path):
    witness = Witness()
    outcome = pretrain(settings("decay=linear", "log_every=1", budget="time=0.5s"), corpus, tmp_path / "run", witness)
    assert outcome.finished
    assert witness.reports[-1].share == 1.0
    assert [entry["lr"] for entry in entries(tmp_path / "run") if "lr" in entry][-1] < 0.003


def test_reports_tell_rate_time_left_and_the_best_validation(corpus, tmp_path):
    witness = Witness()
    pretrain(settings(), corpus, tmp_path / "run", witness)
    report = witness.reports[29]
    assert (report.step, report.steps, report.tokens) == (30, 40, 30 * 48)
    assert report.rate > 0
    assert report.seconds_left > 0
    assert report.best.step == 15
    assert witness.reports[-1].seconds_left == 0


@pytest.mark.pictures
def test_a_run_leaves_its_log_and_its_curve(corpus, tmp_path):
    pretrain(settings(), corpus, tmp_path / "run")
    assert [entry["step"] for entry in entries(tmp_path / "run")] == [7, 14, 15, 21, 28, 30, 35, 40]
    assert b"held-out, backward" in (tmp_path / "run" / "curve.svg").read_bytes()


def test_a_trained_model_survives_the_published_layout(whole, tmp_path):
    models.write(models.read(whole.path / "model"), tmp_path / "hdf5", "bilm")
    sentences = [line.split() for line in corpora.sentences(5, seed=9)]
    ours, theirs = (stelmo.load(path, state="fresh") for path in (whole.path / "model", tmp_path / "hdf5"))
    for one, other in zip(ours.layers(sentences), theirs.layers(sentences), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(ours.log_probs(sentences), theirs.log_probs(sentences), strict=True):
        np.testing.assert_array_equal(one.forward, other.forward)
        np.testing.assert_array_equal(one.backward, other.backward)


def test_a_trained_model_brings_a_warm_state_of_its_own_text(whole, corpus):
    model = stelmo.load(whole.path / "model")
    assert model.settings.state == "warm"
    count = min(64, len(Sentences(corpus.train)))
    text = [corpus.words.words(Sentences(corpus.train)[number]) for number in range(count)]
    expected = warm_state(model.bilm, word_ids(model.config, corpus.vocabulary), text)
    np.testing.assert_allclose(model.start_state("warm").h, expected.h, atol=1e-6)
    np.testing.assert_allclose(model.start_state("warm").c, expected.c, atol=1e-6)


def test_long_sentences_are_cut_for_the_warm_state(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("stelmo.train.pretrain.WARM_UP_WORDS", 2)
    pretrain(settings(), corpus, tmp_path / "run")
    model = stelmo.load(tmp_path / "run" / "model")
    sentences = Sentences(corpus.train)
    text = [corpus.words.words(sentences[number])[:2] for number in range(min(64, len(sentences)))]
    expected = warm_state(model.bilm, word_ids(model.config, corpus.vocabulary), text)
    np.testing.assert_allclose(model.start_state("warm").h, expected.h, atol=1e-6)


def mean_of_layer_0(model, corpus):
    text = Sentences(corpus.train)
    layers = model.layers([corpus.words.words(text[number]) for number in range(len(text))])
    return np.concatenate([of_sentence[0] for of_sentence in layers]).mean(0)


def test_layer_0_of_a_trained_model_has_no_mean_over_its_text_and_the_rest_is_as_trained(whole, corpus):
    model = stelmo.load(whole.path / "last", state="fresh")
    np.testing.assert_allclose(mean_of_layer_0(model, corpus), 0, atol=1e-5)
    trained = model.saved().bilm
    tensors = load_file(max(whole.path.glob("checkpoints/*.safetensors")))
    weights = {name[5:]: tensor for name, tensor in tensors.items() if name.startswith("bilm.")}
    assert torch.equal(trained.lstm_forward[0].kernel, weights["lstm_forward.0.kernel"])
    assert not torch.equal(trained.encoder.projection_bias, weights["encoder.projection_bias"])
    sentences = [line.split() for line in corpora.sentences(5, seed=9)]
    centred = model.layers(sentences)
    model.bilm.load_state_dict(weights)
    for one, other in zip(centred, model.layers(sentences), strict=True):
        np.testing.assert_allclose(one[1:], other[1:], atol=1e-5)


def checkpoint(run, step):
    return load_file(run / "checkpoints" / f"{step:09d}.safetensors")


def test_the_average_of_every_tenth_step_is_kept_and_training_is_the_same(corpus, tmp_path):
    kept = "checkpoint_every=10", "keep=10"
    pretrain(settings(*kept), corpus, tmp_path / "plain")
    pretrain(settings(*kept, "average=0.9"), corpus, tmp_path / "averaged")
    averaged = tmp_path / "averaged"
    name = "bilm.lstm_forward.0.kernel"
    chosen = settings()
    mean = BiLM(chosen.model).reset(chosen.train.seed).lstm_forward[0].kernel.detach()
    for step in (10, 20, 30, 40):
        found = checkpoint(averaged, step)
        assert torch.equal(found[name], checkpoint(tmp_path / "plain", step)[name])
        decay = min(0.9, (1 + step) / (10 + step)) ** 10
        mean = decay * mean + (1 - decay) * found[name]
        torch.testing.assert_close(found[f"average.{name}"], mean)
    last = averaged / "last" if (averaged / "last").is_dir() else averaged / "model"
    torch.testing.assert_close(load_file(last / "model.safetensors")["lstm_forward.0.kernel"], mean)


def test_before_the_first_averaged_step_the_last_weights_are_kept(corpus, tmp_path):
    short = "validate_every=3", "count_biases=false"
    for name, words in {"plain": short, "averaged": (*short, "average=0.9")}.items():
        assert pretrain(settings(*words, budget="tokens=384"), corpus, tmp_path / name).step == 8
    assert entries(tmp_path / "averaged") == entries(tmp_path / "plain")
    assert contents(tmp_path / "averaged") == contents(tmp_path / "plain")


def test_a_run_can_be_averaged_from_where_it_is_resumed(corpus, tmp_path):
    killed(settings("checkpoint_every=10"), corpus, tmp_path / "run", 24)
    assert pretrain(settings("checkpoint_every=10", "average=0.9"), corpus, tmp_path / "run").finished
    found, name = checkpoint(tmp_path / "run", 40), "softmax.weight"
    assert not torch.equal(found[f"average.{name}"], found[name])


def rates(run):
    return {entry["step"]: entry["lr"] for entry in Run(run).log.entries() if "lr" in entry}


def test_a_longer_budget_goes_on_from_the_end(corpus, tmp_path):
    kept, witness = ("checkpoint_every=10", "decay=linear", "log_every=10"), Witness()
    half, whole = settings(*kept, budget="tokens=960"), settings(*kept)
    pretrain(half, corpus, tmp_path / "run")
    first = rates(tmp_path / "run")
    found = pretrain(whole, corpus, tmp_path / "run", witness)
    assert (found.finished, found.worked, found.step) == (True, True, 40)
    assert "the budget has changed: 50.0% of it is spent, 100.0% of the one before" in witness.said[0]
    expected = {step: whole.train.lr * (1 - (step - 1) / 40) for step in (30, 40)}
    assert rates(tmp_path / "run") == pytest.approx(first | expected)
    assert read_settings(tmp_path / "run" / "run.json")["train"]["tokens"] == whole.train.tokens
    again = pretrain(whole, corpus, tmp_path / "run")
    assert (again.finished, again.worked) == (True, False)


def test_a_budget_that_is_already_spent_ends_the_run_where_it_is(corpus, tmp_path):
    chosen = settings("checkpoint_every=10")
    killed(chosen, corpus, tmp_path / "run", 34)
    found = pretrain(settings("checkpoint_every=10", budget="tokens=960"), corpus, tmp_path / "run")
    assert (found.finished, found.step) == (True, 30)
    assert [entry["step"] for entry in entries(tmp_path / "run") if "perplexity" in entry] == [15, 30]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_learns_nearly_the_same(precision, corpus, tmp_path):
    """Emulated: a CPU is refused by the settings, and slow, but computes it."""
    plain = settings("negatives=16")
    mixed = plain._replace(train=plain.train.model_copy(update={"precision": precision}))
    found, expected = (pretrain(chosen, corpus, tmp_path / name).best for chosen, name in ((mixed, "a"), (plain, "b")))
    assert found.perplexity == pytest.approx(expected.perplexity, rel=0.02)
    assert found.perplexity != expected.perplexity


def test_more_negatives_than_half_the_words_are_the_full_softmax_and_it_is_said(corpus, tmp_path):
    witness = Witness()
    pretrain(settings("negatives=5000", budget="tokens=720"), corpus, tmp_path / "run", witness)
    pretrain(settings("negatives=all", budget="tokens=720"), corpus, tmp_path / "full")
    assert "using the full softmax" in witness.said[0]
    assert contents(tmp_path / "run") == contents(tmp_path / "full")


def test_a_disk_that_is_full_for_a_while_costs_only_a_checkpoint(corpus, tmp_path, monkeypatch):
    save, witness = Run.save, Witness()

    def full_once(self, step, *rest, **more):
        if step == 10:
            raise OutputError("the disk is full")
        save(self, step, *rest, **more)

    monkeypatch.setattr(Run, "save", full_once)
    assert pretrain(settings("checkpoint_every=5"), corpus, tmp_path / "run", witness).finished
    assert witness.said == ["the disk is full; training continues"]


def test_a_model_that_could_not_be_kept_does_not_count_as_the_best(corpus, tmp_path, monkeypatch):
    perplexities(monkeypatch, 3.0, 4.0, 5.0)
    write, left = models.write, [OutputError("the disk is full")]

    def full_once(*arguments, **options):
        if left:
            raise left.pop()
        write(*arguments, **options)

    monkeypatch.setattr("stelmo.train.pretrain.models.write", full_once)
    assert pretrain(settings(), corpus, tmp_path / "run", Witness()).best.step == 30
    assert (tmp_path / "run" / "model").is_dir()


def test_a_run_of_other_settings_is_refused_by_name(whole, corpus):
    with pytest.raises(OutputError, match=r"model.lstm.cells is 12 there, 13 here; train.lr is 0.003 there, 0.5 here"):
        pretrain(settings("lr=0.5", "lstm.cells=13"), corpus, whole.path)


def test_parts_that_do_not_divide_a_batch_are_refused_before_anything_is_written(corpus, tmp_path):
    with pytest.raises(ConfigError, match="accumulate: the 4 rows of a process cannot be cut into 8 equal parts"):
        pretrain(settings("accumulate=8"), corpus, tmp_path / "run", world=Distributed(0, 2))
    assert not (tmp_path / "run").exists()


def test_a_device_without_double_precision_is_refused(corpus, tmp_path):
    with pytest.raises(ConfigError, match="device: mps has no float64"):
        pretrain(settings("device=mps"), corpus, tmp_path / "run")


def test_a_corpus_smaller_than_a_batch_is_refused(four, tmp_path):
    with pytest.raises(DataError, match=r"4 training sentences for a batch of 8 rows.*set batch to 4 or less"):
        pretrain(settings(), four, tmp_path / "run")


def test_a_corpus_without_held_out_sentences_is_refused(corpus, tmp_path):
    with pytest.raises(DataError, match="no held-out sentences to validate on"):
        pretrain(settings(), dataclasses.replace(corpus, heldout=()), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_table_of_another_size_than_the_vocabulary_is_refused(corpus, tmp_path):
    with pytest.raises(ConfigError, match=r"input.words is 5, but .* has a vocabulary of \d+; leave it out"):
        pretrain(settings("input.kind=words", "input.words=5"), corpus, tmp_path / "run")


def test_a_model_of_code_points_cannot_be_begun(corpus, tmp_path):
    words = ("input.kind=codepoints", "input.word_table.rows=5", "input.word_table.width=3")
    with pytest.raises(ConfigError, match="use chars or words"):
        pretrain(settings(*words), corpus, tmp_path / "run")


ENCODERS = {
    "transformer": ["encoder.kind=transformer", "encoder.width=8", "encoder.hidden=12", "encoder.layers=2"],
    "gated cnn": ["encoder.kind=gated-cnn", "encoder.width=8", "encoder.blocks=[[[3,8]],[[2,8,2]]]"],
}


def end_to_end(words):
    own = ["batch=4", "unroll=20", "tokens=1600", "validate_every=8", "checkpoint_every=4"]
    return plan("tiny", assignments=[*words, *own])


@pytest.mark.parametrize("words", ENCODERS.values(), ids=ENCODERS)
def test_encoders_without_a_state_resume_to_the_same_bytes(words, corpus, tmp_path):
    chosen = end_to_end([*words, "negatives=16"])
    pretrain(chosen, corpus, tmp_path / "whole")
    for step in (3, 14):
        killed(chosen, corpus, tmp_path / "killed", step)
    assert pretrain(chosen, corpus, tmp_path / "killed").finished
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert entries(tmp_path / "killed") == entries(tmp_path / "whole")


@pytest.mark.parametrize("words", ENCODERS.values(), ids=ENCODERS)
def test_encoders_without_a_state_learn_and_are_loaded_fresh(words, corpus, tmp_path):
    chosen = end_to_end([*words, "lr=0.01", "tokens=4800"])
    best = pretrain(chosen, corpus, tmp_path / "run").best
    first = next(entry["perplexity"] for entry in entries(tmp_path / "run") if "perplexity" in entry)
    assert best.perplexity < first
    model = stelmo.load(tmp_path / "run")
    assert model.settings.state == "fresh"
    assert model.saved().start is None
    heldout = Sentences(corpus.heldout)
    text = [corpus.words.words(heldout[number]) for number in range(len(heldout))]
    assert perplexity(model.log_probs(text)).combined == pytest.approx(best.perplexity, rel=1e-4)


def test_muon_is_for_lstms_and_a_refused_run_leaves_no_folder(corpus, tmp_path):
    with pytest.raises(ConfigError, match="muon is for the matrices of LSTMs"):
        pretrain(end_to_end([*ENCODERS["transformer"], "optimizer=muon"]), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_budget_of_processor_time_does_not_count_waiting(corpus, tmp_path, monkeypatch):
    """A step waits ten times as long as it computes; resumed, the run keeps what it has spent."""
    step = Learner.step

    def slow(self, *given):
        time.sleep(0.02)
        return step(self, *given)

    monkeypatch.setattr(Learner, "step", slow)
    started, processor = time.monotonic(), time.process_time()
    assert pretrain(settings(budget="processor_time=0.2s"), corpus, tmp_path / "run").finished
    spent = Run(tmp_path / "run").log.entries()[-1]["seconds"]
    assert 0.2 <= spent <= time.process_time() - processor
    assert time.monotonic() - started > spent


def test_a_budget_of_processor_time_may_be_extended_as_any_other(corpus, tmp_path):
    assert pretrain(settings(budget="processor_time=0.1s"), corpus, tmp_path / "run").finished
    witness = Witness()
    assert pretrain(settings(budget="processor_time=0.3s"), corpus, tmp_path / "run", witness).worked
    assert "the budget has changed" in witness.said[0]
    assert Run(tmp_path / "run").log.entries()[-1]["seconds"] >= 0.3

"""How long a run is, and how fast it learns at each point; TensorBoard's files where it is installed."""

import sys
import types
from itertools import pairwise

import pytest

from stelmo.settings import TrainSettings
from stelmo.train import run_state
from stelmo.train.run_state import VALIDATIONS, schedule


def of(tokens_of_an_epoch=1000, **settings):
    return schedule(TrainSettings(**({"batch": 4, "unroll": 5, "lr": 1.0} | settings)), tokens_of_an_epoch)


def rates(plan):
    return [plan.rate(step, plan.share(step, 0.0)) for step in range(plan.steps)]


@pytest.mark.parametrize(
    ("budget", "steps"), [({"epochs": 1}, 50), ({"epochs": 2.5}, 125), ({"tokens": 81}, 5), ({"tokens": 1}, 1)]
)
def test_a_budget_is_a_number_of_steps(budget, steps):
    assert of(**budget).steps == steps


def test_without_warmup_and_decay_the_rate_stays():
    assert set(rates(of(epochs=1))) == {1.0}


@pytest.mark.parametrize("warmup", [10, 0.2])
def test_warmup_rises_to_the_height_in_its_steps_or_share(warmup):
    found = rates(of(epochs=1, warmup=warmup))
    assert found[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert set(found[10:]) == {1.0}


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_decay_falls_towards_zero_at_the_end(decay):
    found = rates(of(epochs=1, decay=decay))
    assert found[0] == 1.0
    assert all(after < before for before, after in pairwise(found))
    assert 0 < found[-1] < 0.05
    assert found[25] == pytest.approx(0.5)


@pytest.mark.parametrize("budget", ["time", "processor_time"])
def test_under_a_time_budget_the_schedule_follows_the_clock(budget):
    plan = of(**{budget: "10m"}, decay="linear", warmup=0.1)
    assert plan.steps is None
    assert plan.share(7, 150.0) == 0.25
    assert plan.rate(7, 0.25) == pytest.approx(0.75)
    assert plan.share(8, 700.0) == 1.0


def validations(plan):
    shares = [plan.share(step, 0.0) for step in range(plan.steps + 1)]
    return [step for step in range(1, plan.steps + 1) if plan.validates(step, shares[step - 1], shares[step])]


def test_a_run_validates_twenty_times_and_at_its_end():
    found = validations(of(epochs=3))
    assert len(found) == VALIDATIONS
    assert found[-1] == 150


def test_it_validates_after_so_many_steps_and_at_its_end():
    assert validations(of(epochs=1, validate_every=20)) == [20, 40, 50]


# Curves


class Writer:
    """In place of TensorBoard's writer: keeps what it is given in a file, once it is flushed."""

    def __init__(self, folder):
        self._path, self._lines = f"{folder}/events", []

    def add_scalar(self, name, value, step):
        self._lines.append(f"{step} {name} {value}")

    def flush(self):
        with open(self._path, "w") as file:  # noqa: PTH123
            file.write("\n".join(self._lines))


def test_with_tensorboard_every_figure_is_on_disk_after_each_call(monkeypatch, tmp_path):
    monkeypatch.setattr(run_state, "find_spec", lambda name: object())
    module = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    write = run_state.tensorboard_writer(tmp_path)
    write(7, {"loss": 1.5})
    assert (tmp_path / "events").read_text() == "7 loss 1.5"
    write(8, {"loss": 1.25, "lr": 0.1})
    assert (tmp_path / "events").read_text() == "7 loss 1.5\n8 loss 1.25\n8 lr 0.1"


def test_without_tensorboard_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(run_state, "find_spec", lambda name: None)
    run_state.tensorboard_writer(tmp_path / "t")(7, {"loss": 1.5})
    assert not (tmp_path / "t").exists()

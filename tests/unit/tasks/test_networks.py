"""What holds for every task's network, on eight examples of its own: it learns them, pads right, reads what it says."""

import pytest
import torch
from torch.testing import assert_close
from unit.tasks.coref import eight as coref
from unit.tasks.ner import eight as ner
from unit.tasks.snli import eight as snli
from unit.tasks.squad import eight as squad
from unit.tasks.srl import eight as srl
from unit.tasks.sst5 import eight as sst5

from stelmo.settings import TaskSettings
from stelmo.tasks.network import TASKS, configure

MADE = {"squad": squad, "snli": snli, "srl": srl, "coref": coref, "ner": ner, "sst5": sst5}
every_task = pytest.mark.parametrize("name", list(TASKS))


# Coreference takes long; in the fast tests, test_experiment.py trains its network on fewer examples.
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n == "coref" else ()) for n in TASKS])
def test_eight_examples_are_learned_by_heart(name):
    net, examples, task = MADE[name].net(), MADE[name].EIGHT, TASKS[name]
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        net.loss(examples).backward()
        optimizer.step()
    assert task.headline(task.score(net.eval().predict(examples), examples)) == 100.0


@every_task
@pytest.mark.parametrize("placement", ["none", "input", "output", "both"])
def test_the_gradient_reaches_every_parameter(name, placement):
    net = MADE[name].net(placement)
    net.loss(MADE[name].EIGHT).backward()
    learned = {name: parameter for name, parameter in net.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()} == set()


@every_task
def test_company_and_padding_change_neither_loss_nor_answers(name):
    net, examples = MADE[name].net("both").double().eval(), MADE[name].EIGHT
    assert net.predict(examples) == [net.predict([one])[0] for one in examples]
    weights = [len(one.words) if name == "srl" else 1 for one in examples]  # its loss is a mean over words
    alone = sum(weight * net.loss([one]) for weight, one in zip(weights, examples, strict=True)) / sum(weights)
    assert_close(net.loss(examples), alone)


@every_task
@pytest.mark.parametrize("size", ["cpu", "workstation", "paper"])
def test_every_size_trains_and_every_recipe_is_one(name, size):
    made, model = MADE[name], TASKS[name].model
    assert made.net("both", model.SIZES[size]).train().loss(made.EIGHT[:3]).isfinite()
    assert TaskSettings(**model.RECIPES[size]).batch >= 1


@every_task
def test_words_are_asked_for_as_they_are_precomputed(name):
    read = set()
    net = MADE[name].net()
    net.words.register_forward_pre_hook(lambda _, given: read.update(given[0]))
    net.predict(MADE[name].EIGHT)
    assert read == {sentence for one in MADE[name].EIGHT for sentence in TASKS[name].model.sentences(one)}


def test_elmo_dropout_is_the_papers_or_smaller_at_workstation_and_what_the_user_sets():
    assert [configure("ner", size).elmo.dropout for size in ("paper", "cpu", "workstation")] == [0.5, 0.5, 0.2]
    assert configure("srl", "workstation").elmo.dropout == 0.1
    assert configure("ner", "workstation", {"dropout": 0.4}).elmo.dropout == 0.4

"""The optimisers: rows of the softmax against torch's own on the whole table, and their memory."""

import pytest
import tiny
import torch

from stelmo.config import TrainSettings
from stelmo.model.softmax import Softmax
from stelmo.ops.losses import RowGradient
from stelmo.train.optimizers import Optimizer

V, P, LR = 12, 3, 0.05
DENSE = {
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, LR, initial_accumulator_value=1.0, eps=0.0),
    "adam": lambda parameters: torch.optim.Adam(parameters, LR),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, LR, weight_decay=0.1),
}


def head(seed=0):
    softmax = Softmax(V, P).double()
    softmax.reset(torch.Generator().manual_seed(seed))
    return softmax


def gradient(seed, rows=None):
    generator = torch.Generator().manual_seed(seed)
    rows_n = torch.arange(V) if rows is None else torch.tensor(rows)
    weight_nP, bias_n = (
        torch.randn(shape, generator=generator).double() for shape in ((len(rows_n), P), (len(rows_n),))
    )
    return RowGradient(rows_n, weight_nP, bias_n)


def optimizer(name, softmax, bilm=None):
    settings = TrainSettings(optimizer=name, epochs=1, weight_decay=0.1)
    return Optimizer((bilm or tiny.bilm(dtype=torch.float64)).requires_grad_(True), softmax, settings)


@pytest.mark.parametrize("name", DENSE)
def test_where_every_row_has_a_gradient_it_is_torch_s_optimiser(name):
    ours, theirs = head(), head()
    stepping, expected = optimizer(name, ours), DENSE[name](theirs.parameters())
    for number in range(1, 6):
        found = gradient(number)
        theirs.weight.grad, theirs.bias.grad = found.weight_nP, found.bias_n
        stepping.step(found, LR, number)
        expected.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.bias, theirs.bias, rtol=1e-12, atol=1e-12)


def test_adagrad_by_rows_is_adagrad_whose_other_gradients_are_zero():
    ours, theirs = head(), head()
    stepping, expected = optimizer("adagrad", ours), DENSE["adagrad"](theirs.parameters())
    for number, rows in enumerate(([0, 3, 5], [3, 4], [0, 11]), 1):
        found = gradient(number, rows)
        theirs.weight.grad, theirs.bias.grad = torch.zeros_like(theirs.weight), torch.zeros_like(theirs.bias)
        theirs.weight.grad[rows], theirs.bias.grad[rows] = found.weight_nP, found.bias_n
        stepping.step(found, LR, number)
        expected.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)


@pytest.mark.parametrize("name", DENSE)
def test_rows_without_a_gradient_stay_as_they_are(name):
    softmax = head()
    optimizer(name, softmax).step(gradient(1, [2, 7]), LR, 1)
    changed = (softmax.weight != head().weight).any(1)
    assert changed.nonzero()[:, 0].tolist() == [2, 7]


@pytest.mark.parametrize("name", DENSE)
def test_what_it_remembers_can_be_put_into_another(name):
    def trained(first, last, memory=None, start=None):
        softmax, bilm = head(), tiny.bilm(dtype=torch.float64)
        if start is not None:
            softmax.load_state_dict(start[0])
            bilm.load_state_dict(start[1])
        stepping = optimizer(name, softmax, bilm)
        if memory is not None:
            stepping.load(memory)
        for number in range(first, last):
            for parameter in bilm.parameters():
                parameter.grad = torch.full_like(parameter, 0.1 * number)
            stepping.step(gradient(number, [number, number + 1]), LR, number)
        return softmax.state_dict(), bilm.state_dict(), stepping.tensors()

    *start, memory = trained(1, 4)
    resumed, whole = trained(4, 7, memory, start), trained(1, 7)
    for found, expected in zip(resumed, whole, strict=True):
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in expected)

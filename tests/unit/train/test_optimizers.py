"""The optimisers: rows of the softmax against torch's own on the whole table, and their memory."""

import pytest
import tiny
import torch

from stelmo.model.bilm import Softmax
from stelmo.ops.losses import RowGradient
from stelmo.settings import TrainSettings
from stelmo.train.optimizers import MOMENTUM, MUON_SIZE, Optimizer, is_lstm_matrix, orthogonalised

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


def test_a_resumed_state_is_where_the_parameters_are():
    stepping = optimizer("adagrad", head())
    for parameter in tiny_parameters(stepping):
        parameter.grad = torch.ones_like(parameter)
    stepping.step(gradient(1), LR, 1)
    elsewhere = optimizer("adagrad", head().to("meta"), tiny.bilm(dtype=torch.float64).to("meta"))
    elsewhere.load(stepping.tensors())
    found = elsewhere.tensors()
    assert found.keys() == stepping.tensors().keys()
    assert {tensor.device.type for name, tensor in found.items() if not name.endswith("step")} == {"meta"}
    assert {tensor.device.type for name, tensor in found.items() if name.endswith("step")} == {"cpu"}


def tiny_parameters(stepping):
    return [parameter for group in stepping._dense.param_groups for parameter in group["params"]]


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


@pytest.mark.parametrize("name", [*DENSE, "muon"])
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


@pytest.mark.parametrize("shape", [(3, 4, 9), (2, 9, 4), (1, 6, 6)])
def test_an_orthogonalised_matrix_has_its_directions_and_singular_values_near_one(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    values = left.transpose(1, 2) @ orthogonalised(matrices) @ right.transpose(1, 2)  # U^T X V is diagonal
    diagonal = values.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(values, torch.diag_embed(diagonal), rtol=0, atol=1e-9)
    assert diagonal.min() > 0.6
    assert diagonal.max() < 1.3


def test_orthogonalising_does_not_depend_on_the_scale_and_a_matrix_of_zeros_stays_zero():
    matrices = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(orthogonalised(matrices), orthogonalised(1e6 * matrices))
    assert not orthogonalised(torch.zeros(1, 3, 5)).any()


def test_muon_moves_every_gate_of_the_lstms_by_its_own_orthogonal_matrix_after_the_decay_and_nothing_else():
    bilm, softmax = tiny.bilm(dtype=torch.float64), head()
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    stepping = optimizer("muon", softmax, bilm)
    generator = torch.Generator().manual_seed(2)
    for name, parameter in bilm.named_parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if not is_lstm_matrix(name):
            parameter.grad.zero_()
    stepping.step(gradient(1, [2]), LR, 1)
    rate = LR * TrainSettings(epochs=1).matrix_lr / TrainSettings(epochs=1).lr
    for name, parameter in bilm.named_parameters():
        moved = before[name] - parameter.detach()
        assert bool(moved.any()) == is_lstm_matrix(name), name
    kernel = bilm.lstm_forward[0].kernel
    rows, columns = len(kernel) // 2, kernel.shape[1] // 4
    decayed = (1 - rate * 0.1) * before["lstm_forward.0.kernel"]
    moved = (decayed - kernel.detach())[:rows, columns : 2 * columns]
    block = kernel.grad[:rows, columns : 2 * columns] * (1 - MOMENTUM + MOMENTUM * (1 - MOMENTUM))
    size = rate * MUON_SIZE * max(rows, columns) ** 0.5
    torch.testing.assert_close(moved, size * orthogonalised(block[None])[0])

"""The encoders without a state: positions, initial values and gradients. Their layers are compared in tests/golden."""

import math

import pytest
import tiny
import torch

from stelmo.config import GatedCnnConfig, TransformerConfig
from stelmo.model.context import GatedCnn, Transformer, position_rows
from stelmo.ops import reference as ops
from stelmo.ops.runs import Runs


def transformer(config=tiny.TRANSFORMER, dtype=torch.float64):
    made = Transformer(config)
    made.reset(torch.Generator().manual_seed(0))
    return made.to(dtype)


def test_positions_are_sines_and_cosines():
    rows = position_rows(3, 2, 6)
    for row, place in enumerate((3, 4)):
        for i in range(3):
            angle = place * 10000 ** (-2 * i / 6)
            assert rows[row, 2 * i : 2 * i + 2].tolist() == pytest.approx([math.sin(angle), math.cos(angle)])


def test_a_sentence_longer_than_the_table_continues_it():
    short, long = transformer(), transformer(tiny.TRANSFORMER.model_copy(update={"positions": 40}))
    long.load_state_dict({**short.state_dict(), "positions": position_rows(0, 40, 6)})
    short.positions.copy_(position_rows(0, 12, 6))
    x_ND, runs = torch.randn(30, 6, dtype=torch.float64), Runs([30])
    for found, right in zip(short(0, x_ND, runs), long(0, x_ND, runs), strict=True):
        torch.testing.assert_close(found, right)


def test_initial_values_of_a_transformer():
    made = transformer(TransformerConfig(width=64, hidden=128, layers=2))
    layer = made.forward_stack.layers[0]
    for matrix in (*layer.attention_in.weight.chunk(3), layer.attention_out.weight, layer.hidden_in.weight):
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.95 * bound < matrix.abs().max() <= bound
    assert bool((layer.hidden_norm.gain == 1).all())
    assert not layer.hidden_norm.shift.any()
    assert not torch.equal(layer.hidden_in.weight, made.backward_stack.layers[0].hidden_in.weight)


@pytest.mark.parametrize("direction", [0, 1])
def test_gradients_of_every_parameter_of_a_transformer(direction):
    made = transformer()
    names, parameters = zip(*made.stacks[direction].named_parameters(), strict=True)
    x_ND, runs = torch.randn(5, 6, dtype=torch.float64, requires_grad=True), Runs([3, 2])

    def run(x_ND, *given):
        stack = made.stacks[direction]
        return tuple(torch.func.functional_call(stack, dict(zip(names, given, strict=True)), (x_ND, runs, lambda x: x)))

    assert torch.autograd.gradcheck(run, (x_ND, *parameters), fast_mode=True)


def test_without_gradients_long_inputs_are_computed_in_parts(monkeypatch):
    made, x_ND = transformer(), torch.randn(50, 6, dtype=torch.float64)
    expected = made(0, x_ND, Runs([50]))[-1].detach()
    monkeypatch.setattr("stelmo.model.context.WORDS_TOGETHER", 7)
    with torch.no_grad():
        torch.testing.assert_close(made(0, x_ND, Runs([50]))[-1], expected)


def test_the_norm_adds_epsilon_to_the_deviation_and_takes_equal_numbers():
    x = torch.tensor([[1.0, 3.0], [2.0, 2.0]], dtype=torch.float64, requires_grad=True)
    gain, shift = torch.tensor([2.0, 4.0]).double(), torch.tensor([0.0, 1.0]).double()
    y = ops.norm(x, gain, shift, 0.5)
    torch.testing.assert_close(y.detach(), torch.tensor([[-2 / 1.5, 4 / 1.5 + 1], [0.0, 1.0]]).double())
    y.sum().backward()
    assert bool(x.grad.isfinite().all())


def gated_cnn(config=tiny.GATED_CNN):
    made = GatedCnn(config)
    made.reset(torch.Generator().manual_seed(0))
    return made.double()


def test_initial_values_of_a_gated_cnn():
    conv = gated_cnn(GatedCnnConfig(width=64, blocks=[[(4, 64)]])).forward_stack[0].convolutions[0]
    assert conv.direction.std().item() == pytest.approx((4 / (4 * 64)) ** 0.5, rel=0.05)
    torch.testing.assert_close(conv.taps(), conv.direction)
    assert not conv.bias.any()


@pytest.mark.parametrize("direction", [0, 1])
def test_gradients_of_every_parameter_of_a_gated_cnn(direction):
    made = gated_cnn()
    x_ND, runs = torch.randn(7, 6, dtype=torch.float64, requires_grad=True), Runs([5, 2])
    parameters = list(made.stacks[direction].parameters())

    names = [name for name, _ in made.stacks[direction].named_parameters()]

    def call(x_ND, *given):
        outputs = []
        for number, block in enumerate(made.stacks[direction]):
            own = {
                name.removeprefix(f"{number}."): value
                for name, value in zip(names, given, strict=True)
                if name.startswith(f"{number}.")
            }
            x_ND = torch.func.functional_call(block, own, (x_ND, runs, lambda x: x))
            outputs.append(x_ND)
        return tuple(outputs)

    assert torch.autograd.gradcheck(call, (x_ND, *parameters), fast_mode=True)

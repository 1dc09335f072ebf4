"""The gated CNN's initial values and gradients. Its layers are compared in tests/golden."""

import pytest
import tiny
import torch

from stelmo.config import GatedCnnConfig
from stelmo.model.gated_cnn import GatedCnn
from stelmo.ops.runs import Runs


def module(config=tiny.GATED_CNN):
    made = GatedCnn(config)
    made.reset(torch.Generator().manual_seed(0))
    return made.double()


def test_initial_values():
    conv = module(GatedCnnConfig(width=64, blocks=[[(4, 64)]])).forward_stack[0].convolutions[0]
    assert conv.direction.std().item() == pytest.approx((4 / (4 * 64)) ** 0.5, rel=0.05)
    torch.testing.assert_close(conv.taps(), conv.direction)
    assert not conv.bias.any()


@pytest.mark.parametrize("direction", [0, 1])
def test_gradients_of_every_parameter(direction):
    made = module()
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

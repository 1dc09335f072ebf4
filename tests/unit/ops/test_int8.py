"""8-bit products against float64: within what their rounding explains, and exact where numbers need none."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stelmo.errors import ConfigError
from stelmo.ops import int8
from stelmo.ops.int8 import Int8


def random(*shape, seed=0, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


@pytest.fixture(params=[False, True], ids=["bytes", "16 bits"])
def care(request, monkeypatch):
    """Both ways of fitting weights; the careful one is right on any processor."""
    if int8.adds_in_16_bits() and not request.param:
        pytest.skip("this processor adds 8-bit products in 16 bits: full bytes would overflow")
    monkeypatch.setattr(int8, "adds_in_16_bits", lambda: request.param)


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 8, 12), (5, 7, 4), (64, 512, 96), (3, 1, 1)])
def test_a_product_is_near_the_exact_one(care, rows, inputs, outputs):
    x_nK, matrix_KN, out_nN = random(rows, inputs), random(inputs, outputs, seed=1), random(rows, outputs, seed=2)
    exact = out_nN.double() + x_nK.double() @ matrix_KN.double()
    # Half a step of either factor times the other, and of both, summed over the inputs.
    step_x, step_N = x_nK.abs().max().double() / 127, matrix_KN.abs().amax(0).double() / 63
    bound = (x_nK.double().abs().sum(1)[:, None] * step_N + matrix_KN.double().abs().sum(0) * step_x) / 2
    bound = bound + inputs * step_x * step_N / 4 + 1e-4
    Int8([matrix_KN]).add_to(out_nN[None], x_nK[None])
    assert (abs(out_nN - exact) <= bound).all()


@given(st.integers(0, 2**31), st.integers(1, 70), st.integers(1, 9))
def test_whole_numbers_that_fit_are_multiplied_exactly(seed, inputs, rows):
    generator = torch.Generator().manual_seed(seed)
    x_nK = torch.randint(-127, 128, (rows, inputs), generator=generator).float()
    matrix_KN = torch.randint(-63, 64, (inputs, 6), generator=generator).float()
    x_nK[0, 0] = 127  # so that 1 stands for 1; a column has 127 of its own, with nothing beside it
    matrix_KN = torch.cat([torch.tensor([[127.0], [0.0]]).expand(2, 6), matrix_KN])
    x_nK = torch.cat([torch.zeros(rows, 2), x_nK], 1)
    out_nN = torch.zeros(rows, 6)
    Int8([matrix_KN]).add_to(out_nN[None], x_nK[None])
    assert torch.equal(out_nN, x_nK @ matrix_KN)


def test_the_largest_weights_side_by_side_do_not_overflow():
    matrix_KN, x_nK, out_nN = torch.full((64, 32), 2.0), torch.full((16, 64), 5.0), torch.zeros(16, 32)
    Int8([matrix_KN]).add_to(out_nN[None], x_nK[None])
    torch.testing.assert_close(out_nN, torch.full((16, 32), 640.0), rtol=0.02, atol=0)


def test_zeros_give_zeros(care):
    out_nN = torch.ones(2, 3)
    Int8([torch.zeros(4, 3)]).add_to(out_nN[None], torch.zeros(1, 2, 4))
    assert torch.equal(out_nN, torch.ones(2, 3))


def test_each_direction_has_its_own_matrix():
    matrix_GKN, x_GnK = random(2, 8, 4), random(2, 3, 8, seed=1)
    both, alone = torch.zeros(2, 3, 4), torch.zeros(1, 3, 4)
    Int8(matrix_GKN).add_to(both, x_GnK)
    Int8(matrix_GKN).of(slice(1, 2)).add_to(alone, x_GnK[1:])
    assert torch.equal(both[1:], alone)
    assert not torch.equal(both[0], both[1])


def test_a_build_without_8_bit_products_is_told_so(monkeypatch):
    def fails(*arguments):
        raise RuntimeError("oneDNN is not there\nlong story")

    monkeypatch.setattr(int8, "_multiply", fails)
    int8.adds_in_16_bits.cache_clear()
    with pytest.raises(ConfigError, match=r"int8 needs a torch with oneDNN.*\(oneDNN is not there\); use float32"):
        int8.adds_in_16_bits()
    int8.adds_in_16_bits.cache_clear()


def test_a_processor_that_multiplies_wrongly_is_refused(monkeypatch):
    monkeypatch.setattr(int8, "_is_exact", lambda weight, neighbour: False)
    int8.adds_in_16_bits.cache_clear()
    with pytest.raises(ConfigError, match="not exact on this processor"):
        int8.adds_in_16_bits()
    int8.adds_in_16_bits.cache_clear()

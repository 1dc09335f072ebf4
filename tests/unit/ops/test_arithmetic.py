"""`ops.arithmetic` against torch's own operations: values and gradients, whichever library computes them."""

import pytest
import torch

from stelmo.model.encoder import Highway
from stelmo.ops import arithmetic, reference

ONEDNN = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
SHAPES = [(1, 3, 5), (40, 7, 9), (600, 16, 24)]  # more rows than are computed together, too


def matrices(rows, inputs, outputs, *leading):
    torch.manual_seed(0)
    return torch.randn(*leading, rows, inputs), torch.randn(*leading, inputs, outputs)


def transposed(matrix):
    """The same numbers, stored by columns."""
    return matrix.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.fixture
def calls(monkeypatch):
    """How often oneDNN multiplied."""
    found = []
    multiply = arithmetic._multiply
    monkeypatch.setattr(arithmetic, "_multiply", lambda *operands: found.append(1) or multiply(*operands))
    return found


@pytest.mark.parametrize("stored", [torch.clone, transposed])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_torch_s(shape, stored, each_arithmetic, calls):
    x_NK, matrix_KM = matrices(*shape)
    matrix_KM, bias_M = stored(matrix_KM), torch.randn(shape[2])
    added, written = torch.ones(shape[0], shape[2]), torch.empty(shape[0], shape[2])
    arithmetic.add_product(added, transposed(x_NK), matrix_KM)
    arithmetic.write_product(written, x_NK, matrix_KM, bias_M)
    expected = x_NK.double() @ matrix_KM.double()
    for found, right in (
        (arithmetic.product(x_NK, matrix_KM), expected),
        (arithmetic.product(x_NK, matrix_KM, bias_M), expected + bias_M),
        (added, expected + 1),
        (written, expected + bias_M),
    ):
        torch.testing.assert_close(found.double(), right, atol=2e-5, rtol=1e-5)
    assert bool(calls) == (each_arithmetic == "onednn")


def test_products_of_several_pairs_are_torch_s(each_arithmetic, calls):
    x_GNK, matrix_GKM = matrices(40, 7, 9, 2)
    added = torch.ones(2, 40, 9)
    arithmetic.add_products(added, x_GNK, matrix_GKM)
    expected = x_GNK.double() @ matrix_GKM.double()
    torch.testing.assert_close(arithmetic.products(x_GNK, matrix_GKM).double(), expected, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(added.double(), expected + 1, atol=2e-5, rtol=1e-5)
    assert bool(calls) == (each_arithmetic == "onednn")


@ONEDNN
def test_a_result_may_be_part_of_a_larger_matrix(monkeypatch, calls):
    monkeypatch.setattr(arithmetic, "avoids_mkl", True)
    x_NK, matrix_KM = matrices(40, 300, 200)
    whole = torch.zeros(40, 210)
    arithmetic.add_product(whole[:, 5:205], x_NK, matrix_KM)
    torch.testing.assert_close(whole[:, 5:205], x_NK @ matrix_KM, atol=1e-4, rtol=1e-4)
    assert not whole[:, :5].any()
    assert not whole[:, 205:].any()
    assert calls


@ONEDNN
@pytest.mark.parametrize(
    ("x_NK", "matrix_KM"),
    [
        (torch.randn(15, 300), torch.randn(300, 300)),
        (torch.randn(40, 16), torch.randn(16, 16)),
        (torch.randn(40, 300, dtype=torch.float64), torch.randn(300, 300, dtype=torch.float64)),
        (torch.randn(40, 300), torch.randn(300, 400)[:, :300]),
    ],
    ids=["few rows", "little work", "double precision", "a part of a matrix's columns"],
)
def test_onednn_is_not_asked_where_it_is_slower_or_less_precise(x_NK, matrix_KM, monkeypatch, calls):
    monkeypatch.setattr(arithmetic, "avoids_mkl", True)
    torch.testing.assert_close(arithmetic.product(x_NK, matrix_KM), x_NK @ matrix_KM)
    assert not calls
    arithmetic.product(torch.randn(40, 300), torch.randn(300, 300))
    assert calls


@ONEDNN
def test_inside_autocast_products_have_its_precision(monkeypatch, calls):
    monkeypatch.setattr(arithmetic, "avoids_mkl", True)
    x_NK, matrix_KM = matrices(40, 300, 300)
    with torch.autocast("cpu", torch.bfloat16):
        assert arithmetic.linear(x_NK, matrix_KM, torch.zeros(300)).dtype == torch.bfloat16
    assert not calls


@ONEDNN
def test_the_baseline_is_computed_by_torch(monkeypatch, calls):
    monkeypatch.setattr(arithmetic, "avoids_mkl", True)
    x_NK, matrix_KM = matrices(40, 300, 300)
    with arithmetic.of_torch():
        arithmetic.product(x_NK, matrix_KM)
    assert not calls
    assert arithmetic.avoids_mkl


@pytest.mark.parametrize("leading", [(), (2, 4)])
def test_a_linear_layer_has_the_gradients_of_autograd(leading, each_arithmetic, calls):
    torch.manual_seed(0)
    operands = torch.randn(*leading, 20, 6), torch.randn(6, 9), torch.randn(9)
    own, theirs = ([operand.clone().requires_grad_() for operand in operands] for _ in range(2))
    found, expected = arithmetic.linear(*own), theirs[0] @ theirs[1] + theirs[2]
    slope = torch.randn(expected.shape)
    gradients = zip(torch.autograd.grad(found, own, slope), torch.autograd.grad(expected, theirs, slope), strict=True)
    for one, right in [(found, expected), *gradients]:
        torch.testing.assert_close(one, right, atol=2e-5, rtol=1e-5)
    assert bool(calls) == (each_arithmetic == "onednn")


@pytest.mark.usefixtures("each_arithmetic")
def test_a_frozen_matrix_has_no_gradient():
    x_NK, matrix_KM = matrices(20, 6, 9)
    arithmetic.linear(x_NK.requires_grad_(), matrix_KM, torch.zeros(9)).sum().backward()
    torch.testing.assert_close(x_NK.grad, matrix_KM.sum(1).expand(20, -1))
    assert matrix_KM.grad is None


@pytest.mark.usefixtures("each_arithmetic")
def test_a_highway_layer_and_its_gradients_are_the_reference_s():
    torch.manual_seed(0)
    layer, x_NF = Highway(8), torch.randn(30, 8, requires_grad=True)
    layer.reset(torch.Generator().manual_seed(0))
    leaves = [x_NF, *layer.parameters()]
    expected = reference.highway(x_NF, reference.HighwayWeights(*leaves[1:]))
    found, slope = layer(x_NF), torch.randn(30, 8)
    gradients = zip(*(torch.autograd.grad(y, leaves, slope) for y in (found, expected)), strict=True)
    for one, right in [(found, expected), *gradients]:
        torch.testing.assert_close(one, right, atol=2e-5, rtol=1e-5)


def test_tanh_is_exact_to_rounding_and_may_be_in_place(each_arithmetic):
    x = torch.cat([torch.linspace(-20, 20, 40_001), torch.tensor([-torch.inf, torch.inf, 0.0])])
    expected = torch.tanh(x.double())
    assert (arithmetic.tanh(x, out=torch.empty_like(x)).double() - expected).abs().max() < 2e-7
    found = arithmetic.tanh(x, out=x)
    assert found is x
    assert (x.double() - expected).abs().max() < 2e-7
    assert each_arithmetic == "torch" or (x.double() - expected).abs().max() > 1e-7  # the other formula was used


@pytest.mark.parametrize(
    ("processor", "slow"),
    [
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n", True),
        ("AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD", True),
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n", False),
        ("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n", False),
        ("processor\t: 0\nBogoMIPS\t: 243.75\n", False),
        ("arm", False),
        ("", False),
    ],
    ids=["AMD Zen 5", "the same on Windows", "AMD Zen 4", "Intel", "ARM", "macOS", "unknown"],
)
def test_only_processors_on_which_it_was_measured_are_told_apart(processor, slow):
    assert arithmetic.is_slow_with_mkl(processor) == slow

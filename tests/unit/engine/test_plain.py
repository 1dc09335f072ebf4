"""Layers for training a biLM against those of the reference: values and every gradient."""

import pytest
import tiny
import torch

from stelmo.config import LstmConfig, ModelConfig
from stelmo.engine import plain
from stelmo.errors import ModelError
from stelmo.model.bilm import State
from stelmo.text.ids import Vocabulary, word_ids

SENTENCES = [["the", "bank", "."], ["river"], ["a", "river", "bank", "über", "the", "."]]
MODELS = {
    **tiny.ENCODERS,
    "word ids": tiny.WORD_CONFIG,
    "clips that bite": ModelConfig(input=tiny.CHARS, lstm=tiny.LSTM.model_copy(update={"cell_clip": 0.5})),
    "no projection": ModelConfig(input=tiny.CHARS, lstm=LstmConfig(cells=6, projection=6, layers=1)),
}


def with_gradients(compute, bilm):
    batch = plain.batch_of_tokens(SENTENCES, word_ids(bilm.config, Vocabulary(tiny.WORDS)))
    generator = torch.Generator().manual_seed(2)
    zero = bilm.zero_state(len(SENTENCES))
    start = State(*(torch.randn(part.shape, generator=generator, dtype=part.dtype) * 0.3 for part in zero))
    layers = compute(bilm, batch, start)
    layers = layers[0] if isinstance(layers, tuple) else layers
    slope = torch.randn(layers.shape, generator=generator, dtype=layers.dtype)
    names, parameters = zip(*bilm.named_parameters(), strict=True)
    return {"layers": layers, **dict(zip(names, torch.autograd.grad(layers, parameters, slope), strict=True))}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_layers_to_train_on_and_their_gradients_are_the_reference_s(config, dtype, tolerance):
    bilm = tiny.bilm(config, dtype=dtype).requires_grad_()
    expected, found = (with_gradients(compute, bilm) for compute in (plain.layers, plain.trained_layers))
    for name, right in expected.items():
        assert right.norm() > 0, name
        assert (found[name] - right).norm() <= tolerance * right.norm(), name


def test_a_model_in_half_precision_can_be_trained_as_well():
    bilm = tiny.bilm(dtype=torch.bfloat16).requires_grad_()
    found = with_gradients(plain.trained_layers, bilm)
    assert found["layers"].dtype == torch.bfloat16
    assert found["layers"].isfinite().all()


def test_the_check_for_overflow_does_not_itself_overflow_in_half_precision():
    good = torch.full((3, 200, 200), 2.0, dtype=torch.float16)
    plain.refuse_overflow(good)
    good[1, 2, 3] = torch.inf
    with pytest.raises(ModelError, match="NaN or infinity"):
        plain.refuse_overflow(good)


def test_autocast_computes_what_it_computes_in_the_reference():
    bilm = tiny.bilm().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = (with_gradients(compute, bilm) for compute in (plain.layers, plain.trained_layers))
    torch.testing.assert_close(found, expected)


def test_a_retained_graph_gives_the_same_gradients_again():
    bilm = tiny.bilm().requires_grad_()
    batch = plain.batch_of_tokens(SENTENCES, word_ids(bilm.config, Vocabulary(tiny.WORDS)))
    loss = plain.trained_layers(bilm, batch, bilm.zero_state(len(SENTENCES))).square().sum()
    first, second = (torch.autograd.grad(loss, list(bilm.parameters()), retain_graph=True) for _ in range(2))
    torch.testing.assert_close(second, first, rtol=0, atol=0)

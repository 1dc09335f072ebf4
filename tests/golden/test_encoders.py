"""AllenNLP's Transformer and gated CNN, reproduced; and each known way to get them wrong, planted and noticed."""

import json
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import stelmo
from stelmo.config import GatedCnnConfig
from stelmo.engine.plain import Plain
from stelmo.formats.allennlp_lm import gated_cnn_tensors
from stelmo.formats.allennlp_tensors import StateTensors
from stelmo.model import context
from stelmo.model.context import GatedCnn, Transformer, TransformerLayer, TransformerStack
from stelmo.ops import reference, runs
from stelmo.ops.runs import Runs

HERE = Path(__file__).parent
TRANSFORMERS, GATED = HERE / "allennlp-transformer", HERE / "allennlp-gated-cnn"
SENTENCES = json.loads((TRANSFORMERS / "sentences.json").read_text())
ARCHIVES = {"model": "layers.npz", "published-shape": "published-shape.layers.npz"}
TOLERANCE, SEEN = 1e-5, 1e-3
archives = pytest.mark.parametrize("name", ARCHIVES)
gated = pytest.mark.parametrize("name", ["dilated", "bottleneck"])


@cache
def expected(name):
    with np.load(TRANSFORMERS / ARCHIVES[name]) as arrays:
        return dict(arrays)


def archive(name):
    """As it is read; but the vectors were computed with a later AllenNLP, whose norms have another epsilon."""
    return stelmo.load(TRANSFORMERS / f"{name}.tar.gz")


def with_later_epsilon(model):
    for part in model.bilm.modules():
        if hasattr(part, "epsilon"):
            part.epsilon = 1e-13
    return model


def error(model, name):
    """The largest absolute difference in any layer of any sentence."""
    pairs = enumerate(model.layers(SENTENCES))
    return max(np.abs(found - expected(name)[f"{number:02d}.layers"]).max() for number, found in pairs)


@archives
def test_the_layers_are_allennlp_s(name):
    assert error(archive(name), name) < TOLERANCE


@archives
def test_with_the_epsilon_of_the_vectors_only_rounding_is_left(name):
    assert error(with_later_epsilon(archive(name)), name) < 3e-6


@archives
def test_the_modules_give_the_same_layers_in_one_padded_batch(name):
    model = with_later_epsilon(archive(name))
    model.engine.compute = lambda: Plain(model.bilm, model.engine.word_ids)
    assert error(model, name) < 3e-6


@archives
def test_the_losses_of_both_directions_are_allennlp_s(name):
    for number, scores in enumerate(archive(name).log_probs(SENTENCES)):
        forward, backward = -scores.forward.mean(), -scores.backward.mean()
        np.testing.assert_allclose([forward, backward], expected(name)[f"{number:02d}.loss"][1:], atol=TOLERANCE)


# Mutations of the Transformer


def masked(monkeypatch, model, diagonal):
    """Words see up to `diagonal` words ahead of themselves; 0 is right."""

    def attention(qkv_N3D, run, heads):
        parts = []
        for rows in torch.split(qkv_N3D, run.lengths):
            q, k, v = rows.view(len(rows), 3, heads, -1).permute(1, 2, 0, 3)
            seen = torch.ones(len(rows), len(rows), dtype=torch.bool).tril(diagonal)
            bias = torch.zeros(seen.shape).masked_fill(~seen, -1e9)
            parts.append(F.scaled_dot_product_attention(q, k, v, bias).transpose(0, 1).flatten(1))
        return torch.cat(parts)

    monkeypatch.setattr(runs, "attention", attention)


def heads_interleaved(monkeypatch, model):
    plain = runs.attention

    def attention(qkv_N3D, run, heads):
        order = torch.arange(qkv_N3D.shape[1] // 3).view(heads, -1).t().flatten()
        turned = qkv_N3D.view(len(qkv_N3D), 3, -1)[..., order].flatten(1)
        return plain(turned, run, heads)

    monkeypatch.setattr(runs, "attention", attention)


def positions_shifted(monkeypatch, model):
    model.bilm.context.positions.copy_(model.bilm.context.positions.roll(1, 0))


def backward_positions_reversed(monkeypatch, model):
    monkeypatch.setattr(Runs, "at_positions", lambda run, position_N: run)


def words_scaled(monkeypatch, model):
    plain = Transformer.forward
    scale = model.config.projection**0.5
    monkeypatch.setattr(Transformer, "forward", lambda self, way, x, *rest: plain(self, way, x * scale, *rest))


def residual_scaled(monkeypatch, model):
    plain = TransformerLayer.forward
    monkeypatch.setattr(TransformerLayer, "forward", lambda self, x, *rest: plain(self, x, *rest) * 0.5**0.5)


def norm_behind_the_sublayers(monkeypatch, model):
    def forward(layer, x_ND, run, drop):
        x_ND = layer.attention_norm(
            x_ND + layer.attention_out(runs.attention(layer.attention_in(x_ND), run, layer.heads))
        )
        return layer.hidden_norm(x_ND + layer.hidden_out(layer.hidden_in(x_ND).relu()))

    monkeypatch.setattr(TransformerLayer, "forward", forward)


def no_final_norm(monkeypatch, model):
    for stack in model.bilm.stacks:
        stack.norm = torch.nn.Identity()


def final_norm_on_every_layer(monkeypatch, model):
    plain = TransformerStack.forward
    monkeypatch.setattr(
        TransformerStack,
        "forward",
        lambda stack, *given: [*map(stack.norm, plain(stack, *given)[:-1]), plain(stack, *given)[-1]],
    )


def directions_exchanged(monkeypatch, model):
    context = model.bilm.context
    context.forward_stack, context.backward_stack = context.backward_stack, context.forward_stack


def gains_ignored(monkeypatch, model):
    plain = reference.norm
    monkeypatch.setattr(
        reference,
        "norm",
        lambda x, gain, shift, epsilon: plain(x, torch.ones_like(gain), torch.zeros_like(shift), epsilon),
    )


def flipped_highway_gate(monkeypatch, model):
    for layer in model.bilm.encoder.highways:
        layer.carry.neg_()
        layer.carry_bias.neg_()


def one_highway_less(monkeypatch, model):
    del model.bilm.encoder.highways[0]


MUTATIONS = {
    "a word does not see itself": partial(masked, diagonal=-1),
    "a word sees the next": partial(masked, diagonal=1),
} | {
    mutate.__name__: mutate
    for mutate in (
        heads_interleaved,
        positions_shifted,
        backward_positions_reversed,
        words_scaled,
        residual_scaled,
        norm_behind_the_sublayers,
        no_final_norm,
        final_norm_on_every_layer,
        directions_exchanged,
        gains_ignored,
        flipped_highway_gate,
        one_highway_less,
    )
}


@archives
@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutation_of_the_transformer_is_noticed(monkeypatch, mutate, name):
    model = archive(name)
    mutate(monkeypatch, model)
    assert error(model, name) > SEEN


@archives
def test_an_attention_by_hand_is_the_fused_one(monkeypatch, name):
    """What the two mutations of the mask are made of."""
    model = with_later_epsilon(archive(name))
    masked(monkeypatch, model, 0)
    assert error(model, name) < 3e-6


@archives
def test_torch_s_layer_norm_is_noticed(monkeypatch, name):
    model = with_later_epsilon(archive(name))
    monkeypatch.setattr(
        reference, "norm", lambda x, gain, shift, epsilon: F.layer_norm(x, gain.shape, gain, shift, 1e-5)
    )
    assert error(model, name) > 1e-5


# The gated CNN


def gated_cnn(name):
    """The module with AllenNLP's weights, and the file."""
    said = json.loads((GATED / f"{name}.json").read_text())
    config = GatedCnnConfig(width=said["input_dim"], blocks=said["layers"])
    with np.load(GATED / f"{name}.npz") as arrays:
        found = dict(arrays)
    weights = {
        key.removeprefix("weights/"): torch.from_numpy(found[key]) for key in found if key.startswith("weights/")
    }
    module = GatedCnn(config).requires_grad_(False)
    tensors = gated_cnn_tensors(StateTensors("", weights, name), config, "")
    module.load_state_dict({key.removeprefix("context."): tensor for key, tensor in tensors})
    return module, found


def gated_error(module, arrays):
    """Of all sentences end to end, from each of them alone."""
    lengths = arrays["lengths"].tolist()
    x_ND = torch.cat([torch.from_numpy(row[:length]) for row, length in zip(arrays["inputs"], lengths, strict=True)])
    run = Runs(lengths)
    order_N, turned = run.reversed()
    ahead, behind = module(0, x_ND, run), module(1, x_ND[order_N], turned)
    layers_LND = torch.stack([torch.cat([y, z[order_N]], 1) for y, z in zip(ahead, behind, strict=True)])
    parts = torch.split(layers_LND, lengths, 1)
    return max(np.abs(part.numpy() - arrays[f"alone/{row}"]).max() for row, part in enumerate(parts))


@gated
def test_the_blocks_are_allennlp_s_whatever_sentences_are_together(name):
    assert gated_error(*gated_cnn(name)) < 3e-6


def kernels_reversed(monkeypatch, module):
    for conv in convolutions(module):
        conv.direction.copy_(conv.direction.flip(0))


def stacks_exchanged(monkeypatch, module):
    module.forward_stack, module.backward_stack = module.backward_stack, module.forward_stack


def residual_not_scaled(monkeypatch, module):
    monkeypatch.setattr(context, "RESIDUAL", 1.0)


def weight_norm_ignored(monkeypatch, module):
    for conv in convolutions(module):
        monkeypatch.setattr(conv, "taps", lambda conv=conv: conv.direction)


def gate_for_value(monkeypatch, module):
    plain = F.glu
    monkeypatch.setattr(runs.F, "glu", lambda x, axis: plain(x.roll(x.shape[1] // 2, 1), axis))


def the_next_word_is_seen(monkeypatch, module):
    plain = Runs.earlier
    monkeypatch.setattr(Runs, "earlier", lambda run, x, words: plain(run, x.roll(-1, 0), words))


def sentences_not_separated(monkeypatch, module):
    plain = Runs.earlier
    monkeypatch.setattr(Runs, "earlier", lambda run, x, words: plain(Runs([len(x)]), x, words))


def convolutions(module):
    return [conv for stack in module.stacks for block in stack for conv in block.convolutions]


GATED_MUTATIONS = (
    kernels_reversed,
    stacks_exchanged,
    residual_not_scaled,
    weight_norm_ignored,
    gate_for_value,
    the_next_word_is_seen,
    sentences_not_separated,
)


@gated
@pytest.mark.parametrize("mutate", GATED_MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_mutation_of_the_gated_cnn_is_noticed(monkeypatch, mutate, name):
    module, arrays = gated_cnn(name)
    mutate(monkeypatch, module)
    assert gated_error(module, arrays) > SEEN


def test_dilations_left_out_are_noticed():
    module, arrays = gated_cnn("dilated")
    for conv in convolutions(module):
        conv.dilation = 1
    assert gated_error(module, arrays) > SEEN

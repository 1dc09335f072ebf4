"""The learned mix of layers: its equation, both layer norms, its penalty, its refusals."""

import numpy as np
import oracle
import pytest
import torch

import stelmo
from stelmo.model.mix import Dropout, ScalarMix

W = [0.3, -1.2, 0.8]


def layers_of(depth=3, seed=0):
    return torch.randn(depth, 2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 + 0.5


def learned(gamma=1.7, **settings):
    mix = ScalarMix(3, **settings).double()
    with torch.no_grad():
        mix.scale.fill_(gamma)
        mix.logits.copy_(torch.tensor(W, dtype=torch.float64))
    return mix


def close(found, expected):
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=1e-12)


def test_before_training_the_mix_is_the_mean_of_the_layers():
    mix = ScalarMix(3).double()
    close(mix(layers_of()), layers_of().mean(0).numpy())
    assert mix.weights == pytest.approx([1 / 3] * 3)


def test_the_mix_is_gamma_times_the_softmax_weighted_sum():
    close(learned()(layers_of()), oracle.mix(layers_of().numpy(), np.array(W), 1.7))


def test_the_shares_are_the_softmax_of_the_learned_weights():
    shares = np.exp(W) / np.exp(W).sum()
    assert learned().weights == pytest.approx(shares.tolist())


def test_gamma_scales_the_mix():
    close(learned(gamma=5.1)(layers_of()), 3 * learned(gamma=1.7)(layers_of()).detach().numpy())


def test_a_constant_added_to_every_weight_changes_nothing():
    mix, moved = learned(), learned()
    with torch.no_grad():
        moved.logits += 1 / 3
    close(moved(layers_of()), mix(layers_of()).detach().numpy())


def test_top_only_is_gamma_times_the_last_layer_and_learns_gamma_alone():
    mix = ScalarMix(3, top_only=True).double()
    torch.nn.init.constant_(mix.scale, 1.7)
    close(mix(layers_of()), 1.7 * layers_of()[2].numpy())
    assert [name for name, _ in mix.named_parameters()] == ["scale"]
    assert mix.weights == [0.0, 0.0, 1.0]
    assert mix.penalty() == 0


# Positions 0 and 4 of the first sentence and 0 and 2 of the second are its markers; the second is padded.
WITH_MARKERS = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)


def as_sentences(layers):
    return [layers[:, 0].numpy(), layers[:, 1, :3].numpy()]


def test_the_layer_norm_of_allennlp_counts_the_markers():
    found = learned(layer_norm="allennlp")(layers_of(), WITH_MARKERS)
    first, second = oracle.layer_norm_allennlp(as_sentences(layers_of()))
    close(found[0], oracle.mix(first, np.array(W), 1.7))
    close(found[1, :3], oracle.mix(second, np.array(W), 1.7))


@pytest.mark.parametrize("name", ["bilm", True, 1, np.True_])
def test_the_layer_norm_of_bilm_does_not_count_the_markers(name):
    found = learned(layer_norm=name)(layers_of()[:, :, 1:4], torch.tensor([[1, 1, 1], [1, 0, 0]]).bool())
    first, second = oracle.layer_norm_bilm(as_sentences(layers_of()))
    close(found[0], oracle.mix(first, np.array(W), 1.7)[1:-1])
    close(found[1, :1], oracle.mix(second, np.array(W), 1.7)[1:-1])


def test_the_layer_norm_by_sentence_counts_a_sentence_s_own_tokens_alone():
    found = learned(layer_norm="sentence")(layers_of(), WITH_MARKERS)
    for row, length in ((0, 5), (1, 3)):
        own_L1TD = layers_of()[:, row : row + 1, :length]
        close(found[row, :length], learned(layer_norm="bilm")(own_L1TD)[0].detach().numpy())


def test_the_two_layer_norms_differ():
    ours = oracle.layer_norm_bilm(as_sentences(layers_of()))[0]
    theirs = oracle.layer_norm_allennlp(as_sentences(layers_of()))[0]
    assert np.abs(ours - theirs).max() > 0.01


@pytest.mark.parametrize(("name", "epsilon"), [("bilm", 1e-12), ("allennlp", 1e-13)])
def test_each_layer_norm_has_its_own_epsilon(name, epsilon):
    layers = layers_of() * 1e-6  # a variance as small as epsilon
    numbers = layers[0].numpy()
    expected = (numbers - numbers.mean()) / np.sqrt(numbers.var() + epsilon)
    mix = ScalarMix(1, layer_norm=name).double()
    close(mix(layers[:1]), expected)


@pytest.mark.parametrize("off", [False, 0, np.False_])
def test_layers_are_not_normalised_by_default_nor_where_it_is_switched_off(off):
    close(learned(layer_norm=off)(layers_of()), learned()(layers_of()).detach().numpy())


def test_without_a_mask_every_token_counts_in_the_layer_norm():
    mix = learned(layer_norm="bilm")
    close(mix(layers_of()), mix(layers_of(), torch.ones(2, 5, dtype=torch.bool)).detach().numpy())


def test_top_only_is_normalised_too():
    mix = ScalarMix(3, layer_norm="allennlp", top_only=True).double()
    close(mix(layers_of(), WITH_MARKERS)[0], oracle.layer_norm_allennlp(as_sentences(layers_of()))[0][2])


def test_the_penalty_is_lambda_times_the_squares_of_the_raw_weights():
    assert learned(l2=0.1).penalty().item() == pytest.approx(0.1 * (0.09 + 1.44 + 0.64))
    expected = 0.1 * sum((w - 1 / 3) ** 2 for w in W)
    assert learned(l2=0.1).penalty("mean").item() == pytest.approx(expected)


def test_the_penalty_reaches_the_weights_and_never_gamma():
    mix = learned(l2=0.5)
    mix.penalty().backward()
    close(mix.logits.grad, np.array(W))
    assert mix.scale.grad is None


@pytest.mark.parametrize("layer_norm", [False, "bilm", "allennlp", "sentence"])
def test_gradients_reach_the_weights_and_gamma(layer_norm):
    mix = learned(layer_norm=layer_norm)
    (mix(layers_of()) ** 2).sum().backward()
    assert mix.logits.grad.abs().min() > 1e-3
    assert mix.scale.grad.abs() > 1e-3


@pytest.mark.parametrize("depth", [2, 4])
def test_another_number_of_layers_is_refused(depth):
    with pytest.raises(stelmo.ConfigError, match=f"{depth} layers given; it was made for 3"):
        ScalarMix(3)(layers_of(depth))


@pytest.mark.parametrize("settings", [{"depth": 0}, {"depth": 3, "l2": -0.1}, {"depth": 3, "layer_norm": "batch"}])
def test_settings_out_of_bounds_are_refused(settings):
    with pytest.raises(stelmo.ConfigError):
        ScalarMix(**settings)


def test_an_unknown_penalty_is_refused():
    with pytest.raises(stelmo.ConfigError, match="around"):
        ScalarMix(3).penalty("median")


def test_dropout_keeps_the_mean_and_zeroes_the_asked_share():
    torch.manual_seed(0)
    x = torch.full((100_000,), 3.0, requires_grad=True)
    dropped = Dropout(0.2)(x)
    assert dropped.detach().unique().tolist() == pytest.approx([0.0, 3.0 / 0.8])
    assert (dropped == 0).float().mean() == pytest.approx(0.2, abs=0.01)
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach() / 3.0)


@pytest.mark.parametrize("module", [Dropout(0.5).eval(), Dropout(0.0)])
def test_dropout_changes_nothing_when_it_is_off(module):
    x = torch.randn(7)
    assert torch.equal(module(x), x)

"""`stelmo.Elmo` inside somebody's network: its numbers, its gradients, its refusals."""

import copy
import pickle

import numpy as np
import oracle
import pytest
import torch
from shared import loaded

import stelmo
from stelmo.engine import plain
from stelmo.text import chars

OPTIONS = oracle.options(highways=2)
ARRAYS = oracle.random_weights(OPTIONS)
VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank"]
SENTENCES = [["the", "naïve", "bank", "."], [], ["🙂"], ["x" * 60, "the", "bank"]]
LENGTHS = [4, 0, 1, 3]
MIX = np.array([0.4, -0.9, 1.1])


def model_of(options=OPTIONS, seed=0, **settings):
    arrays = oracle.random_weights(options, seed, words=len(VOCABULARY))
    return loaded(options, arrays, VOCABULARY, **({"precision": "float64"} | settings))


def elmo_of(model=None, **settings):
    """A module in float64 that drops nothing unless told to."""
    return stelmo.Elmo(model or model_of(), **({"dropout": 0.0} | settings)).double()


def learned(elmo, gamma=1.3):
    """The module with mixes that are no longer the mean."""
    for mix in elmo.mixes:
        mix.logits.data.copy_(torch.tensor(MIX))
        mix.scale.data.fill_(gamma)
    return elmo


def oracle_layers():
    """Every sentence from zero, its markers included: (L+1, n+2, 2P)."""
    return [oracle.run(OPTIONS, ARRAYS, tokens)[0] for tokens in SENTENCES]


def assert_rows(found, expected, atol=1e-10):
    """Each row up to its sentence's end; zero beyond."""
    for row, right in zip(found.detach().numpy(), expected, strict=True):
        np.testing.assert_allclose(row[: len(right)], right, rtol=0, atol=atol)
        np.testing.assert_array_equal(row[len(right) :], 0)
    assert max(np.abs(right).max(initial=0) for right in expected) > 0.1


# Numbers


def test_the_output_is_one_vector_a_token_and_the_mask_says_which_are_there():
    vectors, mask = elmo_of()(SENTENCES)
    assert vectors.shape == (4, 4, 8)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[position < length for position in range(4)] for length in LENGTHS]


@pytest.mark.parametrize("state", ["fresh", "warm"])
def test_before_training_the_output_is_the_mean_of_the_models_layers(state):
    model = model_of()
    expected = model.embed(SENTENCES, "mean", state)
    assert_rows(elmo_of(model, state=state)(SENTENCES)[0], expected)


def test_the_state_is_the_models_unless_another_is_asked_for():
    fresh = model_of(state="fresh")
    assert_rows(elmo_of(fresh)(SENTENCES)[0], fresh.embed(SENTENCES, state="fresh"))
    assert_rows(elmo_of(model_of(state="warm"))(SENTENCES)[0], fresh.embed(SENTENCES, state="warm"))


def test_a_learned_mix_agrees_with_the_oracle():
    found, _ = learned(elmo_of(state="fresh"))(SENTENCES)
    assert_rows(found, [oracle.mix(layers, MIX, 1.3)[1:-1] for layers in oracle_layers()])


def test_several_outputs_are_stacked_and_each_has_a_mix_of_its_own():
    elmo = elmo_of(outputs=3, state="fresh")
    with torch.no_grad():
        elmo.mixes[1].scale.fill_(2.0)
        elmo.mixes[2].logits.copy_(torch.tensor(MIX))
    found, mask = elmo(SENTENCES)
    assert found.shape == (3, 4, 4, 8)
    assert mask.shape == (4, 4)
    assert_rows(found[0], [layers.mean(0)[1:-1] for layers in oracle_layers()])
    torch.testing.assert_close(found[1], 2 * found[0])
    assert_rows(found[2], [oracle.mix(layers, MIX, 1.0)[1:-1] for layers in oracle_layers()])


def test_top_only_is_the_last_layer():
    assert_rows(elmo_of(top_only=True, state="fresh")(SENTENCES)[0], [layers[-1][1:-1] for layers in oracle_layers()])


def test_boundaries_can_be_kept():
    found, mask = elmo_of(keep_boundaries=True, state="fresh")(SENTENCES)
    assert mask.sum(1).tolist() == [length + 2 for length in LENGTHS]
    assert_rows(found, [layers.mean(0) for layers in oracle_layers()])


def test_the_layer_norm_of_bilm_agrees_with_the_oracle():
    expected = [oracle.mix(layers, MIX, 1.3)[1:-1] for layers in oracle.layer_norm_bilm(oracle_layers())]
    assert_rows(learned(elmo_of(layer_norm="bilm", state="fresh"))(SENTENCES)[0], expected)
    assert_rows(learned(elmo_of(layer_norm=True, state="fresh"))(SENTENCES)[0], expected)


def test_the_layer_norm_of_allennlp_agrees_with_the_oracle():
    expected = [oracle.mix(layers, MIX, 1.3) for layers in oracle.layer_norm_allennlp(oracle_layers())]
    elmo = learned(elmo_of(layer_norm="allennlp", state="fresh"))
    assert_rows(elmo(SENTENCES)[0], [layers[1:-1] for layers in expected])
    kept = learned(elmo_of(layer_norm="allennlp", keep_boundaries=True, state="fresh"))
    assert_rows(kept(SENTENCES)[0], expected)


def test_the_two_layer_norms_differ():
    ours, theirs = (elmo_of(layer_norm=name)(SENTENCES)[0] for name in ("bilm", "allennlp"))
    assert (ours - theirs).abs().max() > 0.01


def test_character_ids_give_what_their_tokens_give():
    elmo = learned(elmo_of())
    vectors, mask = elmo(SENTENCES)
    from_ids, mask_of_ids = elmo(torch.from_numpy(chars.encode_sentences(SENTENCES)))
    assert vectors.abs().max() > 0.1
    assert torch.equal(mask_of_ids, mask)
    torch.testing.assert_close(from_ids, vectors, rtol=0, atol=1e-12)


def test_character_ids_may_be_padded_beyond_the_longest_sentence():
    elmo = elmo_of()
    padded = torch.nn.functional.pad(torch.from_numpy(chars.encode_sentences(SENTENCES)), (0, 0, 0, 2))
    expected = [row[:length].detach().numpy() for row, length in zip(elmo(SENTENCES)[0], LENGTHS, strict=True)]
    assert_rows(elmo(padded)[0], expected)


def test_character_ids_passed_in_stay_as_they_were():
    ids = torch.from_numpy(chars.encode_sentences(SENTENCES))
    before = ids.clone()
    elmo_of()(ids)
    assert torch.equal(ids, before)


def test_empty_sentences_alone_have_no_vectors():
    vectors, mask = elmo_of()([[], []])
    assert vectors.shape == (2, 0, 8)
    assert mask.shape == (2, 0)


def test_a_model_of_word_ids_takes_tokens():
    model = model_of(oracle.options(filters=None))
    sentences = [["the", "unheard-of", "bank"], []]
    assert_rows(elmo_of(model)(sentences)[0], model.embed(sentences))


def test_a_model_in_float32_gives_float32():
    model = model_of(precision="float32")
    found, _ = stelmo.Elmo(model, dropout=0.0)(SENTENCES)
    assert found.dtype == torch.float32
    assert_rows(found, model.embed(SENTENCES), atol=1e-5)


# Learning


def backward(elmo):
    vectors, _ = elmo(SENTENCES)
    (vectors**2).sum().backward()


def test_a_frozen_bilm_gets_no_gradient_but_the_mixes_do():
    elmo = learned(elmo_of(outputs=2))
    backward(elmo)
    trained = {name for name, parameter in elmo.named_parameters() if parameter.requires_grad}
    assert trained == {f"mixes.{number}.{part}" for number in range(2) for part in ("logits", "scale")}
    assert all(parameter.grad is None for parameter in elmo.bilm.parameters())
    assert all(parameter.grad.abs().max() > 1e-3 for parameter in elmo.mixes.parameters())


@pytest.mark.parametrize("state", ["fresh", "warm"])
def test_a_trainable_bilm_gets_a_gradient_in_every_tensor(state):
    elmo = learned(elmo_of(trainable=True, state=state))
    backward(elmo)
    still = [name for name, parameter in elmo.named_parameters() if not (parameter.grad.abs().max() > 1e-8)]
    assert still == []


def test_a_trainable_bilm_has_the_gradient_of_finite_differences():
    elmo = learned(elmo_of(trainable=True))

    def loss():
        return (elmo(SENTENCES)[0] ** 3).sum()

    loss().backward()
    for name, parameter in elmo.bilm.named_parameters():
        position = int(parameter.grad.abs().argmax())
        numbers = parameter.data.view(-1)
        values = []
        for step in (1e-6, -2e-6):
            numbers[position] += step
            values.append(loss().item())
        numbers[position] += 1e-6
        slope = (values[0] - values[1]) / 2e-6
        assert parameter.grad.view(-1)[position].item() == pytest.approx(slope, rel=1e-4), name


def test_two_calls_before_one_backward_pass_have_the_gradients_of_each():
    elmo = learned(elmo_of(trainable=True))
    parts = [(elmo(sentences)[0] ** 2).sum() for sentences in (SENTENCES, SENTENCES[:1])]
    each = [torch.autograd.grad(part, list(elmo.bilm.parameters())) for part in parts]
    (elmo(SENTENCES)[0] ** 2).sum().add((elmo(SENTENCES[:1])[0] ** 2).sum()).backward()
    for parameter, *gradients in zip(elmo.bilm.parameters(), *each, strict=True):
        torch.testing.assert_close(parameter.grad, sum(gradients))


def test_a_step_of_training_changes_the_vectors_and_not_the_start_state():
    elmo = elmo_of(trainable=True)
    before, _ = elmo(SENTENCES)
    start = elmo.start_h.clone()
    backward(elmo)
    torch.optim.SGD(elmo.parameters(), lr=0.01).step()
    assert (elmo(SENTENCES)[0] - before).abs().max() > 1e-4
    assert torch.equal(elmo.start_h, start)


def test_dropout_drops_in_training_alone():
    elmo = elmo_of(dropout=0.5)
    whole, mask = elmo.eval()(SENTENCES)
    dropped, _ = elmo.train()(SENTENCES)
    kept = dropped != 0
    assert 0.2 < kept[mask].double().mean() < 0.8
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])
    assert torch.equal(elmo.eval()(SENTENCES)[0], whole)
    assert not dropped[~mask].any()


def test_each_output_drops_its_own():
    elmo = elmo_of(outputs=2, dropout=0.5).train()
    first, second = elmo(SENTENCES)[0]
    assert bool(((first == 0) != (second == 0)).any())


def test_the_penalties_of_all_mixes_can_be_added_to_a_loss():
    elmo = learned(elmo_of(outputs=2, l2=0.1))
    total = sum(mix.penalty() for mix in elmo.mixes)
    assert total.item() == pytest.approx(2 * 0.1 * (MIX**2).sum())


@pytest.mark.parametrize("settings", [{}, {"outputs": 2}, {"top_only": True}], ids=str)
def test_a_state_dict_round_trip_changes_nothing(settings, tmp_path):
    elmo, other = elmo_of(**settings), elmo_of(model_of(seed=1), **settings)
    torch.nn.init.constant_(elmo.mixes[-1].scale, 0.7)
    torch.save(elmo.state_dict(), tmp_path / "elmo.pt")
    expected = elmo(SENTENCES)[0]
    assert (other(SENTENCES)[0] - expected).abs().max() > 1e-3
    other.load_state_dict(torch.load(tmp_path / "elmo.pt", weights_only=True))
    assert torch.equal(other(SENTENCES)[0], expected)


def test_a_copy_of_the_module_computes_the_same():
    elmo = learned(elmo_of())
    assert torch.equal(copy.deepcopy(elmo)(SENTENCES)[0], elmo(SENTENCES)[0])


def test_a_trainable_bilm_is_run_without_gradient_as_a_frozen_one_is(monkeypatch):
    elmo = elmo_of(trainable=True)
    expected = elmo(SENTENCES)[0].detach()
    monkeypatch.setattr(plain, "trained_layers", lambda *arguments: pytest.fail("trained_layers"))
    with torch.no_grad():
        found, _ = elmo(SENTENCES)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_weights_changed_through_data_in_training_are_used_in_the_next_evaluation():
    elmo = elmo_of(trainable=True)
    with torch.no_grad():
        before, _ = elmo(SENTENCES)
    elmo(SENTENCES)[0].square().sum().backward()
    for parameter in elmo.bilm.parameters():
        parameter.data.sub_(0.01 * parameter.grad)  # unseen by the version counter
    trained = elmo(SENTENCES)[0].detach()
    with torch.no_grad():
        after, _ = elmo(SENTENCES)
    assert (after - before).abs().max() > 1e-4
    torch.testing.assert_close(after, trained, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_the_frozen_layers_by_nothing_and_their_mix_by_its_rounding(dtype):
    elmo = learned(elmo_of(model_of(precision="float32")).float())
    expected, _ = elmo(SENTENCES)
    fresh = learned(elmo_of(model_of(precision="float32")).float())  # no word is known
    with torch.autocast("cpu", dtype):
        found, _ = fresh(SENTENCES)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.02)
    assert torch.equal(fresh(SENTENCES)[0], expected)


# Replicas of torch.nn.DataParallel


def replica_of(network):
    """`torch.nn.parallel.replicate` for one device, here the CPU: no parameters, but clones of them as attributes."""
    modules = list(network.modules())
    replicas = {module: module._replicate_for_data_parallel() for module in modules}
    for module, replica in replicas.items():
        for name, child in module._modules.items():
            setattr(replica, name, None if child is None else replicas[child])
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            setattr(replica, name, None if tensor is None else tensor.clone())
    return replicas[network]


@pytest.mark.parametrize(
    "given", [SENTENCES, torch.from_numpy(chars.encode_sentences(SENTENCES))], ids=["tokens", "ids"]
)
def test_a_replica_trains_the_parameters_of_its_original(given):
    elmo, alone = (learned(elmo_of(trainable=True)) for _ in range(2))
    replica = replica_of(elmo)
    assert not list(replica.parameters())
    (replica(given)[0] ** 2).sum().backward()
    (alone(given)[0] ** 2).sum().backward()
    for (name, found), right in zip(elmo.named_parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(found.grad, right.grad, msg=name)


def test_a_replica_mixes_stored_layers(tmp_path):
    elmo = stelmo.Elmo(stelmo.precompute(model_of(), SENTENCES, tmp_path), dropout=0.0)
    assert torch.equal(replica_of(elmo)(SENTENCES)[0], elmo(SENTENCES)[0])


# Refusals


@pytest.mark.parametrize(
    "settings",
    [{"outputs": 0}, {"dropout": 1.0}, {"dropout": -0.1}, {"state": "carry"}, {"state": "cold"}, {"layer_norm": "x"}],
    ids=str,
)
def test_settings_out_of_bounds_are_refused(settings):
    with pytest.raises(stelmo.ConfigError):
        stelmo.Elmo(model_of(), **settings)


@pytest.mark.parametrize("shape", [(50,), (2, 50), (1, 2, 3, 50)], ids=str)
def test_a_tensor_of_another_rank_is_refused(shape):
    with pytest.raises(stelmo.DataError, match=r"expected character ids \(B, T, 50\)"):
        elmo_of()(torch.ones(shape, dtype=torch.long))


def test_character_ids_are_refused_by_a_model_of_word_ids():
    with pytest.raises(stelmo.ConfigError, match="does not read bytes"):
        elmo_of(model_of(oracle.options(filters=None)))(torch.ones(1, 2, 50, dtype=torch.long))


@pytest.mark.parametrize("sentences", ["a string", ["a sentence"], [["a", 1]], 7], ids=str)
def test_what_is_no_list_of_tokens_is_refused(sentences):
    with pytest.raises(stelmo.DataError):
        elmo_of()(sentences)


def test_a_model_in_float64_needs_no_conversion_of_the_module():
    model = model_of()
    found, _ = stelmo.Elmo(model, dropout=0.0)(SENTENCES)
    assert found.dtype == torch.float64
    assert_rows(found, model.embed(SENTENCES))


def test_a_bilm_that_is_unfrozen_later_gets_gradients_and_one_frozen_later_none():
    elmo = elmo_of()
    elmo.bilm.requires_grad_(True)
    elmo(SENTENCES)[0].square().sum().backward()
    assert all(parameter.grad is not None for parameter in elmo.bilm.parameters())
    frozen = elmo_of(trainable=True)
    frozen.bilm.requires_grad_(False)
    frozen(SENTENCES)[0].sum().backward()
    assert all(parameter.grad is None for parameter in frozen.bilm.parameters())


def test_a_frozen_module_made_later_does_not_freeze_a_trainable_one():
    model = model_of()
    trainable = elmo_of(model, trainable=True)
    elmo_of(model)
    assert all(parameter.requires_grad for parameter in trainable.bilm.parameters())


def test_character_ids_of_another_integer_type_do():
    elmo = elmo_of()
    ids = torch.from_numpy(chars.encode_sentences(SENTENCES)).int()
    assert torch.equal(elmo(ids)[0], elmo(ids.long())[0])


def with_a_hole(ids):
    ids[0, 1] = 0
    return ids


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.from_numpy(chars.encode_sentences(SENTENCES, 40)), r"expected character ids \(B, T, 50\)"),
        (torch.full((1, 2, 50), 300), "character ids are 0 … 261"),
        (with_a_hole(torch.from_numpy(chars.encode_sentences([["the", "bank", "a"]]))), "zeros inside a sentence"),
        ([], "no sentences"),
    ],
)
def test_ids_that_no_sentence_has_are_refused(given, message):
    with pytest.raises(stelmo.DataError, match=message):
        elmo_of()(given)


def test_the_whole_module_can_be_pickled():
    elmo = elmo_of()
    again = pickle.loads(pickle.dumps(elmo))
    assert torch.equal(again(SENTENCES)[0], elmo(SENTENCES)[0])

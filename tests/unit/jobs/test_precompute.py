"""Layers kept on disk: those of the model, whatever calls, order or interruption they come through."""

import copy
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import stelmo
from stelmo.jobs import precompute as module
from stelmo.store import layers as store
from stelmo.store.saved import Mix

SENTENCES = [["the", "bank", "."], [], ["a"], ["über", "日本", "river", "bank"], ["thebank", "."], ["the bank", "."]]
DOCS = Path(__file__).parents[3] / "docs" / "precompute.md"
MODEL = tiny.model()


def precompute(folder, sentences=SENTENCES, model=MODEL, **options):
    return stelmo.precompute(model, sentences, folder, **({"block_tokens": 5} | options))


def assert_layers_of(cached, sentences, model=MODEL, **tolerance):
    for sentence, expected in zip(sentences, model.layers(sentences), strict=True):
        assert cached.layers(sentence).shape == expected.shape
        np.testing.assert_allclose(cached.layers(sentence), expected, **({"rtol": 0, "atol": 2e-5} | tolerance))


def counting(model):
    """The sentences that are computed from now on."""
    counted, original = [], model.layers

    def count(sentences, state=None):
        counted.extend(sentence for sentence in sentences if sentence)
        return original(sentences, state)

    model.layers = count
    return counted


# Numbers


def test_no_block_depends_on_words_remembered_from_another(model, tmp_path):
    precompute(tmp_path / "warm", model=model)
    remembered = tiny.counting_words(model)
    precompute(tmp_path / "c", [[*sentence, "more"] for sentence in SENTENCES], model)
    assert len(remembered) > 3
    assert set(remembered[1:]) == {0}  # the first call asks for the shape of an empty sentence


@pytest.mark.parametrize("state", ["fresh", "warm"])
def test_the_layers_kept_are_those_of_the_model(state, tmp_path):
    model = tiny.model(state=state)
    assert_layers_of(precompute(tmp_path / "c", model=model), SENTENCES, model)
    assert_layers_of(precompute(tmp_path / "d", state=state), SENTENCES, model)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_bits_kept_are_the_bits_computed(precision, tmp_path):
    model = tiny.model(precision=precision)
    computed, original = {}, model.layers

    def layers(sentences, state=None):
        found = original(sentences, state)
        computed.update(zip(map(tuple, sentences), found, strict=True))
        return found

    model.layers = layers
    cached = precompute(tmp_path / "c", model=model)
    assert len(computed) == len(SENTENCES)
    for sentence, expected in computed.items():
        assert cached.layers(sentence).dtype == precision
        np.testing.assert_array_equal(cached.layers(sentence), expected)


def test_float16_halves_the_folder_and_keeps_three_figures(tmp_path):
    half, full = precompute(tmp_path / "half", dtype="float16"), precompute(tmp_path / "full")
    assert half.layers(SENTENCES[0]).dtype == np.float16
    assert_layers_of(half, SENTENCES, rtol=1e-3, atol=1e-3)
    assert half.batch(SENTENCES)[0].dtype == full.batch(SENTENCES)[0].dtype == torch.float32
    sizes = [(tmp_path / name / "layers.bin").stat().st_size for name in ("half", "full")]
    assert 2 * sizes[0] == sizes[1]


def test_a_number_too_large_for_float16_is_refused(tmp_path):
    config = tiny.CONFIG.model_copy(update={"encoder": tiny.LSTM.model_copy(update={"projection_clip": None})})
    saved = tiny.saved(config)
    saved.bilm.encoder.projection.mul_(1e6)
    with pytest.raises(stelmo.DataError, match=r"'the bank \.' reach .*which is outside the range of float16"):
        precompute(tmp_path / "c", model=stelmo.Model(saved), dtype="float16")


def test_a_batch_is_padded_with_zeros_and_the_mask_says_where(tmp_path):
    layers, mask = precompute(tmp_path / "c").batch(SENTENCES)
    assert layers.shape == (3, 6, 4, 12)
    assert mask.sum(1).tolist() == [len(sentence) for sentence in SENTENCES]
    assert not layers[:, ~mask].any()
    for row, expected in enumerate(MODEL.layers(SENTENCES)):
        np.testing.assert_allclose(layers[:, row, : expected.shape[1]], expected, rtol=0, atol=2e-5)


def test_a_batch_can_be_changed_without_harm_to_the_folder(tmp_path):
    cached = precompute(tmp_path / "c")
    cached.batch(SENTENCES)[0].fill_(7)
    assert_layers_of(cached, SENTENCES)


def test_a_sentence_is_its_tokens(tmp_path):
    cached = precompute(tmp_path / "c", [["ab", "c"], ["x"], ["x"], ("x",)])
    assert len(cached) == 2
    assert ("ab", "c") in cached
    for other in (["a", "bc"], ["abc"], ["ab", "c", ""], ["ab c"], []):
        assert other not in cached


words = st.text(st.characters(), max_size=4)


@given(st.lists(words), st.lists(words))
def test_keys_are_equal_for_equal_tokens_alone(one, other):
    assert (module.key_of(one) == module.key_of(other)) == (one == other)
    assert module.key_of(["\ud83d\ude42"]) != module.key_of(["🙂"])


# Calls


@given(calls=st.lists(st.lists(st.sampled_from(SENTENCES)), max_size=4), block=st.integers(1, 20))
@settings(deadline=None, max_examples=30)
def test_any_calls_over_parts_give_what_one_call_gives(calls, block, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls") / "c"
    wanted: list[list[str]] = []
    for call in calls:
        wanted += call
        cached = precompute(folder, call, block_tokens=block)
        assert len(cached) == len(set(map(tuple, wanted)))
        assert_layers_of(cached, wanted)
    assert_layers_of(precompute(folder), SENTENCES)


def test_only_what_is_missing_is_computed_and_progress_is_of_it(tmp_path):
    precompute(tmp_path / "c", SENTENCES[:3])
    model, told = tiny.model(), []
    computed = counting(model)
    precompute(tmp_path / "c", SENTENCES * 2, model, advance=told.append)
    assert computed == SENTENCES[3:]
    assert told == [4, 4]
    precompute(tmp_path / "c", SENTENCES, model)
    assert len(computed) == 3


def test_what_is_all_there_is_opened_without_writing(tmp_path):
    cached = precompute(tmp_path / "c")
    with store.appending(tmp_path / "c", cached._folder.manifest):
        assert_layers_of(precompute(tmp_path / "c"), SENTENCES)
        with pytest.raises(stelmo.OutputError, match=f"process {os.getpid()} is writing in this folder"):
            precompute(tmp_path / "c", [["new"]])


class PulledPlugError(Exception):
    """Stands for anything that ends a run in the middle."""


def test_a_stopped_call_keeps_its_blocks(tmp_path):
    def stop(_):
        raise PulledPlugError

    with pytest.raises(PulledPlugError):
        precompute(tmp_path / "c", advance=stop)
    model = tiny.model()
    computed = counting(model)
    cached = precompute(tmp_path / "c", model=model)
    assert computed == SENTENCES[2:]
    assert_layers_of(cached, SENTENCES)


KILLED = """
import itertools, os, signal, sys
import stelmo
from stelmo.store import growing
calls, number, kept = itertools.count(), int(sys.argv[3]), growing.flush_to_disk
def flush(file):
    if next(calls) == number:
        file.flush()
        os.truncate(file.fileno(), max(0, os.fstat(file.fileno()).st_size - 3))
        os.kill(os.getpid(), signal.SIGKILL)
    kept(file)
growing.flush_to_disk = flush
stelmo.precompute(stelmo.load(sys.argv[1]), [[f"w{n}", "x"] for n in range(8)], sys.argv[2], block_tokens=5)
"""


@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2)), 5])
def test_a_killed_process_leaves_whole_blocks(number, tmp_path):
    model = stelmo.load(tiny.folder(tmp_path / "model"))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "model"), str(tmp_path / "c"), str(number)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    sentences = [[f"w{n}", "x"] for n in range(8)]
    assert len(precompute(tmp_path / "c", [], model)) < len(sentences)
    assert_layers_of(precompute(tmp_path / "c", sentences, model), sentences, model)


# Another model


def test_another_model_is_refused_and_the_folder_stays(tmp_path):
    precompute(tmp_path / "c")
    other = tiny.saved()
    other.bilm.encoder.table[5, 0] += 1e-3
    with pytest.raises(stelmo.OutputError, match="another model"):
        precompute(tmp_path / "c", model=stelmo.Model(other))
    assert_layers_of(precompute(tmp_path / "c"), SENTENCES)


def test_a_model_that_learned_since_is_another(model, tmp_path):
    precompute(tmp_path / "c", model=model)
    model.bilm.lstm_forward[0].kernel.add_(1e-3)
    with pytest.raises(stelmo.OutputError, match="another model"):
        precompute(tmp_path / "c", model=model)


def test_a_model_warmed_up_anew_is_refused(model, tmp_path):
    precompute(tmp_path / "c", model=model)
    model.warm_up([["a", "text", "of", "another", "kind"]])
    with pytest.raises(stelmo.OutputError, match="another warm state"):
        precompute(tmp_path / "c", model=model)


@pytest.mark.parametrize(
    ("model", "options", "named"),
    [
        ({"state": "fresh"}, {}, "state"),
        ({}, {"state": "fresh"}, "state"),
        ({}, {"dtype": "float16"}, "dtype"),
        ({"precision": "float64"}, {}, "precision"),
    ],
    ids=str,
)
def test_other_settings_are_refused_by_name(model, options, named, tmp_path):
    precompute(tmp_path / "c")
    with pytest.raises(stelmo.OutputError, match=rf"another {named} \("):
        precompute(tmp_path / "c", model=tiny.model(**model), **options)


@pytest.mark.parametrize("harmless", [{"threads": 1}, {"batch_tokens": 7}, {"batch_rows": 3}], ids=str)
def test_settings_that_change_no_number_are_free(harmless, tmp_path):
    precompute(tmp_path / "c", SENTENCES[:2])
    assert_layers_of(precompute(tmp_path / "c", model=tiny.model(**harmless)), SENTENCES)


@pytest.mark.parametrize(("changed", "named"), [({"batch_tokens": 7}, "batch_tokens"), ({"memory": 4000}, "memory")])
def test_in_8_bits_settings_of_the_batches_change_numbers(changed, named, tmp_path):
    precompute(tmp_path / "c", model=tiny.model(precision="int8"))
    precompute(tmp_path / "c", model=tiny.model(precision="int8", batch_rows=3, threads=1))
    with pytest.raises(stelmo.OutputError, match=rf"another {named} \("):
        precompute(tmp_path / "c", model=tiny.model(precision="int8", **changed))


# Refusals


@pytest.mark.parametrize("options", [{"state": "carry"}, {"model": tiny.model(state="carry")}], ids=["call", "model"])
def test_carry_is_refused(options, tmp_path):
    with pytest.raises(stelmo.ConfigError, match="depend on those before"):
        precompute(tmp_path / "c", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sentences", "options", "error"),
    [
        ("a text", {}, stelmo.DataError),
        ([["a", 1]], {}, stelmo.DataError),
        ([["a"]], {"dtype": "int4"}, stelmo.ConfigError),
        ([["a"]], {"state": "cold"}, stelmo.ConfigError),
    ],
)
def test_mistakes_are_refused_before_anything_is_made(sentences, options, error, tmp_path):
    with pytest.raises(error):
        precompute(tmp_path / "c", sentences, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_sentence_is_named(tmp_path):
    cached = precompute(tmp_path / "c")
    for ask in (cached.layers, lambda sentence: cached.batch([SENTENCES[0], sentence])):
        with pytest.raises(stelmo.DataError, match=r"no layers of 'never seen'; add the sentence with"):
            ask(["never", "seen"])
    with pytest.raises(stelmo.DataError, match="is the string"):
        cached.layers("the bank .")
    with pytest.raises(stelmo.DataError, match="no sentences"):
        cached.batch([])


# Elmo


def learned(elmo):
    for number, mix in enumerate(elmo.mixes):
        torch.nn.init.constant_(mix.scale, 1.5 + number)
        if mix.logits is not None:
            mix.logits.data.copy_(torch.tensor([0.4, -0.9, 1.1]))
    return elmo


@pytest.mark.parametrize("options", [{}, {"outputs": 2}, {"top_only": True}, {"layer_norm": True}], ids=str)
def test_elmo_gives_from_the_folder_what_it_gives_from_the_model(options, tmp_path):
    cached = precompute(tmp_path / "c")
    found, mask = learned(stelmo.Elmo(cached, dropout=0.0, **options))(SENTENCES)
    expected, expected_mask = learned(stelmo.Elmo(MODEL, dropout=0.0, **options))(SENTENCES)
    assert torch.equal(mask, expected_mask)
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_elmo_learns_its_mixes_from_the_folder(tmp_path):
    gradients = []
    for source in (precompute(tmp_path / "c"), MODEL):
        elmo = learned(stelmo.Elmo(source, dropout=0.0))
        (elmo(SENTENCES)[0] ** 2).sum().backward()
        gradients.append([parameter.grad for parameter in elmo.mixes.parameters()])
    assert all(gradient.abs().max() > 1e-3 for gradient in gradients[0])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_elmo_from_the_folder_holds_its_mixes_alone_and_hands_them_on(tmp_path):
    elmo = learned(stelmo.Elmo(precompute(tmp_path / "c"), dropout=0.0))
    assert set(elmo.state_dict()) == {"mixes.0.logits", "mixes.0.scale"}
    served = stelmo.Elmo(MODEL, dropout=0.0)
    served.mixes.load_state_dict(elmo.mixes.state_dict())
    torch.testing.assert_close(served(SENTENCES)[0], elmo(SENTENCES)[0], rtol=0, atol=1e-5)


def test_elmo_from_the_folder_can_be_moved_copied_and_pickled(tmp_path):
    elmo = learned(stelmo.Elmo(precompute(tmp_path / "c", dtype="float16"), dropout=0.0))
    expected = elmo(SENTENCES)[0]
    for other in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        assert torch.equal(other(SENTENCES)[0], expected)
    assert elmo.double()(SENTENCES)[0].dtype == torch.float64


def test_elmo_starts_from_the_mixes_of_the_models_file(tmp_path):
    mix = Mix(torch.tensor([0.1, 0.2, 0.3]), torch.tensor(0.7))
    cached = precompute(tmp_path / "c", model=stelmo.Model(tiny.saved(mixes=(mix,))))
    assert stelmo.Elmo(cached, learned=True).mixes[0].scale.item() == pytest.approx(0.7)


def test_elmo_in_float64_is_float64(tmp_path):
    cached = precompute(tmp_path / "c", model=tiny.model(precision="float64"))
    assert stelmo.Elmo(cached)(SENTENCES)[0].dtype == torch.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trainable": True}, "cannot change"),
        ({"keep_boundaries": True}, "lack"),
        ({"layer_norm": "allennlp"}, "lack"),
        ({"state": "fresh"}, "precomputed with 'warm'"),
        ({"outputs": 0}, "at least 1"),
    ],
)
def test_elmo_refuses_what_the_folder_does_not_have(options, message, tmp_path):
    with pytest.raises(stelmo.ConfigError, match=message):
        stelmo.Elmo(precompute(tmp_path / "c"), **options)


def test_elmo_refuses_ids_and_sentences_that_were_not_computed(tmp_path):
    elmo = stelmo.Elmo(precompute(tmp_path / "c"), state="warm")
    with pytest.raises(stelmo.ConfigError, match="found by tokens"):
        elmo(torch.ones(1, 2, 50, dtype=torch.long))
    with pytest.raises(stelmo.DataError, match="no layers of 'new'"):
        elmo([["new"]])


# The page


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch):
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(snippet, names)
    assert names["vectors"].shape == (2, 2, 6, 12)
    assert names["layers"].shape == (3, 6, 12)
    assert names["batch"].shape == (3, 2, 6, 12)
    assert (len(names["cached"]), len(names["more"])) == (2, 3)

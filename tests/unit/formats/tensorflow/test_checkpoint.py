"""What TensorFlow computed from a checkpoint is what we compute from it, vectors and probabilities."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.embed.model import Model
from stelmo.engine import plain as engine
from stelmo.errors import ModelError, StelmoError
from stelmo.formats.tensorflow import checkpoint
from stelmo.formats.tensorflow.index import crc32c
from stelmo.settings import LoadSettings
from stelmo.store.saved import SavedModel
from stelmo.text.ids import word_ids

FIXTURE = Path(__file__).parents[3] / "fixtures" / "bilm_tf_checkpoint"
EXPECTED = dict(np.load(FIXTURE / "expected_outputs.npz"))
FILES = ("checkpoint", "options.json", "vocab.txt", "model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001")
VOCABULARY = [line for line in (FIXTURE / "vocab.txt").read_text("utf-8").split("\n") if line]
SENTENCES = [["the", "naïve", "cat"], ["日本"], ["a" * 60, "<S>", "", "\udc80x"]]


@pytest.fixture
def folder(tmp_path):
    """A copy of the fixture to change."""
    for name in FILES:
        shutil.copy(FIXTURE / name, tmp_path / name)
    return tmp_path


def sentence(number: int) -> list[str]:
    return EXPECTED[f"sentence_{number}"].tolist()


def layers(saved: SavedModel, tokens: list[str]) -> torch.Tensor:
    """(L+1, T, 2P) with <S> and </S>."""
    batch = engine.batch_of_tokens([tokens], word_ids(saved.config, saved.vocabulary))
    with torch.inference_mode():
        return engine.layers(saved.bilm, batch, saved.bilm.zero_state())[0][:, 0]


# TensorFlow's float32 against ours: the vectors reach 5, the log-probabilities −10.
@pytest.mark.parametrize("number", [0, 1])
def test_the_layers_are_those_of_tensorflow(number):
    found, expected = layers(checkpoint.read(FIXTURE), sentence(number)), EXPECTED[f"layers_{number}"]
    assert np.abs(expected).max() > 3.0  # beyond the clips, by the skip connection
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("number", [0, 1])
def test_the_probabilities_of_both_directions_are_those_of_tensorflow(number):
    saved = checkpoint.read(FIXTURE)
    softmax, width = saved.read_softmax(), saved.config.lstm.projection
    top_TD = layers(saved, sentence(number))[-1]
    ahead, behind = softmax(top_TD[:, :width]), softmax(top_TD[:, width:])
    np.testing.assert_allclose(ahead, EXPECTED[f"forward_log_probabilities_{number}"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(behind, EXPECTED[f"backward_log_probabilities_{number}"], rtol=0, atol=1e-5)


def test_the_model_has_its_vocabulary_and_its_name():
    saved = checkpoint.read(FIXTURE)
    assert list(saved.vocabulary) == VOCABULARY
    assert saved.format == "bilm-tf checkpoint"


@pytest.mark.parametrize("name", ["", "checkpoint", "model.ckpt-3", *FILES[3:]])
def test_folder_prefix_and_each_file_name_the_same_checkpoint(folder, name):
    assert checkpoint.recognises(folder / name)
    assert checkpoint.read(folder / name).fingerprint() == checkpoint.read(FIXTURE).fingerprint()


def test_other_paths_are_not_recognised(tmp_path):
    (tmp_path / "weights.hdf5").write_bytes(b"")
    assert not any(checkpoint.recognises(path) for path in (tmp_path, tmp_path / "weights.hdf5", tmp_path / "absent"))


def test_without_a_vocabulary_the_probabilities_have_numbers_only(folder):
    (folder / "vocab.txt").unlink()
    saved = checkpoint.read(folder)
    assert saved.vocabulary is None
    assert saved.read_softmax().weight.shape == (20, 6)


def test_options_and_vocabulary_may_lie_elsewhere(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    options = shutil.move(folder / "options.json", elsewhere / "a.json")
    vocabulary = shutil.move(folder / "vocab.txt", elsewhere / "words")
    saved = checkpoint.read(folder, Path(options), Path(vocabulary))
    assert saved.fingerprint() == checkpoint.read(FIXTURE).fingerprint()


# Checkpoints that TensorFlow did not write: an index of one block, as the format has it.


def varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + varint(number >> 7) if number > 0x7F else bytes([number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def block(rows) -> bytes:
    entries = b"".join(varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in rows)
    body = entries + bytes(4) + (1).to_bytes(4, "little")
    return body + b"\0" + checksum(body + b"\0")


def write_bundle(prefix: Path, arrays) -> None:
    kinds, data, rows = {"float32": 1, "float64": 2, "int64": 9}, b"", [(b"", number(1, 1))]
    for name in sorted(arrays):
        raw = arrays[name].tobytes()
        shape = b"".join(message(2, number(1, size)) for size in arrays[name].shape)
        place = number(4, len(data)) + number(5, len(raw)) + b"\x35" + checksum(raw)
        rows.append((name.encode(), number(1, kinds[str(arrays[name].dtype)]) + message(2, shape) + place))
        data += raw
    entries = block(rows)
    index = block([(b"\xff", varint(0) + varint(len(entries) - 5))])
    footer = (varint(0) * 2 + varint(len(entries)) + varint(len(index) - 5)).ljust(40, b"\0")
    magic = 0xDB4775248B80FB57.to_bytes(8, "little")
    Path(f"{prefix}.index").write_bytes(entries + index + footer + magic)
    Path(f"{prefix}.data-00000-of-00001").write_bytes(data)


def variables(arrays, stack="multi_rnn_cell/cell_{}/"):
    """Published datasets under the names of training."""
    found = {}
    for name, array in arrays.items():
        parts = name.split("/")
        if parts[0].startswith("RNN_"):
            last = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}[parts[-1]]
            name = f"{parts[0]}/rnn/{stack.format(parts[3].removeprefix('Cell'))}lstm_cell/{last}"
        found[f"lm/{name}"] = array
        found[f"lm/{name}/Adagrad"] = np.ones_like(array)
    return found | {"global_step": np.array(3, np.int64)}


def trained(folder: Path, options, arrays, words=None) -> Path:
    write_bundle(folder / "model.ckpt-7", arrays)
    if words is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    (folder / "options.json").write_text(json.dumps(options))
    return folder


def assert_oracle(saved: SavedModel, options, arrays, sentences=SENTENCES, vocabulary=None):
    found = Model(saved, LoadSettings(precision="float64", state="fresh")).layers(sentences)
    for tokens, vectors in zip(sentences, found, strict=True):
        expected = oracle.layers(options, arrays, tokens, vocabulary=vocabulary)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "stack"),
    [
        ({}, "multi_rnn_cell/cell_{}/"),
        ({"projection": 6}, "multi_rnn_cell/cell_{}/"),  # P = D: a plain LSTM
        ({"projection": 9, "cells": 12}, "multi_rnn_cell/cell_{}/"),  # F = P: no projection of words
        ({"layers": 3, "skip": False, "highways": 0}, "multi_rnn_cell/cell_{}/"),
        ({"layers": 1}, ""),  # one layer has no stack around it
    ],
)
def test_other_architectures_give_the_oracles_numbers(tmp_path, shape, stack):
    options = oracle.options(**shape)
    arrays = oracle.random_weights(options, seed=8)
    saved = checkpoint.read(trained(tmp_path, options, variables(arrays, stack)))
    assert saved.read_softmax is None
    assert_oracle(saved, options, arrays)


def word_model():
    options = oracle.options(filters=None) | {"n_tokens_vocab": len(VOCABULARY), "bidirectional": True}
    return options, oracle.random_weights(options, words=len(VOCABULARY))


def test_a_model_that_reads_word_ids_gives_the_oracles_numbers(tmp_path):
    options, arrays = word_model()
    saved = checkpoint.read(trained(tmp_path, options, variables(arrays), VOCABULARY))
    assert_oracle(saved, options, arrays, [["the", "unseen", "日本"]], VOCABULARY)


def test_a_softmax_that_shares_the_word_table_is_that_table(tmp_path):
    options, arrays = word_model()
    shared = variables(arrays) | {"lm/softmax/b": np.arange(20.0)}
    softmax = checkpoint.read(trained(tmp_path, options, shared, VOCABULARY)).read_softmax()
    np.testing.assert_array_equal(softmax.weight, arrays["embedding"])


def test_a_model_that_reads_word_ids_needs_its_vocabulary(tmp_path):
    options, arrays = word_model()
    with pytest.raises(ModelError, match="needs its vocabulary"):
        checkpoint.read(trained(tmp_path, options, variables(arrays)))


OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS, seed=9)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=20), max_size=4))
def test_any_sentence_gives_the_oracles_numbers(model, tokens):
    np.testing.assert_allclose(model.layers([tokens])[0], oracle.layers(OPTIONS, ARRAYS, tokens), rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    saved = checkpoint.read(trained(tmp_path_factory.mktemp("checkpoint"), OPTIONS, variables(ARRAYS)))
    return Model(saved, LoadSettings(precision="float64", state="fresh"))


# Refusals


def test_missing_options_say_where_training_wrote_them(folder):
    (folder / "options.json").unlink()
    with pytest.raises(ModelError, match=r"options\.json: no such file; training wrote options.json into the folder"):
        checkpoint.read(folder)


def test_several_vocabularies_are_refused(folder):
    shutil.copy(folder / "vocab.txt", folder / "vocab_small.txt")
    with pytest.raises(ModelError, match=r"2 vocabularies \(vocab.txt, vocab_small.txt\)"):
        checkpoint.read(folder)


def changed(folder: Path, **values) -> Path:
    options = json.loads((folder / "options.json").read_text())
    (folder / "options.json").write_text(json.dumps(options | values))
    return folder


def test_options_that_count_other_words_than_the_softmax_are_refused(folder):
    with pytest.raises(ModelError, match=r"lm/softmax/W 20, .* n_tokens_vocab of options\.json 21"):
        checkpoint.read(changed(folder, n_tokens_vocab=21))


def test_a_vocabulary_of_another_training_is_refused(folder):
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    with pytest.raises(ModelError, match=r"vocab\.txt 3\); expected the files of one training"):
        checkpoint.read(folder)


def test_one_direction_is_refused_whether_the_options_say_it_or_the_variables(folder, tmp_path_factory):
    reason = "a model of one direction is not read, because every layer here joins the vectors of both directions"
    with pytest.raises(ModelError, match=f"bidirectional is false; {reason}"):
        checkpoint.read(changed(folder, bidirectional=False))
    one = {name.replace("RNN_0/", ""): array for name, array in variables(ARRAYS).items() if "RNN_1" not in name}
    with pytest.raises(ModelError, match=f"lm/rnn/.*; {reason}"):
        checkpoint.read(trained(tmp_path_factory.mktemp("one"), OPTIONS, one))


def refusal(folder: Path, changes) -> str:
    with pytest.raises(ModelError) as refused:
        checkpoint.read(trained(folder, OPTIONS, variables(ARRAYS) | changes))
    return str(refused.value)


def test_variables_of_another_shape_or_kind_are_refused(tmp_path):
    bias = "lm/RNN_1/rnn/multi_rnn_cell/cell_1/lstm_cell/bias"
    assert f"{bias} has shape (23,); the options say (24)" in refusal(tmp_path, {bias: np.zeros(23)})
    assert f"{bias} holds int64" in refusal(tmp_path, {bias: np.zeros(24, np.int64)})
    assert f"{bias} holds NaN" in refusal(tmp_path, {bias: np.full(24, np.nan)}).replace(
        "tensor lstm_backward.1.bias", bias
    )
    assert "expected 2 dimensions" in refusal(tmp_path, {"lm/softmax/W": np.zeros(3), "lm/softmax/b": np.zeros(3)})
    assert "char_embed has 9 rows" in refusal(tmp_path, {"lm/char_embed": np.zeros((9, 3))})


@pytest.mark.parametrize("fewer", [{"layers": 1}, {"highways": 0}, {"layers": 2, "highways": 1}])
def test_options_that_pass_over_a_layer_are_refused(tmp_path, fewer):
    arrays = oracle.random_weights(oracle.options(layers=3, highways=2))
    with pytest.raises(ModelError, match=r"no tensor|is not in the options"):
        checkpoint.read(trained(tmp_path, oracle.options(**fewer), variables(arrays)))


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    write_bundle(tmp_path / "model.ckpt-1", {"dense/kernel": np.zeros(3)})
    with pytest.raises(ModelError, match="holds dense/kernel; expected a biLM"):
        checkpoint.read(tmp_path)


@pytest.mark.parametrize("name", ["n_layers", "dim", "projection_dim"])
def test_options_that_promise_a_giant_are_refused_at_once(folder, name):
    options = json.loads((folder / "options.json").read_text())
    with pytest.raises(ModelError):
        checkpoint.read(changed(folder, lstm=options["lstm"] | {name: 2_000_000_000}))


def outcome(folder: Path, name: str, raw: bytes) -> SavedModel | None:
    (folder / name).write_bytes(raw)
    try:
        return checkpoint.read(folder)
    except ModelError:
        return None


@pytest.mark.parametrize("name", FILES[3:])
def test_a_truncated_file_is_refused(folder, name):
    raw = (folder / name).read_bytes()
    assert all(outcome(folder, name, raw[:end]) is None for end in range(0, len(raw), len(raw) // 40))


@pytest.mark.parametrize("name", FILES[3:])
def test_a_flipped_bit_is_refused_or_harmless(folder, name):
    chance, raw, whole = random.Random(10), (folder / name).read_bytes(), checkpoint.read(folder).fingerprint()
    found = []
    for _ in range(100):
        flipped = bytearray(raw)
        flipped[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        found.append(outcome(folder, name, bytes(flipped)))
    assert {saved.fingerprint() for saved in found if saved is not None} <= {whole}
    assert None in found


@pytest.mark.parametrize("name", ["options.json", "vocab.txt", "checkpoint"])
def test_damaged_text_raises_nothing_but_our_errors(folder, name):
    chance, raw = random.Random(11), (folder / name).read_bytes()
    for _ in range(100):
        flipped = bytearray(raw)
        flipped[chance.randrange(len(raw))] = chance.randrange(256)
        (folder / name).write_bytes(flipped)
        with suppress(StelmoError):  # a changed clip or word does not show
            checkpoint.read(folder)

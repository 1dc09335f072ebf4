"""AllenNLP's language models in all their wrappings; their numbers are in tests/golden."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

import stelmo
from stelmo.errors import ModelError
from stelmo.formats import models
from stelmo.formats.allennlp_lm import read_jsonnet

GOLDEN = Path(__file__).parents[2] / "golden"
ARCHIVE = GOLDEN / "allennlp-transformer" / "published-shape.tar.gz"
SENTENCES = [["The", "cat", "sat", "."], ["Wait", "!"]]
EMBEDDER = "_text_field_embedder.token_embedder_token_characters."


def members():
    """The files of the golden archive."""
    with tarfile.open(ARCHIVE) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


def state_of(files):
    return torch.load(io.BytesIO(files["weights.th"]), weights_only=True)


def pickled(state):
    made = io.BytesIO()
    torch.save(state, made)
    return made.getvalue()


def packed(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def changed(files, change):
    """With a changed config.json."""
    config = json.loads(files["config.json"])
    change(config)
    return files | {"config.json": json.dumps(config).encode()}


def archive_of(tmp_path, contextualizer, said, width=32):
    """The golden archive's words and softmax under another contextualizer."""
    files = members()
    state = {name: tensor for name, tensor in state_of(files).items() if not name.startswith("_contextualizer.")}
    state |= {f"_contextualizer.{name}": tensor for name, tensor in contextualizer.items()}
    files = changed(files, lambda config: config["model"].update(contextualizer=said))
    return packed(tmp_path / "m.tar.gz", files | {"weights.th": pickled(state)})


def same_layers(found, right):
    for one, other in zip(found.layers(SENTENCES), right.layers(SENTENCES), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("top", ["./", "data/", "a/b/"])
def test_names_may_have_a_folder_in_front(top, tmp_path):
    path = packed(tmp_path / "m.tar.gz", {f"{top}{name}": data for name, data in members().items()})
    found = stelmo.load(path)
    same_layers(found, stelmo.load(ARCHIVE))
    assert len(found.vocabulary) == len(found.softmax.bias) == 61


def test_an_unpacked_archive_is_read(tmp_path):
    for name, data in members().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = stelmo.load(tmp_path)
    same_layers(found, stelmo.load(ARCHIVE))
    np.testing.assert_array_equal(
        found.log_probs(SENTENCES)[0].forward, stelmo.load(ARCHIVE).log_probs(SENTENCES)[0].forward
    )


def test_weights_alone_show_their_architecture(tmp_path):
    (tmp_path / "weights.th").write_bytes(members()["weights.th"])
    found = stelmo.load(tmp_path / "weights.th")
    same_layers(found, stelmo.load(ARCHIVE))
    assert found.vocabulary is None


def test_the_vocabulary_has_our_names_and_a_word_for_the_last_row():
    words = stelmo.load(ARCHIVE).vocabulary.words
    assert words[:4] == ("</S>", "<S>", "<UNK>", "Stop")
    assert words[-1] == "@@PADDING@@"


def test_a_language_model_inside_a_task_s_model_brings_its_mix(tmp_path):
    state = {name: tensor for name, tensor in state_of(members()).items() if not name.startswith("_softmax")}
    root = "_text_field_embedder.token_embedder_elmo."
    inner = {f"{root}_lm.{name}": tensor for name, tensor in state.items()}
    inner |= {f"{root}_scalar_mix.scalar_parameters.{layer}": torch.tensor([float(layer)]) for layer in range(3)}
    inner |= {f"{root}_scalar_mix.gamma": torch.tensor([2.0]), "classifier.weight": torch.ones(2, 2)}
    (tmp_path / "weights.th").write_bytes(pickled(inner))
    found = stelmo.load(tmp_path / "weights.th")
    same_layers(found, stelmo.load(ARCHIVE))
    assert found.mixes[0].logits_L.tolist() == [0, 1, 2]
    assert float(found.mixes[0].scale) == 2.0
    with pytest.raises(ModelError, match="no softmax"):
        found.log_probs(SENTENCES)


@pytest.mark.parametrize("layout", ["sparse", "dense", "never sampled"])
def test_every_layout_of_the_softmax(layout, tmp_path):
    files = members()
    state = state_of(files)
    weight, bias = (state.pop(f"_softmax_loss.softmax_{part}.weight") for part in "wb")
    state |= {
        "sparse": {"_softmax_loss.softmax_w.weight": weight, "_softmax_loss.softmax_b.weight": bias},
        "dense": {"_softmax_loss.softmax_w": weight, "_softmax_loss.softmax_b": bias[:, 0].clone()},
        "never sampled": {"_softmax_loss.softmax_w": weight.T.clone(), "_softmax_loss.softmax_b": bias[:, 0].clone()},
    }[layout]
    found = stelmo.load(packed(tmp_path / "m.tar.gz", files | {"weights.th": pickled(state)}))
    torch.testing.assert_close(found.softmax.weight, weight, atol=0, rtol=0)
    torch.testing.assert_close(found.softmax.bias, bias[:, 0], atol=0, rtol=0)


def test_a_gated_cnn_is_read_with_its_dilations(tmp_path):
    blocks = [[[2, 32, 3]], [[1, 5], [4, 32]]]
    state = {}
    for side in ("forward", "backward"):
        for number, block in enumerate(blocks):
            inputs = 32
            for place, (width, outputs, *_) in enumerate(block):
                name = f"_{side}_residual_blocks.{number}._convolutions.{place}"
                state[f"{name}.weight_v"] = torch.randn(2 * outputs, inputs, width)
                state[f"{name}.weight_g"] = torch.rand(2 * outputs, 1, 1)
                state[f"{name}.bias"] = torch.randn(2 * outputs)
                inputs = outputs
    said = {"type": "gated-cnn-encoder", "input_dim": 32, "layers": blocks}
    found = stelmo.load(archive_of(tmp_path, state, said))
    assert found.config.encoder.blocks == (((2, 32, 3),), ((1, 5), (4, 32)))
    assert found.config.depth == 3
    assert np.isfinite(found.log_probs(SENTENCES)[0].forward).all()
    with pytest.raises(ModelError, match="layers of the configuration do not fit"):
        stelmo.load(archive_of(tmp_path, state, said | {"layers": blocks[:1]}))


def test_an_lstm_is_torch_s(tmp_path):
    lstm = torch.nn.LSTM(32, 32, bidirectional=True, batch_first=True)
    state = {f"_module.{name}": tensor.detach() for name, tensor in lstm.state_dict().items()}
    found = stelmo.load(archive_of(tmp_path, state, {"type": "lstm", "input_size": 32, "hidden_size": 32}))
    words = torch.from_numpy(found.token_vectors(["<S>", *SENTENCES[0], "</S>"]))
    with torch.no_grad():
        right = lstm(words[None])[0][0, 1:-1]
    np.testing.assert_allclose(found.layers(SENTENCES)[0][1], right, atol=2e-6)
    assert found.config.has_state


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.nn.LSTM(32, 32, 2, bidirectional=True), "several layers.*sees the word that it predicts"),
        (lambda: torch.nn.LSTM(32, 16, bidirectional=True), "16 cells over vectors of 32"),
        (lambda: torch.nn.GRU(32, 32), "96 gates over 32 cells; expected a transformer"),
    ],
)
def test_other_recurrent_networks_are_refused(make, message, tmp_path):
    state = {f"_module.{name}": tensor.detach() for name, tensor in make().state_dict().items()}
    with pytest.raises(ModelError, match=message):
        stelmo.load(archive_of(tmp_path, state, {"type": "lstm"}))


def characters_of_their_own(config):
    config["dataset_reader"]["base_reader"]["token_indexers"]["token_characters"] = {"type": "characters"}


def other_markers(config):
    config["dataset_reader"]["base_reader"]["start_tokens"] = ["[CLS]"]


def one_direction(config):
    config["model"]["bidirectional"] = False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (characters_of_their_own, "indexer 'characters'; only elmo_characters"),
        (other_markers, r"start_tokens is \['\[CLS\]'\]"),
        (one_direction, "bidirectional is false"),
    ],
)
def test_what_would_give_other_vectors_is_refused(change, message, tmp_path):
    with pytest.raises(ModelError, match=message):
        stelmo.load(packed(tmp_path / "m.tar.gz", changed(members(), change)))


def test_archives_of_later_versions_have_their_epsilon(tmp_path):
    def later(config):
        config["data_loader"] = config.pop("iterator")

    found = models.read(packed(tmp_path / "m.tar.gz", changed(members(), later)))
    assert found.config.encoder.epsilon == found.config.input.layer_norm == 1e-13
    assert models.read(ARCHIVE).config.encoder.epsilon == 1e-6


@pytest.mark.parametrize(
    "missing", ["_position.positional_encoding", "_backward_transformer.layers.1.self_attn.linears.2.bias"]
)
def test_a_missing_tensor_is_named(missing, tmp_path):
    files = members()
    state = state_of(files)
    del state[f"_contextualizer.{missing}"]
    with pytest.raises(ModelError, match=r"unknown contextualizer|linears\.2\.bias is missing"):
        stelmo.load(packed(tmp_path / "m.tar.gz", files | {"weights.th": pickled(state)}))


def test_two_language_models_need_a_prefix(tmp_path):
    state = state_of(members())
    both = {f"{name}._lm.{key}": tensor for name in ("a", "b") for key, tensor in state.items()}
    (tmp_path / "weights.th").write_bytes(pickled(both))
    with pytest.raises(ModelError, match=r"2 language models, a\._lm\. and b\._lm\.; choose one by prefix"):
        stelmo.load(tmp_path / "weights.th")
    same_layers(stelmo.load(tmp_path / "weights.th", prefix="a."), stelmo.load(ARCHIVE))


def test_jsonnet_s_commas_and_comments_are_read_and_strings_kept(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"a": [1, 2,], // one\n "b": {"c": "x,] // \\" y,}",}, /* two, */ "d": "http://e",}')
    assert read_jsonnet(path) == {"a": [1, 2], "b": {"c": 'x,] // " y,}'}, "d": "http://e"}
    path.write_text("local x = 1; {a: x}")
    with pytest.raises(ModelError, match="evaluate it with jsonnet"):
        read_jsonnet(path)


def test_it_becomes_a_folder_of_ours(tmp_path):
    model = stelmo.load(ARCHIVE)
    model.save(tmp_path / "m")
    found = stelmo.load(tmp_path / "m")
    same_layers(found, model)
    np.testing.assert_array_equal(found.log_probs(SENTENCES)[1].backward, model.log_probs(SENTENCES)[1].backward)

"""An ELMo out of an AllenNLP state gives the numbers that AllenNLP's conventions, and the oracle's, give.

`state_of` turns published arrays into AllenNLP's names and layout; `by_pytorch` runs such a state with PyTorch's own
LSTM, which shares that layout but knows no clips. A reader that turned a gate the wrong way would have to be wrong
in both.
"""

import gzip
import io
import json
import os
import pickle
import random
import tarfile
from pathlib import Path

import numpy as np
import oracle
import pytest
import torch
from allennlp_state import state_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from stelmo.embed.model import Model
from stelmo.errors import ModelError
from stelmo.formats import allennlp, bilm, models
from stelmo.settings import LoadSettings
from stelmo.store.saved import SavedModel

OPTIONS = oracle.options(highways=2)
UNCLIPPED = oracle.options(highways=2, cell_clip=None, proj_clip=None)
ARRAYS = oracle.random_weights(OPTIONS, seed=6)
SENTENCES = [["the", "naïve", "cat"], ["日本"], ["a" * 60, "<S>", "", "\udc80x"]]
TASK = "text_field_embedder.token_embedder_elmo._elmo."
FTA = "fta/model.text_field_embedder.token_embedders.elmo.options_file"
EXACT = 1e-12


def by_pytorch(state, tokens):
    """The layers (3, n, 2P) of one sentence, without clips, by PyTorch's own operations on an AllenNLP state."""
    ids = [oracle.raw_ids(token, 50) for token in ("<S>", *tokens, "</S>")]
    part = {name.removeprefix("_elmo_lstm."): value for name, value in state.items()}
    table = part["_token_embedder._char_embedding_weights"]
    x_TCW = F.embedding(torch.tensor(ids) + 1, table).transpose(1, 2)
    windows = [F.conv1d(x_TCW, *pair(part, f"_token_embedder.char_conv_{i}")).amax(-1) for i in range(3)]
    x_TF = torch.relu(torch.cat(windows, -1))
    for number in range(2):
        transformed, gate = F.linear(x_TF, *pair(part, f"_token_embedder._highways._layers.{number}")).chunk(2, -1)
        x_TF = gate.sigmoid() * x_TF + (1 - gate.sigmoid()) * torch.relu(transformed)
    x_TP = F.linear(x_TF, *pair(part, "_token_embedder._projection"))
    ahead, behind = stack(part, "forward", x_TP), stack(part, "backward", x_TP.flip(0))
    layers = [torch.cat([x_TP, x_TP], -1)]
    layers += [torch.cat([left, right.flip(0)], -1) for left, right in zip(ahead, behind, strict=True)]
    return torch.stack(layers)[:, 1:-1].numpy()


def pair(part, name):
    return part[f"{name}.weight"], part[f"{name}.bias"]


def stack(part, direction, x_TP):
    first = lstm(part, f"_elmo_lstm.{direction}_layer_0", x_TP)
    return first, first + lstm(part, f"_elmo_lstm.{direction}_layer_1", first)


@torch.no_grad()
def lstm(part, name, x_TP):
    projection_PD = part[f"{name}.state_projection.weight"]
    module = torch.nn.LSTM(len(projection_PD), projection_PD.shape[1], proj_size=len(projection_PD)).to(x_TP.dtype)
    module.weight_ih_l0.copy_(part[f"{name}.input_linearity.weight"])
    module.weight_hh_l0.copy_(part[f"{name}.state_linearity.weight"])
    module.bias_ih_l0.copy_(part[f"{name}.state_linearity.bias"])
    module.bias_hh_l0.zero_()
    module.weight_hr_l0.copy_(projection_PD)
    return module(x_TP)[0]


def archived(path: Path, state, members=None, options=OPTIONS):
    raw = io.BytesIO()
    torch.save(state, raw)
    contents = {
        "config.json": b'{"model": {}}',
        "weights.th": raw.getvalue(),
        "vocabulary/tokens.txt": b"@@UNKNOWN@@\n",
    }
    contents |= {} if options is None else {FTA: json.dumps(options).encode()}
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, data in (contents | (members or {})).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def saved_state(path: Path, state) -> Path:
    torch.save(state, path)
    return path


def layers(saved: SavedModel, sentences=SENTENCES, precision="float64"):
    return Model(saved, LoadSettings(precision=precision, state="fresh")).layers(sentences)


def assert_oracle(saved: SavedModel, options=OPTIONS):
    for tokens, found in zip(SENTENCES, layers(saved), strict=True):
        np.testing.assert_allclose(found, oracle.layers(options, ARRAYS, tokens), rtol=0, atol=EXACT)


def test_the_clips_bite_in_these_tests():
    found = np.concatenate([oracle.layers(OPTIONS, ARRAYS, tokens)[1] for tokens in SENTENCES])
    assert 0.05 < np.mean(np.abs(found) == OPTIONS["lstm"]["proj_clip"]) < 0.95


def test_an_archive_with_its_options_gives_the_oracles_numbers(tmp_path):
    path = archived(tmp_path / "model.tar.gz", state_of(ARRAYS, TASK))
    assert allennlp.recognises(path)
    saved = allennlp.read(path)
    assert saved.format == "AllenNLP archive"
    assert saved.vocabulary is None
    assert_oracle(saved)


def test_an_archive_gives_the_numbers_of_pytorchs_own_lstm(tmp_path):
    state = state_of(ARRAYS)
    saved = allennlp.read(archived(tmp_path / "model.tar.gz", state, options=UNCLIPPED))
    for tokens, found in zip(SENTENCES, layers(saved), strict=True):
        np.testing.assert_allclose(found, by_pytorch(state, tokens), rtol=0, atol=EXACT)


# b + 1 was rounded when AllenNLP made it, so what comes back after − 1 is off by up to half of what a float32 near
# b + 1 can tell apart: 1.2e-7 where that is below 4. All else is the published file's, bit for bit.
def test_in_single_precision_the_forget_bias_costs_a_bit_and_no_more(tmp_path):
    arrays = {name: array.astype(np.float32) for name, array in ARRAYS.items()}
    oracle.write(tmp_path, OPTIONS, arrays)
    published = bilm.read(tmp_path / "weights.hdf5", tmp_path / "options.json")
    saved = allennlp.read(archived(tmp_path / "model.tar.gz", state_of(arrays, TASK, torch.float32)))
    for name, expected in published.bilm.state_dict().items():
        tolerance = 1.2e-7 if name.startswith("lstm") and name.endswith("bias") else 0.0
        torch.testing.assert_close(saved.bilm.state_dict()[name], expected, rtol=0, atol=tolerance)
    for found, expected in zip(
        layers(saved, SENTENCES, "float32"), layers(published, SENTENCES, "float32"), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_double_precision_comes_back_as_the_published_files_have_it(tmp_path):
    arrays = {name: np.round(array * 64) / 64 for name, array in ARRAYS.items()}  # b + 1 − 1 is then exactly b
    oracle.write(tmp_path, OPTIONS, arrays)
    published = bilm.read(tmp_path / "weights.hdf5", tmp_path / "options.json")
    saved = allennlp.read(archived(tmp_path / "model.tar.gz", state_of(arrays)))
    assert saved.fingerprint() == published.fingerprint()


@pytest.mark.parametrize("prefix", ["", "_elmo.", TASK, "model.deep.er.module."])
def test_a_bare_state_is_found_under_any_prefix_with_clips_as_published(tmp_path, prefix):
    path = saved_state(tmp_path / "best.th", state_of(ARRAYS, prefix, mixes=1) | {"classifier.weight": torch.ones(2)})
    assert allennlp.recognises(path)
    saved = allennlp.read(path)
    assert saved.format == "AllenNLP state (clips and activation assumed as published)"
    assert (saved.config.lstm.cell_clip, saved.config.lstm.projection_clip) == (3.0, 3.0)
    assert_oracle(saved, oracle.options(highways=2, cell_clip=3.0, proj_clip=3.0))


def test_options_given_with_a_bare_state_are_used(tmp_path):
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    path = saved_state(tmp_path / "a.th", state_of(ARRAYS))
    saved = allennlp.read(path, options=tmp_path / "options.json")
    assert saved.format == "AllenNLP state"
    assert_oracle(saved)


def test_the_bilm_alone_is_read_and_has_no_mix(tmp_path):
    bare = {name.removeprefix("_elmo_lstm."): value for name, value in state_of(ARRAYS).items()}
    saved = allennlp.read(archived(tmp_path / "model.tar.gz", bare))
    assert saved.mixes == ()
    assert_oracle(saved)


def test_a_state_of_torch_before_1_6_is_read(tmp_path):
    torch.save(state_of(ARRAYS), tmp_path / "a.th", _use_new_zipfile_serialization=False)
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    assert_oracle(allennlp.read(tmp_path / "a.th", options=tmp_path / "options.json"))


def test_an_unpacked_archive_is_read_as_a_folder(tmp_path):
    archived(tmp_path / "a.tar.gz", state_of(ARRAYS, TASK))
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        archive.extractall(tmp_path / "folder", filter="data")
    assert allennlp.recognises(tmp_path / "folder")
    saved = allennlp.read(tmp_path / "folder")
    assert saved.format == "AllenNLP folder"
    assert_oracle(saved)


def test_caches_of_words_are_passed_over(tmp_path):
    state = state_of(ARRAYS) | {"_elmo_lstm._word_embedding.weight": torch.ones(3, 4)}
    assert_oracle(allennlp.read(archived(tmp_path / "model.tar.gz", state)))


def test_activation_and_word_length_come_from_the_options(tmp_path):
    options = oracle.options(highways=2, activation="tanh", characters=12)
    assert_oracle(allennlp.read(archived(tmp_path / "model.tar.gz", state_of(ARRAYS), options=options)), options)


def test_trained_mixes_come_with_the_model(tmp_path):
    saved = allennlp.read(archived(tmp_path / "model.tar.gz", state_of(ARRAYS, TASK, mixes=2)))
    assert [mix.logits_L.tolist() for mix in saved.mixes] == [[0.0, 0.5, 1.0]] * 2
    assert [mix.scale.item() for mix in saved.mixes] == [2.0, 3.0]
    assert all(mix.scale.shape == () for mix in saved.mixes)


def test_a_mix_of_another_depth_is_refused(tmp_path):
    state = state_of(ARRAYS, mixes=1)
    del state["scalar_mix_0.scalar_parameters.2"]
    with pytest.raises(ModelError, match="a mix of 2 layers; the biLM has 3"):
        allennlp.read(saved_state(tmp_path / "a.th", state))


def test_layer_norm_under_the_mixes_is_said(tmp_path):
    config = {"config.json": b'{"elmo": {"do_layer_norm": true}}'}
    path = archived(tmp_path / "model.tar.gz", state_of(ARRAYS, mixes=1), config, options=None)
    notes = "clips and activation assumed as published; mixes trained over layer norm"
    assert allennlp.read(path).format == f"AllenNLP archive ({notes})"


OTHER = oracle.random_weights(OPTIONS, seed=7)


def test_one_elmo_under_two_names_is_one_elmo(tmp_path):
    state = state_of(ARRAYS, "a.", mixes=1) | state_of(ARRAYS, "b.", mixes=1)
    saved = allennlp.read(archived(tmp_path / "model.tar.gz", state))
    assert len(saved.mixes) == 1
    assert_oracle(saved)


def test_equal_elmos_with_different_mixes_keep_all_mixes(tmp_path):
    state = state_of(ARRAYS, "a.", mixes=1) | state_of(ARRAYS, "b.", mixes=2)
    assert len(allennlp.read(saved_state(tmp_path / "a.th", state)).mixes) == 3


def test_different_elmos_are_refused_until_one_is_chosen(tmp_path):
    path = archived(tmp_path / "model.tar.gz", state_of(OTHER, "a.") | state_of(ARRAYS, "b.", mixes=1))
    with pytest.raises(ModelError, match=r"2 different ELMos, a\._elmo_lstm\. and b\._elmo_lstm\."):
        allennlp.read(path)
    assert_oracle(allennlp.read(path, prefix="b."))


def without(*names):
    return {name: value for name, value in state_of(ARRAYS).items() if not any(part in name for part in names)}


ROOT = "_elmo_lstm._elmo_lstm.forward_layer_0"


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({"classifier.weight": torch.ones(2)}, "no ELMo inside .* it holds classifier.weight"),
        (without("backward_layer_1.input"), "backward_layer_1.input_linearity.weight is missing"),
        (without("backward_layer_1"), "2 forward and 1 backward layers"),
        (without("forward_layer_1"), "1 forward and 2 backward layers"),
        (without("ward_layer_0.state_projection"), "is missing"),
        (without("char_conv_1"), "not numbered 0, 1, 2"),
        (without("_highways._layers.0"), "not numbered 0, 1, 2"),
        (without("char_conv"), "filters"),
        (without("_projection"), "state_projection.weight is missing"),
        (state_of(ARRAYS) | {f"{ROOT}.state_linearity.bias": torch.ones(23)}, r"has shape \(23,\); \(24,\) fits"),
        (state_of(ARRAYS) | {f"{ROOT}.state_linearity.bias": torch.full((24,), torch.nan)}, "NaN"),
        (state_of(ARRAYS) | {f"{ROOT}.state_linearity.bias": torch.ones(24, dtype=torch.int64)}, "floating-point"),
        (state_of(ARRAYS) | {f"{ROOT}.state_linearity.bias": torch.ones(24, dtype=torch.complex64)}, "ComplexFloat"),
        (
            state_of(ARRAYS, dtype=torch.float32) | {f"{ROOT}.state_linearity.bias": torch.ones(24).double() / 3},
            f"tensor {ROOT}.state_linearity.bias holds torch.float64 numbers that are not exact in torch.float32",
        ),
        (state_of(ARRAYS) | {f"{ROOT}.state_projection.weight": torch.ones(4)}, "expected 2 dimensions"),
        (state_of(ARRAYS) | {"_elmo_lstm._token_embedder._char_embedding_weights": torch.ones(261, 3)}, r"\(262, 3\)"),
    ],
)
def test_a_state_that_is_no_whole_elmo_is_refused(tmp_path, state, found):
    with pytest.raises(ModelError, match=found):
        allennlp.read(saved_state(tmp_path / "a.th", state))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_a_tensor_of_another_precision_is_converted_where_that_is_exact(tmp_path, dtype):
    state, bias = state_of(ARRAYS, dtype=torch.float32), torch.full((24,), 0.375, dtype=dtype)
    expected, found = (
        allennlp.read(saved_state(tmp_path / f"{one.dtype}.th", state | {f"{ROOT}.state_linearity.bias": one}))
        for one in (bias.float(), bias)
    )
    assert found.fingerprint() == expected.fingerprint()


def test_a_square_projection_is_refused(tmp_path):
    state = state_of(ARRAYS) | {f"{ROOT}.state_projection.weight": torch.ones(4, 4)}
    with pytest.raises(ModelError, match="projection from 4 numbers to 4"):
        allennlp.read(saved_state(tmp_path / "a.th", state))


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({FTA: json.dumps(oracle.options(highways=1)).encode()}, "0 of 1 options fit"),
        ({FTA: json.dumps(oracle.options(filters=None)).encode()}, "0 of 1 options fit"),
        ({"fta/b.options_file": json.dumps(UNCLIPPED).encode()}, "2 of 2 options fit"),
        ({FTA: json.dumps(oracle.options(highways=2, skip=False)).encode()}, "use_skip_connections is not set"),
        ({FTA: b"{"}, "options_file: not JSON"),
        ({FTA: b"[" * 100_000}, "options_file: not JSON"),
        ({"other/weights.th": b""}, "no weights.th, or more than one"),
        ({"weights.th": b"torn"}, "model.tar.gz: weights.th: "),
    ],
)
def test_an_archive_at_odds_with_itself_is_refused(tmp_path, members, found):
    with pytest.raises(ModelError) as refused:
        allennlp.read(archived(tmp_path / "model.tar.gz", state_of(ARRAYS), members))
    assert found in str(refused.value)
    assert "/stelmo-" not in str(refused.value)


def test_options_of_another_model_beside_the_right_ones_do_no_harm(tmp_path):
    other = {"fta/b.options_file": json.dumps(oracle.options(cells=9)).encode()}
    assert_oracle(allennlp.read(archived(tmp_path / "model.tar.gz", state_of(ARRAYS), other)))


def test_other_files_are_not_recognised(tmp_path):
    (tmp_path / "weights.hdf5").write_bytes(b"")
    assert not any(allennlp.recognises(path) for path in (tmp_path, tmp_path / "weights.hdf5", tmp_path / "a.zip"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    saved = allennlp.read(archived(tmp_path_factory.mktemp("allennlp") / "model.tar.gz", state_of(ARRAYS, TASK)))
    return Model(saved, LoadSettings(precision="float64", state="fresh"))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=20), max_size=4))
def test_any_sentence_gives_the_oracles_numbers(model, tokens):
    np.testing.assert_allclose(model.layers([tokens])[0], oracle.layers(OPTIONS, ARRAYS, tokens), rtol=0, atol=EXACT)


# What is not to be trusted


class Malice:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_in_an_archive_runs_nothing(tmp_path):
    mark = tmp_path / "mark"
    for number, evil in enumerate([pickle.dumps(Malice(mark)), pickle.dumps({"a": Malice(mark)}, 2)]):
        path = archived(tmp_path / f"{number}.tar.gz", {}, {"weights.th": evil})
        with pytest.raises(ModelError):
            allennlp.read(path)
    path = saved_state(tmp_path / "a.th", state_of(ARRAYS) | {"evil": Malice(mark)})
    with pytest.raises(ModelError, match="mkdir"):
        allennlp.read(path)
    assert not mark.exists()


def test_members_outside_and_links_are_refused(tmp_path):
    with pytest.raises(ModelError, match="points outside"):
        allennlp.read(archived(tmp_path / "a.tar.gz", state_of(ARRAYS), {"../../options.json": b"{}"}))
    link = tarfile.TarInfo("weights.th")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
        archive.addfile(link)
    with pytest.raises(ModelError, match="is a link to '/etc/hostname'"):
        allennlp.read(tmp_path / "b.tar.gz")


def outcome(path: Path, raw: bytes) -> SavedModel | None:
    path.write_bytes(raw)
    try:
        return allennlp.read(path)
    except ModelError:
        return None


@pytest.mark.parametrize("name", ["model.tar.gz", "model.tgz", "weights.th", "state.pt"])
def test_an_empty_file_is_said_to_be_empty(tmp_path, name):
    path = tmp_path / name
    path.touch()
    with pytest.raises(ModelError) as refused:
        models.read(path)
    assert str(refused.value) == f"{path}: the file is empty; expected an AllenNLP archive or state, copy it again"


def test_empty_weights_of_an_unpacked_archive_are_said_to_be_empty(tmp_path):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / "weights.th").touch()
    with pytest.raises(ModelError, match=r"weights\.th: the file is empty; expected tensors that torch\.save wrote"):
        models.read(folder)


@pytest.mark.parametrize("pack", [archived, saved_state])
def test_a_truncated_file_is_refused(tmp_path, pack):
    path = pack(tmp_path / "model.th", state_of(ARRAYS))
    raw = path.read_bytes()
    assert all(outcome(path, raw[:end]) is None for end in range(0, len(raw), len(raw) // 60))


@pytest.mark.parametrize("pack", [archived, saved_state])
def test_a_flipped_bit_is_refused_or_harmless(tmp_path, pack):
    path = pack(tmp_path / "model.th", state_of(ARRAYS))
    chance, raw, whole = random.Random(8), path.read_bytes(), allennlp.read(path).fingerprint()
    flips = [(place, 1) for place in range(10)] + [
        (chance.randrange(len(raw)), 1 << chance.randrange(8)) for _ in range(150)
    ]
    for place, bit in flips:
        flipped = bytearray(raw)
        flipped[place] ^= bit
        found = outcome(path, bytes(flipped))
        assert found is None or found.fingerprint() == whole


def test_damage_before_packing_raises_nothing_else(tmp_path):
    raw = bytearray(gzip.decompress(archived(tmp_path / "a.tar.gz", state_of(ARRAYS)).read_bytes()))
    chance = random.Random(9)
    for _ in range(150):
        flipped = raw.copy()
        flipped[chance.randrange(len(raw))] = chance.randrange(256)
        flipped[chance.randrange(2048)] = chance.randrange(256)
        outcome(tmp_path / "a.tar.gz", gzip.compress(bytes(flipped), 1))

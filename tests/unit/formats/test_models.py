"""Our folder and the published layout: round trips, recognition, and what is refused."""

import json
import pickle
import random
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

import stelmo
from stelmo.config import CharInput, LstmConfig, ModelConfig
from stelmo.embed.load import load
from stelmo.errors import ConfigError, ModelError, OutputError, StelmoError
from stelmo.formats import models
from stelmo.store.saved import Mix, SavedModel
from stelmo.text.ids import Vocabulary

SENTENCES = [["The", "bank", "."], [], ["über", "日本", "x" * 60]]
ODD = {
    "usual": tiny.CONFIG,
    "words": tiny.WORD_CONFIG,
    "no skip, tanh, no highway": ModelConfig(
        input=CharInput(embedding=4, filters=((2, 5),), activation="tanh"),
        lstm=LstmConfig(cells=7, projection=3, layers=3, cell_clip=0.5, skip=False),
    ),
    "no projections": ModelConfig(
        input=CharInput(embedding=4, filters=((1, 2), (2, 4)), highways=1),
        lstm=LstmConfig(cells=6, projection=6, layers=1, projection_clip=2.0),
    ),
    "short words": ModelConfig(
        input=CharInput(embedding=4, filters=((1, 2), (3, 7)), max_characters=10), lstm=tiny.LSTM
    ),
}


@pytest.mark.parametrize("config", ODD.values(), ids=ODD)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("format", ["stelmo", "bilm"])
def test_a_round_trip_keeps_every_number(config, dtype, format, tmp_path):
    original = tiny.saved(config).to(dtype)
    models.write(original, tmp_path / "m", format)
    again = models.read(tmp_path / "m")
    assert again.config == config
    assert again.vocabulary == original.vocabulary
    for name, tensor in original.bilm.state_dict().items():
        found = again.bilm.state_dict()[name]
        assert found.dtype == dtype
        assert torch.equal(found, tensor), name
    assert again.fingerprint() == original.fingerprint()
    for name, tensor in original.read_softmax().state_dict().items():
        assert torch.equal(again.read_softmax().state_dict()[name], tensor)


def test_a_saved_model_gives_the_same_vectors_and_keeps_its_warm_state(tmp_path):
    first = tiny.model(precision="float64")
    first.warm_up([["a", "river"], ["."]])
    first.save(tmp_path / "m")
    again = load(tmp_path / "m", precision="float64")
    for ours, theirs in zip(first.layers(SENTENCES), again.layers(SENTENCES), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_model_without_vocabulary_and_softmax_round_trips(tmp_path):
    models.write(SavedModel(tiny.bilm(), "tiny"), tmp_path / "m")
    again = models.read(tmp_path / "m")
    assert again.vocabulary is None
    assert again.read_softmax is None


def test_a_written_hdf5_has_the_published_names_shapes_and_implicit_forget_bias(tmp_path):
    models.write(tiny.saved(), tmp_path / "m", "bilm")
    with h5py.File(tmp_path / "m" / "weights.hdf5") as file:
        shapes = {}
        file.visititems(lambda name, item: shapes.update({name: item.shape} if hasattr(item, "shape") else {}))
        bias = file["RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B"][...]
    assert shapes["char_embed"] == (261, 4)
    assert shapes["CNN/W_cnn_2"] == (1, 3, 4, 4)
    assert shapes["CNN_high_1/W_carry"] == (12, 12)
    assert shapes["CNN_proj/W_proj"] == (12, 6)
    assert shapes["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"] == (12, 40)
    assert shapes["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"] == (10, 6)
    np.testing.assert_array_equal(bias, tiny.saved().bilm.lstm_backward[1].bias)
    options = json.loads((tmp_path / "m" / "options.json").read_text())
    assert options["char_cnn"]["n_characters"] == 262
    assert options["lstm"]["use_skip_connections"] is True


def rewrite(folder: Path, name: str, change) -> None:
    """Exchange one dataset of weights.hdf5."""
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        array = file[name][...]
        del file[name]
        file[name] = change(array)


@pytest.mark.parametrize("declared", [261, 262])
@pytest.mark.parametrize(
    "habit",
    [
        lambda table: table,
        lambda table: np.concatenate([np.zeros((1, 4), "f"), table]),
        lambda table: np.concatenate([table, np.ones((1, 4), "f")]),
    ],
    ids=["261 rows", "262 rows with the empty one first", "262 rows with an unused one last"],
)
def test_every_habit_of_261_and_262_is_the_same_model(declared, habit, tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    expected = load(folder).layers(SENTENCES)
    rewrite(folder, "char_embed", habit)
    options = json.loads((folder / "options.json").read_text())
    options["char_cnn"]["n_characters"] = declared
    (folder / "options.json").write_text(json.dumps(options))
    for ours, theirs in zip(load(folder).layers(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_keys_of_a_training_run_in_the_options_are_passed_over(tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    options = json.loads((folder / "options.json").read_text())
    options |= {
        "bidirectional": True,
        "dropout": 0.1,
        "n_train_tokens": 768648884,
        "unroll_steps": 20,
        "reverse": False,
    }
    options["char_cnn"]["projection_after_highway"] = True
    (folder / "options.json").write_text(json.dumps(options))
    assert load(folder).config == tiny.CONFIG


@pytest.mark.parametrize("given", ["m", "m/elmo_small_weights.hdf5", "m/elmo_small_options.json"])
def test_the_published_names_are_found_from_any_of_them(given, tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    for name in ("options.json", "weights.hdf5", "softmax_weights.hdf5"):
        (folder / name).rename(folder / f"elmo_small_{name}")
    found = models.read(tmp_path / given)
    assert found.read_softmax is not None
    assert len(found.vocabulary) == len(tiny.WORDS)


def test_a_single_layer_is_found_under_the_short_names_of_the_exporter(tmp_path):
    config = ModelConfig(input=tiny.CHARS, lstm=LstmConfig(cells=10, projection=6, layers=1))
    folder = tiny.folder(tmp_path / "m", "bilm", config)
    expected = load(folder).layers(SENTENCES)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        for direction in ("RNN_0", "RNN_1"):
            file.move(f"{direction}/RNN/MultiRNNCell/Cell0/LSTMCell", f"{direction}/RNN/LSTMCell")
    for ours, theirs in zip(load(folder).layers(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_learned_mixes_are_kept_and_start_an_elmo(tmp_path):
    learned = (Mix(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(0.5)), Mix(torch.zeros(3), torch.tensor(2.0)))
    models.write(tiny.saved(mixes=learned), tmp_path / "m")
    model = load(tmp_path / "m")
    elmo = stelmo.Elmo(model, outputs=2, learned=True)
    assert elmo.mixes[0].weights == pytest.approx([0.0900, 0.2447, 0.6652], abs=1e-4)
    assert float(elmo.mixes[1].scale.detach()) == 2.0
    with pytest.raises(ConfigError, match="2 learned mixes"):
        stelmo.Elmo(model, outputs=1, learned=True)


def test_files_in_other_places_can_be_named(tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    (folder / "options.json").rename(tmp_path / "o.json")
    (folder / "vocab.txt").rename(tmp_path / "v")
    found = load(folder / "weights.hdf5", options=tmp_path / "o.json", vocabulary=tmp_path / "v")
    assert found.vocabulary is not None


def test_token_embeddings_replace_the_characters(model, tmp_path):
    model.save(tmp_path / "m", format="bilm", token_embeddings=True)
    cached = load(tmp_path / "m", token_embeddings=tmp_path / "m" / "token_embeddings.hdf5")
    for ours, theirs in zip(cached.layers([["the", "river"]]), model.layers([["the", "river"]], "fresh"), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    assert cached.config.input.kind == "words"


def test_a_word_id_model_reads_an_unknown_word_as_unk():
    vectors = tiny.model(tiny.WORD_CONFIG).embed([["zebra"], ["<UNK>"]])
    np.testing.assert_allclose(*vectors, atol=1e-6)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def shrink(name: str):
    return lambda folder: rewrite(folder, name, lambda array: array[:-1])


def poison(folder: Path) -> None:
    rewrite(folder, "CNN_proj/b_proj", lambda array: np.full_like(array, np.nan))


def drop(name: str):
    def change(folder: Path) -> None:
        with h5py.File(folder / "weights.hdf5", "r+") as file:
            del file[name]

    return change


def option(section: str, name: str, value: object):
    def change(folder: Path) -> None:
        options = json.loads((folder / "options.json").read_text())
        options[section][name] = value
        (folder / "options.json").write_text(json.dumps(options))

    return change


def promise_terabytes(folder: Path) -> None:
    option("lstm", "dim", 2_000_000)(folder)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        name = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
        del file[name]
        file.create_dataset(name, (12, 8_000_000), "f4", chunks=(12, 1000))


def link_outside(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["char_embed"]
        file["char_embed"] = h5py.ExternalLink("/etc/passwd", "x")


def store_outside(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", (261, 4), "f4", external=[("/etc/passwd", 0, 261 * 16)])


def group_instead(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["char_embed"]
        file.create_group("char_embed")


def overflow(folder: Path) -> None:
    rewrite(folder, "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/B", lambda array: np.full(array.shape, 1e300))


def inexact(folder: Path) -> None:
    rewrite(folder, "CNN_proj/b_proj", lambda array: array.astype("f8") + 1e-12)


def no_shape(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["char_embed"]
        file["char_embed"] = h5py.Empty("f4")


def deep(values: dict[str, object]) -> str:
    """As deep as Python's own reader follows it."""
    return json.dumps(values)[:-1] + ', "x": ' + "[" * 500 + "]" * 500 + "}"


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


BAD = {
    "empty weights": (lambda f: (f / "weights.hdf5").write_bytes(b""), "an empty file"),
    "truncated weights": (lambda f: truncate(f / "weights.hdf5"), "truncated"),
    "weights of something else": (lambda f: (f / "weights.hdf5").write_text("hello"), "not an HDF5 file"),
    "a tensor of another shape": (shrink("CNN_proj/W_proj"), r"CNN_proj/W_proj has shape \(11, 6\).*\(12, 6\)"),
    "too few characters": (shrink("char_embed"), "260 rows"),
    "a missing tensor": (drop("CNN_high_1/b_carry"), "CNN_high_1/b_carry is missing"),
    "a layer the options leave out": (option("lstm", "n_layers", 1), "Cell1/LSTMCell/.* is not in the options"),
    "a highway the options leave out": (option("char_cnn", "n_highway", 1), "CNN_high_1/.* is not in the options"),
    "NaN": (poison, "NaN"),
    "integers": (lambda f: rewrite(f, "CNN_proj/b_proj", lambda a: a.astype("i4")), "holds int32"),
    "options of another model": (option("lstm", "dim", 20), r"W_0 has shape \(12, 40\); the options say \(12, 80\)"),
    "a negative width": (option("lstm", "dim", -3), "greater than 0"),
    "a clip of nothing": (option("lstm", "cell_clip", 0), "cell_clip"),
    "another table of characters": (option("char_cnn", "n_characters", 5000), "n_characters is 5000"),
    "an unknown activation": (option("char_cnn", "activation", "gelu"), "activation"),
    "a filter wider than a word": (option("char_cnn", "filters", [[51, 3]]), "does not fit"),
    "no filters": (option("char_cnn", "filters", []), "filters"),
    "options that are no JSON": (lambda f: (f / "options.json").write_text("{"), "not JSON"),
    "options that are a list": (lambda f: (f / "options.json").write_text("[]"), "no section 'lstm'"),
    "no options": (lambda f: (f / "options.json").unlink(), "no options.json"),
    "terabytes": (promise_terabytes, "bytes of numbers, which its .* bytes do not hold"),
    "a link to another file": (link_outside, "is a link;"),
    "numbers in another file": (store_outside, "another file"),
    "a group": (group_instead, "a group"),
    "a clip that float32 cannot hold": (option("lstm", "cell_clip", 1e308), "lstm.cell_clip: .*less than or equal"),
    "a projection clip that float32 cannot hold": (option("lstm", "proj_clip", 1e39), "lstm.projection_clip: .*less"),
    "numbers that float32 cannot hold": (overflow, "lstm_backward.0.bias holds numbers too large for float32"),
    "numbers that are not exact beside the others": (inexact, r"encoder.projection_bias holds torch.float64 numbers"),
    "a dataset without a shape": (no_shape, "char_embed has no shape"),
    "options nested without end": (lambda f: (f / "options.json").write_text('{"lstm":' * 10**5), "nested too deeply"),
    "options nested deeply": (lambda f: (f / "options.json").write_text(deep({"lstm": {}})), "nested too deeply"),
    "options that are a device": (lambda f: device(f / "options.json"), "not a regular file|no options.json"),
    "a vocabulary that is a device": (lambda f: device(f / "vocab.txt"), "not a regular file"),
    "a vocabulary that is not UTF-8": (lambda f: (f / "vocab.txt").write_bytes(b"a\n\xff"), r"vocab.txt:2: not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), BAD.values(), ids=BAD)
def test_a_bad_published_model_is_refused_in_one_sentence(damage, message, tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    damage(folder)
    with pytest.raises(StelmoError, match=message) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)


def test_a_vocabulary_beside_the_one_of_the_model_is_the_same_or_refused(tmp_path):
    folder = tiny.folder(tmp_path / "m")
    (tmp_path / "other.txt").write_text("<S>\n</S>\n<UNK>\n")
    assert models.read(folder, vocabulary=folder / "vocab.txt").vocabulary == models.read(folder).vocabulary
    with pytest.raises(ModelError, match=r"other\.txt: not the vocabulary of the model, which has its own"):
        models.read(folder, vocabulary=tmp_path / "other.txt")
    with pytest.raises(ModelError, match=r"none\.txt: cannot be read"):
        models.read(folder, vocabulary=tmp_path / "none.txt")


@pytest.mark.parametrize("config", [tiny.CONFIG, tiny.WORD_CONFIG], ids=["bytes", "words"])
@pytest.mark.parametrize("format", ["stelmo", "bilm"])
def test_a_word_that_a_vocabulary_repeats_keeps_its_rows_and_the_last_one_counts(tmp_path, config, format):
    words = (*tiny.WORDS[:-1], "the")
    models.write(tiny.saved(config, vocabulary=Vocabulary(words)), tmp_path / "m", format)
    found = load(tmp_path / "m")
    assert found.vocabulary.words == words
    assert found.vocabulary.id("the") == len(words) - 1
    assert found.softmax.weight.shape == (len(words), 6)
    assert found.log_probs([["the", "bank"]])[0].tokens.shape == (2, 2)


def garble(path):
    path.write_bytes(b"the\n\xfcber\n")


@pytest.mark.parametrize("damage", [garble, device])
def test_a_vocabulary_that_nobody_named_does_not_stop_a_model_without_a_softmax(tmp_path, damage):
    folder = tiny.folder(tmp_path / "m", "bilm")
    (folder / "softmax_weights.hdf5").unlink()
    expected = load(folder).layers(SENTENCES)
    damage(folder / "vocab.txt")
    found = models.read(folder)
    assert found.vocabulary is None
    assert "without its vocabulary" in found.format
    for ours, theirs in zip(load(folder / "weights.hdf5").layers(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ModelError, match=r"vocab\.txt"):
        models.read(folder, vocabulary=folder / "vocab.txt")


def test_a_word_id_model_needs_a_vocabulary_that_can_be_read(tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm", tiny.WORD_CONFIG)
    (folder / "softmax_weights.hdf5").unlink()
    garble(folder / "vocab.txt")
    with pytest.raises(ModelError, match=r"vocab\.txt:2: not UTF-8"):
        load(folder)


@pytest.mark.parametrize(
    ("weights", "beside", "found"),
    [
        ("weights.hdf5", ["softmax_weights.hdf5"], True),
        ("weights.hdf5", ["lm_softmax.hdf5"], True),
        ("weights.hdf5", ["lm_softmax_weights.hdf5", "lm_weights.hdf5"], False),
        ("model.hdf5", ["lm_softmax_weights.hdf5"], True),
        ("a_weights.hdf5", ["a_softmax_weights.hdf5", "b_weights.hdf5", "b_softmax_weights.hdf5"], True),
        ("a_weights.hdf5", ["a_softmax.hdf5", "b_softmax.hdf5"], True),
        ("a_weights.hdf5", ["softmax.hdf5", "b_weights.hdf5"], True),
        ("a_weights.hdf5", ["softmax_weights.hdf5", "weights.hdf5"], False),
        ("a_weights.hdf5", ["b_softmax_weights.hdf5", "b_weights.hdf5"], False),
        ("a_weights.hdf5", ["b_softmax_weights.hdf5"], False),
    ],
)
def test_only_a_softmax_that_belongs_to_the_weights_is_taken(tmp_path, weights, beside, found):
    folder = tiny.folder(tmp_path / "m", "bilm")
    (folder / "softmax_weights.hdf5").rename(tmp_path / "softmax")
    (folder / "weights.hdf5").rename(folder / weights)
    for name in beside:
        shutil.copy(tmp_path / "softmax" if "softmax" in name else folder / weights, folder / name)
    assert (models.read(folder / weights).read_softmax is not None) == found


def test_a_file_that_is_not_a_model_is_called_so(tmp_path):
    (tmp_path / "corpus.txt").write_text("Not a model .")
    with pytest.raises(ModelError, match=r"corpus\.txt: not a model; expected a stelmo folder"):
        models.read(tmp_path / "corpus.txt")


def test_weights_without_their_options_name_the_way_to_give_them(tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    (folder / "options.json").unlink()
    with pytest.raises(ModelError, match=r"no options\.json beside it; copy it there, or name it: --options FILE"):
        models.read(folder / "weights.hdf5")


def test_a_vocabulary_of_another_length_than_the_softmax_is_refused(tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    with pytest.raises(ModelError, match=r"softmax/W has shape \(10, 6\)"):
        models.read(folder).read_softmax()


def test_a_softmax_of_a_single_number_is_refused(tmp_path):
    folder = tiny.folder(tmp_path / "m")
    save_file({"weight": torch.tensor(1.0), "bias": torch.ones(10)}, folder / "softmax.safetensors")
    with pytest.raises(ModelError, match=r"softmax weight has shape \(\)"):
        models.read(folder).read_softmax()


def test_a_word_id_model_without_its_vocabulary_is_refused(tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm", tiny.WORD_CONFIG)
    (folder / "vocab.txt").unlink()
    with pytest.raises(ModelError, match=r"vocab\.txt"):
        load(folder)


def resave(change):
    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


def setting(section: str, **values: object):
    def change(folder: Path) -> None:
        manifest = json.loads((folder / "config.json").read_text())
        manifest["model"][section] |= values
        (folder / "config.json").write_text(json.dumps(manifest))

    return change


BAD_FOLDERS = {
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "incomplete"),
    "empty weights": (lambda f: (f / "model.safetensors").write_bytes(b""), "not a safetensors file"),
    "truncated weights": (lambda f: truncate(f / "model.safetensors"), "not a safetensors file"),
    "a pickle": (lambda f: (f / "model.safetensors").write_bytes(pickle.dumps({})), "a pickle"),
    "a missing tensor": (resave(lambda t: t.pop("encoder.table")), "encoder.table is missing"),
    "another shape": (resave(lambda t: t.update({"encoder.table": torch.ones(5, 4)})), r"\(5, 4\).*\(262, 4\)"),
    "NaN": (resave(lambda t: t["encoder.biases.0"].fill_(torch.nan)), "NaN"),
    "numbers that float32 cannot hold": (
        resave(lambda t: t.update({name: tensor.double() * 1e300 for name, tensor in t.items()})),
        "too large for float32",
    ),
    "numbers that are not exact beside the others": (
        resave(lambda t: t.update({"encoder.biases.0": t["encoder.biases.0"].double() + 1e-12})),
        "tensor encoder.biases.0 holds torch.float64 numbers that are not exact in torch.float32",
    ),
    "complex numbers": (
        resave(lambda t: t.update({"encoder.biases.0": t["encoder.biases.0"].to(torch.complex64)})),
        "holds torch.complex64",
    ),
    "integers": (resave(lambda t: t.update({"encoder.biases.0": t["encoder.biases.0"].long()})), "holds torch.int64"),
    "billions of layers": (setting("lstm", layers=2**31 - 1), "tensors for 4,294,967,296 layers"),
    "a clip that float32 cannot hold": (setting("lstm", cell_clip=1e308), "lstm.cell_clip"),
    "a manifest nested without end": (lambda f: (f / "config.json").write_text('{"stelmo":' * 10**5), "no model here"),
    "a manifest nested deeply": (lambda f: (f / "config.json").write_text(deep({"stelmo": 1})), "no model here"),
    "a manifest that is a device": (lambda f: device(f / "config.json"), "no model here"),
    "another version": (lambda f: (f / "config.json").write_text('{"stelmo": 99}'), "version 99"),
    "an unknown setting": (lambda f: (f / "config.json").write_text('{"stelmo": 1, "modle": 2}'), "model"),
    "a vocabulary cut short": (lambda f: (f / "vocab.txt").write_text("a\n"), "1 words; config.json says 10"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), BAD_FOLDERS.values(), ids=BAD_FOLDERS)
def test_a_bad_folder_is_refused_in_one_sentence(damage, message, tmp_path):
    folder = tiny.folder(tmp_path / "m")
    damage(folder)
    with pytest.raises(ModelError, match=message) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)


PRECISIONS = [torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_a_tensor_of_another_precision_is_converted_where_that_is_exact(dtype, tmp_path):
    folder = tiny.folder(tmp_path / "m")
    resave(lambda tensors: tensors["lstm_forward.0.bias"].fill_(0.5))(folder)
    expected = load(folder).layers(SENTENCES)
    resave(lambda tensors: tensors.update({"lstm_forward.0.bias": tensors["lstm_forward.0.bias"].to(dtype)}))(folder)
    for ours, theirs in zip(load(folder).layers(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_model_in_bfloat16_is_read_as_float32(tmp_path):
    folder = tiny.folder(tmp_path / "m")
    resave(lambda tensors: tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()}))(folder)
    saved = models.read(folder)
    assert saved.dtype == torch.float32
    assert torch.equal(saved.bilm.lstm_forward[0].kernel, tiny.bilm().lstm_forward[0].kernel.bfloat16().float())


@pytest.mark.parametrize("dtype", ["f2", "f8"])
def test_a_dataset_of_another_precision_is_converted_where_that_is_exact(dtype, tmp_path):
    folder = tiny.folder(tmp_path / "m", "bilm")
    rewrite(folder, "CNN_proj/b_proj", lambda array: np.full(array.shape, 0.5, "f4"))
    expected = load(folder).layers(SENTENCES)
    rewrite(folder, "CNN_proj/b_proj", lambda array: array.astype(dtype))
    for ours, theirs in zip(load(folder).layers(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_name_that_the_system_refuses_is_one_sentence():
    with pytest.raises(ModelError, match="File name too long"):
        models.read(Path("x" * 300))


def test_truncating_a_model_anywhere_is_a_model_error(tmp_path):
    """Neither a crash nor a model with other numbers."""
    for format, name in (("stelmo", "model.safetensors"), ("bilm", "weights.hdf5")):
        folder = tiny.folder(tmp_path / format, format)
        whole = (folder / name).read_bytes()
        for size in range(0, len(whole), len(whole) // 60):
            (folder / name).write_bytes(whole[:size])
            with pytest.raises(ModelError):
                load(folder)


def loads_or_is_refused(folder: Path) -> bool:
    """Nothing else may happen; a changed number in the data cannot be seen and loads."""
    try:
        return load(folder).softmax is not None
    except StelmoError:
        return False


@pytest.mark.long
@pytest.mark.parametrize(
    ("layout", "name"),
    [("bilm", "weights.hdf5"), ("bilm", "softmax_weights.hdf5"), ("stelmo", "model.safetensors")],
)
def test_a_flipped_bit_is_refused_or_a_number_and_never_a_crash(layout, name, tmp_path):
    folder = tiny.folder(tmp_path / "m", layout)
    whole, chance = (folder / name).read_bytes(), random.Random(0)
    header = [chance.randrange(min(len(whole), 3000)) for _ in range(150)]
    outcomes = set()
    for place in (*header, *(chance.randrange(len(whole)) for _ in range(50))):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        (folder / name).write_bytes(flipped)
        outcomes.add(loads_or_is_refused(folder))
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "no such file or folder"),
        (lambda p: p.mkdir(), "no model here"),
        (lambda p: (p.mkdir(), (p / "holiday.jpg").touch()), "holiday.jpg"),
        (lambda p: (p.mkdir(), (p / "config.json").write_text('{"model_type": "bert"}')), "no model here"),
        (lambda p: p.write_bytes(pickle.dumps([1])), "pickle"),
        (lambda p: p.write_bytes(b"PK\x03\x04zip"), "a pickle or an archive"),
    ],
)
def test_what_is_no_model_is_refused(make, message, tmp_path):
    make(tmp_path / "x")
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "x")


def test_saving_over_a_model_asks_first(model, tmp_path):
    model.save(tmp_path / "m")
    with pytest.raises(OutputError, match="exists"):
        model.save(tmp_path / "m")
    model.save(tmp_path / "m", overwrite=True)


def test_an_unknown_format_or_dtype_writes_nothing(tmp_path):
    with pytest.raises(ConfigError, match="format"):
        tiny.model().save(tmp_path / "m", format="onnx7")
    with pytest.raises(ConfigError, match="dtype"):
        tiny.model().save(tmp_path / "m", dtype="int3")
    assert list(tmp_path.iterdir()) == []

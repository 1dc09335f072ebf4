"""A folder of ELMoForManyLangs gives the vectors its description says, survives every way to and fro, and is refused
when torn. The vectors are those of `efml_oracle`, which knows nothing of our code."""

import json
import random
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import efml_oracle as oracle
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.config import CharInput, CodePointInput, LstmConfig, ModelConfig, WordInput
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, ModelError
from stelmo.formats import efml, models
from stelmo.model.bilm import BiLM
from stelmo.settings import LoadSettings
from stelmo.store import folder
from stelmo.store.saved import SavedModel
from stelmo.text.ids import Alphabet, Vocabulary

KINDS = {"both": (4, 3), "words": (4, 0), "characters": (0, 3)}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
EXACT, FLOAT32 = 1e-10, 2e-6  # float32: the largest number of these models is about 6, its last bit 5e-7
SENTENCES = [["the", "tree", "木", "xyz"], [], ["été", "\u3000", "the" * 9], ["<bos>", "<S>", "<oov>", "", "a\u2028b"]]


def written(path: Path, kind: str = "both", dtype: torch.dtype = torch.float64, zipped: bool = True, **changes) -> Path:
    return oracle.write(oracle.random_model(oracle.architecture(*KINDS[kind], **changes)), path, dtype, zipped)


def layers(saved: SavedModel, sentences, precision: str = "float64"):
    return Model(saved, LoadSettings(state="fresh", precision=precision)).layers(sentences)


def expected(model: oracle.Folder, sentences):
    """In the oracle's words: the marker that wraps our sentences has another name there."""
    theirs = [["<bos>" if token == "<S>" else token for token in sentence] for sentence in sentences]
    empty = np.zeros((1 + model.architecture["encoder"]["n_layers"], 0, 6))
    return [oracle.layers(model, sentence) if sentence else empty for sentence in theirs]


def assert_close(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


# The vectors


@EACH_KIND
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "older"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation": "tanh", "n_highway": 1},
        {"n_highway": 0, "n_layers": 3},
        {"cell_clip": None, "proj_clip": None, "n_layers": 1},
        {"filters": [[12, 2]], "projection_dim": 3, "dim": 2},
    ],
    ids=["plain", "tanh", "deep", "unclipped", "one filter"],
)
def test_the_vectors_are_those_of_the_description(tmp_path, kind, zipped, changes):
    model = oracle.random_model(oracle.architecture(*KINDS[kind], **changes), seed=3)
    saved = efml.read(oracle.write(model, tmp_path / "model", zipped=zipped))
    assert_close(layers(saved, SENTENCES), expected(model, SENTENCES), EXACT)


@EACH_KIND
def test_in_float32_they_differ_by_rounding(tmp_path, kind):
    model = oracle.random_model(oracle.architecture(*KINDS[kind]), seed=4)
    saved = efml.read(oracle.write(model, tmp_path / "model", torch.float32))
    assert saved.dtype == torch.float32
    assert_close(layers(saved, SENTENCES, "float32"), expected(model, SENTENCES), FLOAT32)


@pytest.mark.parametrize("changes", [{"cell_clip": 9.0}, {"proj_clip": 9.0}])
def test_the_clips_of_these_models_bite(changes):
    tight, wide = (oracle.random_model(oracle.architecture(**each), seed=3) for each in ({}, changes))
    sentence = SENTENCES[0]
    assert np.abs(oracle.layers(tight, sentence) - oracle.layers(wide, sentence)).max() > 0.01


def test_keys_of_clips_may_be_absent_and_zero_means_none(tmp_path):
    model = oracle.random_model(oracle.architecture(proj_clip=0))
    del model.architecture["encoder"]["cell_clip"]
    saved = efml.read(oracle.write(model, tmp_path / "model"))
    assert saved.config.lstm.cell_clip is saved.config.lstm.projection_clip is None
    assert_close(layers(saved, SENTENCES), expected(model, SENTENCES), EXACT)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    model = oracle.random_model(oracle.architecture(), seed=5)
    return model, efml.read(oracle.write(model, tmp_path_factory.mktemp("efml") / "model"))


words = st.one_of(st.sampled_from(oracle.WORDS), st.text(max_size=15), st.text("aethré木", max_size=15))


@given(st.lists(st.lists(words.filter(lambda word: word not in ("<S>", "</S>")), max_size=4), max_size=3))
@settings(deadline=None, max_examples=50)
def test_any_sentences_give_the_vectors_of_the_description(everything, sentences):
    model, saved = everything
    assert_close(layers(saved, sentences), expected(model, sentences), EXACT)


# There and back


@EACH_KIND
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, FLOAT32)])
def test_vectors_survive_our_folder_and_the_way_back(tmp_path, kind, dtype, tolerance):
    first = efml.read(written(tmp_path / "first", kind, dtype))
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    folder.write(first, tmp_path / "ours")
    second = folder.read(tmp_path / "ours")
    assert second.fingerprint() == first.fingerprint()
    efml.write(second, tmp_path / "theirs")
    third = efml.read(tmp_path / "theirs")
    assert third.config == first.config
    assert (third.vocabulary, third.alphabet) == (first.vocabulary, first.alphabet)
    precision = str(dtype).removeprefix("torch.")
    assert_close(layers(third, SENTENCES, precision), layers(first, SENTENCES, precision), tolerance)


@EACH_KIND
def test_what_is_written_has_the_names_and_numbers_of_the_original(tmp_path, kind):
    source = written(tmp_path / "model", kind)
    (tmp_path / "again").mkdir()
    efml.write(efml.read(source), tmp_path / "again")
    for name in (efml.EMBEDDER, efml.ENCODER):
        before, after = (torch.load(place / name, weights_only=True) for place in (source, tmp_path / "again"))
        assert sorted(before) == sorted(after)
        for key in before:
            torch.testing.assert_close(after[key], before[key], rtol=0, atol=1e-15)
    config = json.loads((tmp_path / "again" / "config.json").read_text())["config_path"]
    sizes = json.loads((tmp_path / "again" / config).read_text())
    assert sizes["encoder"] == json.loads((source / "tiny.json").read_text())["encoder"]


def test_written_numbers_do_not_drag_others_along(tmp_path):
    saved = efml.read(written(tmp_path / "model", dim=64))
    (tmp_path / "again").mkdir()
    efml.write(saved, tmp_path / "again")
    numbers = sum(parameter.numel() for name, parameter in saved.bilm.named_parameters() if name.startswith("lstm"))
    assert (tmp_path / "again" / efml.ENCODER).stat().st_size < 8 * numbers + 8000


def test_odd_symbols_survive(tmp_path):
    odd = ("\u3000", "\u2028", "\x85", "\x0b", "\u00a0", "\r", "\t", "\ufeff", "😀", " ")
    model = oracle.random_model(
        oracle.architecture(), words=oracle.WORDS[:4] + odd, characters=odd + oracle.CHARACTERS[-6:]
    )
    saved = efml.read(oracle.write(model, tmp_path / "model"))
    assert saved.alphabet is not None
    assert saved.alphabet.symbols[: len(odd)] == odd
    assert_close(layers(saved, [list(odd)]), expected(model, [list(odd)]), EXACT)
    (tmp_path / "theirs").mkdir()
    efml.write(saved, tmp_path / "theirs")
    again = efml.read(tmp_path / "theirs")
    assert (again.alphabet, again.vocabulary) == (saved.alphabet, saved.vocabulary)


def test_our_folder_holds_any_symbol(tmp_path):
    saved = efml.read(written(tmp_path / "model", "characters"))
    assert saved.alphabet is not None
    odd = ("\n", "\u2028", "\u3000", "\t", "\ud800", "\r\n", "", "\x00", '"', "\\")
    saved = replace(saved, alphabet=Alphabet((*odd, *"éü木", *saved.alphabet.symbols[-6:])))
    (tmp_path / "ours").mkdir()
    folder.write(saved, tmp_path / "ours")
    assert folder.read(tmp_path / "ours").alphabet == saved.alphabet


@pytest.mark.parametrize("symbol", ["\n", ""])
def test_a_symbol_that_no_line_can_hold_is_refused(tmp_path, symbol):
    saved = efml.read(written(tmp_path / "model", "characters"))
    assert saved.alphabet is not None
    with pytest.raises(ModelError, match=r"cannot be written as a line of char\.dic"):
        efml.write(replace(saved, alphabet=Alphabet((symbol, *saved.alphabet.symbols[1:]))), tmp_path)


@pytest.mark.parametrize("word", ["a\nb", "a\r", "!!!MAXTERMID"])
def test_a_word_that_our_vocabulary_cannot_hold_is_refused(tmp_path, word):
    saved = efml.read(written(tmp_path / "model", "words"))
    assert saved.vocabulary is not None
    with pytest.raises(ModelError, match=r"cannot be written as a line of vocab\.txt"):
        folder.write(replace(saved, vocabulary=Vocabulary((*saved.vocabulary.words[:-1], word))), tmp_path)


@pytest.mark.parametrize(
    ("reads", "why"),
    [
        (CharInput(embedding=2, filters=((1, 2),)), "reads the bytes of words"),
        (WordInput(words=3), "reads word ids without a projection"),
    ],
)
def test_a_model_of_another_input_cannot_be_written_there(tmp_path, reads, why):
    config = ModelConfig(input=reads, lstm=LstmConfig(cells=3, projection=2))
    saved = SavedModel(BiLM(config).reset(1), "test", Vocabulary(("<S>", "</S>", "<UNK>")))
    with pytest.raises(ConfigError, match=why):
        efml.write(saved, tmp_path)


@pytest.mark.parametrize("change", [{"skip": False}, {"cells": 3}])
def test_an_lstm_of_another_kind_cannot_be_written_there(tmp_path, change):
    saved = efml.read(written(tmp_path / "model"))
    config = saved.config.model_copy(update={"encoder": saved.config.lstm.model_copy(update=change)})
    with pytest.raises(ConfigError, match="always has a projection and skip connections"):
        efml.write(replace(saved, bilm=BiLM(config)), tmp_path)


# The folder


def test_a_folder_is_recognised_by_its_pickles(tmp_path):
    assert efml.recognises(written(tmp_path / "model"))
    assert not efml.recognises(tmp_path)
    (tmp_path / "model" / efml.EMBEDDER).unlink()
    assert efml.recognises(tmp_path / "model")


def packed(path: Path, folder: Path, inside: str = "") -> Path:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            archive.write(file, inside + file.name)
    return path


@pytest.mark.parametrize("inside", ["", "zh/"])
def test_a_zip_gives_the_same_model_as_its_folder(tmp_path, inside):
    folder = written(tmp_path / "model")
    (folder / "classifier.pkl").write_bytes(b"not read")
    expected = efml.read(folder)
    found = models.read(packed(tmp_path / "179.zip", folder, inside))
    assert found.fingerprint() == expected.fingerprint()
    assert found.format == "ELMoForManyLangs zip"
    assert found.vocabulary.name == str(tmp_path / "179.zip" / "word.dic")
    assert_close(layers(found, SENTENCES), layers(expected, SENTENCES), EXACT)


def test_a_zip_without_a_whole_model_is_refused_by_its_own_name(tmp_path):
    folder = written(tmp_path / "model")
    (folder / "word.dic").write_text("a\t0\nb\t0\n")
    with pytest.raises(ModelError, match=r"a\.zip/word\.dic:2: id 0 occurs twice") as refused:
        models.read(packed(tmp_path / "a.zip", folder))
    assert "/stelmo-" not in str(refused.value)
    (folder / "word.dic").unlink()
    with pytest.raises(ModelError, match=r"b\.zip/word\.dic: cannot be read"):
        models.read(packed(tmp_path / "b.zip", folder))
    for inside in ("one/", "two/"):
        packed(tmp_path / "c.zip", folder, inside)
    with pytest.raises(ModelError, match=r"c\.zip: 2 folders with token_embedder\.pkl or encoder\.pkl"):
        models.read(tmp_path / "c.zip")


@pytest.mark.parametrize(
    ("named", "place"),
    [
        ("tiny.json", "tiny.json"),
        ("configs/tiny.json", "configs/tiny.json"),
        ("configs/tiny.json", "tiny.json"),
        ("/users7/someone/tiny.json", "tiny.json"),
        ("C:\\models\\tiny.json", "tiny.json"),
        ("../configs/tiny.json", "tiny.json"),
        ("/users7/someone/else.json", "other name.json"),
        ("config.json", "tiny.json"),
    ],
)
def test_the_architecture_is_found_where_it_is_named_or_where_it_lies(tmp_path, named, place):
    path = written(tmp_path / "model")
    (path / "configs").mkdir()
    (path / "config.json").write_text(json.dumps({"config_path": named}))
    (path / "unrelated.json").write_text("[]")
    (path / "tiny.json").rename(path / place)
    assert efml.read(path).config.lstm.cells == 5


def test_an_architecture_outside_the_folder_is_not_read(tmp_path):
    path = written(tmp_path / "model")
    (path / "tiny.json").rename(tmp_path / "tiny.json")
    for named in ("../tiny.json", str(tmp_path / "tiny.json")):
        (path / "config.json").write_text(json.dumps({"config_path": named}))
        with pytest.raises(ModelError, match=r"tiny.json' named in config.json is missing, and no other file"):
            efml.read(path)


def test_two_architectures_are_one_too_many(tmp_path):
    path = written(tmp_path / "model")
    for name in ("one.json", "two.json"):
        shutil.copy(path / "tiny.json", path / name)
    (path / "tiny.json").unlink()
    with pytest.raises(ModelError, match="2 other files could be it"):
        efml.read(path)


def test_the_published_architecture_need_not_lie_in_the_folder(tmp_path):
    path = written(tmp_path / "model")
    (path / "tiny.json").unlink()
    (path / "config.json").write_text('{"config_path": "/users4/conll18st/configs/cnn_50_100_512_4096_sample.json"}')
    with pytest.raises(ModelError, match=r"weight has shape \(10, 4\); the options say \(10, 100\)"):
        efml.read(path)


def test_a_single_field_is_the_ideographic_space_and_lines_may_have_any_order(tmp_path):
    path = written(tmp_path / "model")
    before = efml.read(path)
    for name in ("word.dic", "char.dic"):
        lines = (path / name).read_text().replace("\u3000\t", "").split("\n")[:-1]
        (path / name).write_text("\r\n".join(reversed(lines)))
    assert efml.read(path).fingerprint() == before.fingerprint()


def test_dictionaries_of_absent_branches_and_the_classifier_are_not_read(tmp_path):
    path = written(tmp_path / "model", "characters")
    (path / "word.dic").write_bytes(b"\xff")
    (path / "classifier.pkl").write_bytes(b"\xff")
    saved = efml.read(path)
    assert saved.vocabulary is None
    assert isinstance(saved.config.input, CodePointInput)


def test_padding_batching_and_order_change_nothing(tmp_path):
    saved = efml.read(written(tmp_path / "model"))
    alone = [layers(saved, [sentence])[0] for sentence in SENTENCES]
    assert_close(layers(saved, SENTENCES), alone, 1e-12)
    assert_close(layers(saved, SENTENCES[::-1]), alone[::-1], 1e-12)


# Refusals


def changed(path: Path, **changes: object) -> Path:
    architecture = json.loads((path / "tiny.json").read_text())
    for name, value in changes.items():
        part, _, key = name.partition("__")
        architecture[part][key] = value
    (path / "tiny.json").write_text(json.dumps(architecture))
    return path


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"encoder__name": "lstm"}, "the encoder is 'lstm'; only 'elmo'"),
        ({"token_embedder__name": "lstm"}, "the token embedder is 'lstm'; only 'cnn'"),
        ({"encoder__dim": 6}, r"encoder.pkl: tensor \S+ has shape \(20, 3\); the options say \(24, 3\)"),
        ({"encoder__dim": 3}, "only a smaller projection_dim is supported"),
        ({"encoder__dim": None}, "lstm.cells"),
        ({"encoder__n_layers": 1}, r"encoder.pkl: tensor \w+_layer_1.\S+ is not in the architecture"),
        ({"encoder__n_layers": 3}, "encoder.pkl: tensor forward_layer_2.input_linearity.weight is missing"),
        ({"encoder__n_layers": 2**31 - 1}, "is missing"),
        ({"encoder__cell_clip": -1}, "lstm.cell_clip"),
        ({"token_embedder__char_dim": 4}, r"char_emb_layer.embedding.weight has shape \(19, 3\); .* \(19, 4\)"),
        ({"token_embedder__char_dim": 0}, "token_embedder.pkl: tensor"),
        ({"token_embedder__word_dim": 0}, "token_embedder.pkl: tensor"),
        ({"token_embedder__word_dim": -4}, "input.word_table.width"),
        ({"token_embedder__filters": [[1, 3], [2, 2]]}, "token_embedder.pkl: tensor"),
        ({"token_embedder__filters": [[1, 3], [2, 2], [13, 4]]}, "does not fit in 12 characters"),
        ({"token_embedder__n_highway": 1}, "tensor highways._layers.1.bias is not in the architecture"),
        ({"token_embedder__n_highway": 10**12}, "is missing"),
        ({"token_embedder__activation": "gelu"}, "activation"),
        ({"token_embedder__max_characters_per_token": 2}, "max_characters"),
        ({"token_embedder__word_dim": 0, "token_embedder__char_dim": 0}, "neither a word table nor a convolution"),
    ],
)
def test_an_architecture_that_does_not_fit_is_refused(tmp_path, changes, why):
    with pytest.raises(ModelError, match=why):
        efml.read(changed(written(tmp_path / "model"), **changes))


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("config.json", b"{}", "no config_path"),
        ("config.json", b"[]", "expected a JSON file"),
        ("config.json", b"{", "not JSON"),
        ("config.json", b"[" * 100_000, "not JSON"),
        ("tiny.json", b"[]", "no section token_embedder"),
        ("tiny.json", b'{"token_embedder": {}}', "no section encoder"),
        ("word.dic", b"\xff\t0\n", "not UTF-8"),
        ("word.dic", b"a\t0\nb\t0\n", "word.dic:2: id 0 occurs twice"),
        ("word.dic", b"a\t0\nb\t2\n", "no symbol has id 1"),
        ("word.dic", b"a\t0\nb\tx\n", "word.dic:2: the id is 'x'"),
        ("word.dic", b"a\t0\n\nb\t1\n", "word.dic:2: the id is ''"),
        ("word.dic", b"a\t-1\n", "the id is '-1'"),
        ("word.dic", b"a\t1.0\n", "the id is '1.0'"),
        ("word.dic", "a\t٣\n".encode(), "the id is"),
        ("word.dic", b"a\t" + b"9" * 5000, "the id is"),
        ("word.dic", b"", "word_table.rows|no symbol"),
        ("char.dic", b"a\t0\na\t1\n", "'a' occurs twice"),
        ("char.dic", b"a\t0\n", "no <bos>, <eos>"),
        ("encoder.pkl", b"", "encoder.pkl: the file is empty"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(tmp_path, name, data, why):
    path = written(tmp_path / "model")
    (path / name).write_bytes(data)
    with pytest.raises(ModelError, match=why):
        efml.read(path)


def test_an_unreadable_path_of_the_architecture_is_passed_over(tmp_path):
    path = written(tmp_path / "model")
    (path / "config.json").write_bytes(b'{"config_path": "\\u0000"}')
    assert efml.read(path).config.lstm.cells == 5


def test_a_very_long_path_of_the_architecture_is_passed_over(tmp_path):
    path = written(tmp_path / "model")
    (path / "config.json").write_text(json.dumps({"config_path": "x" * 300}))
    assert efml.read(path).config.lstm.cells == 5


@pytest.mark.parametrize("name", ["config.json", "tiny.json", "word.dic", "char.dic"])
def test_a_file_that_is_a_device_is_refused(tmp_path, name):
    path = written(tmp_path / "model")
    (path / name).unlink()
    (path / name).symlink_to("/dev/zero")
    with pytest.raises(ModelError, match=r"not a regular file|named in config\.json is missing"):
        efml.read(path)


BIAS = "forward_layer_1.state_linearity.bias"


def with_bias(path: Path, bias: torch.Tensor) -> Path:
    """A model in float32 with that bias in one of its LSTMs."""
    oracle.write(oracle.random_model(oracle.architecture()), path, torch.float32)
    state = torch.load(path / "encoder.pkl", weights_only=True)
    torch.save(state | {BIAS: bias.expand(state[BIAS].shape).clone()}, path / "encoder.pkl")
    return path


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_a_tensor_of_another_precision_is_converted_where_that_is_exact(tmp_path, dtype):
    bias = torch.tensor([0.375], dtype=dtype)
    expected, found = (efml.read(with_bias(tmp_path / str(one.dtype), one)) for one in (bias.float(), bias))
    assert found.fingerprint() == expected.fingerprint()


def test_a_tensor_that_is_not_exact_in_the_precision_of_the_others_is_refused_by_name(tmp_path):
    with pytest.raises(ModelError, match=rf"encoder.pkl: tensor {BIAS} holds torch.float64 numbers that are not exact"):
        efml.read(with_bias(tmp_path / "model", torch.tensor([0.1], dtype=torch.float64)))


def test_a_vocabulary_without_a_marker_is_refused(tmp_path):
    path = written(tmp_path / "model", "words")
    (path / "word.dic").write_text((path / "word.dic").read_text().replace("<oov>", "oov"))
    with pytest.raises(ModelError, match=r"word\.dic: no <oov>;"):
        efml.read(path)


@pytest.mark.parametrize("name", ["config.json", "word.dic", "char.dic", "token_embedder.pkl", "encoder.pkl"])
def test_a_missing_file_is_named(tmp_path, name):
    path = written(tmp_path / "model")
    (path / name).unlink()
    with pytest.raises(ModelError, match=name):
        efml.read(path)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(tmp_path, number):
    model = oracle.random_model(oracle.architecture())
    model.encoder["forward_layer_1.state_linearity.bias"][3] = number
    with pytest.raises(ModelError, match=r"forward_layer_1.state_linearity.bias holds NaN or infinity"):
        efml.read(oracle.write(model, tmp_path / "model"))


@pytest.mark.parametrize(("part", "size"), [("word_table", 11), ("convolution", 20)])
def test_our_folder_refuses_tables_of_another_size_than_their_lists(tmp_path, part, size):
    saved = efml.read(written(tmp_path / "model"))
    rows = getattr(saved.config.input, part).model_copy(update={"rows": size})
    config = saved.config.model_copy(update={"input": saved.config.input.model_copy(update={part: rows})})
    with pytest.raises(ModelError, match=f"but the model's table has {size} rows"):
        replace(saved, bilm=BiLM(config))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{}", "not a list of strings"),
        (b"[1]", "not a list"),
        (b'["a"]', "1 symbols; config.json says 19"),
        (b"[", "JSON"),
    ],
)
def test_our_folder_refuses_a_damaged_alphabet(tmp_path, data, why):
    folder.write(efml.read(written(tmp_path / "model")), tmp_path)
    (tmp_path / "alphabet.json").write_bytes(data)
    with pytest.raises(ModelError, match=why):
        folder.read(tmp_path)


# Damage: a flipped bit in a .dic file or a JSON file can be another valid text (a word, a clip), and the older
# container of the pickles has no checksum. There the promise is a refusal or a model whose every number is finite.


def damaged(data: bytes, generator: random.Random) -> bytes:
    place = generator.randrange(len(data))
    if generator.random() < 0.3:
        return data[:place]
    return data[:place] + bytes([data[place] ^ 1 << generator.randrange(8)]) + data[place + 1 :]


def outcome(path: Path) -> SavedModel | None:
    try:
        return efml.read(path)
    except ModelError:
        return None


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "older"])
@pytest.mark.parametrize(
    "name", ["config.json", "tiny.json", "word.dic", "char.dic", "token_embedder.pkl", "encoder.pkl"]
)
def test_a_damaged_file_is_refused_or_gives_a_sound_model(tmp_path, name, zipped):
    path, generator = written(tmp_path / "model", zipped=zipped), random.Random(name)
    data = (path / name).read_bytes()
    for _ in range(40):
        (path / name).write_bytes(damaged(data, generator))
        saved = outcome(path)
        tensors = saved.bilm.state_dict().values() if saved else ()
        assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


@pytest.mark.parametrize("name", ["token_embedder.pkl", "encoder.pkl"])
def test_damage_to_a_checked_pickle_never_changes_a_vector(tmp_path, name):
    path, generator = written(tmp_path / "model"), random.Random(7)
    data, whole = (path / name).read_bytes(), efml.read(path).fingerprint()
    for _ in range(100):
        (path / name).write_bytes(damaged(data, generator))
        saved = outcome(path)
        assert saved is None or saved.fingerprint() == whole

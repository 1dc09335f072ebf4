"""A zip or folder as the NLPL repository has it gives the numbers of the published files inside."""

import gzip
import json
import random
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.embed.model import Model
from stelmo.errors import ModelError, StelmoError
from stelmo.formats import bilm, nlpl
from stelmo.settings import LoadSettings
from stelmo.store.saved import SavedModel

WORDS = ["<S>", "</S>", "<UNK>", "the", "naïve", "日本", "\u2028"]
LINES = "".join(f"{word}\n" for word in WORDS).encode()
OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS, seed=5)
SENTENCES = [["the", "naïve", "cat"], ["日本"], ["a" * 60, "<S>", "", "\udc80x", "\u2028"]]


def hdf5_bytes(arrays, **storage) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".hdf5") as place:
        with h5py.File(place.name, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array, **storage)
        return Path(place.name).read_bytes()


WEIGHTS = hdf5_bytes(ARRAYS)
MEMBERS = {"meta.json": b'{"algorithm": "ELMo"}', "model.hdf5": WEIGHTS, "options.json": json.dumps(OPTIONS).encode()}


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def filled(folder: Path, members: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in members.items():
        (folder / name).write_bytes(data)
    return folder


def inside(folder: str, members: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in members.items()}


def layers(saved: SavedModel, sentences=SENTENCES, precision="float64"):
    return Model(saved, LoadSettings(precision=precision, state="fresh")).layers(sentences)


def assert_oracle(saved: SavedModel, sentences=SENTENCES, options=OPTIONS, arrays=ARRAYS, vocabulary=None):
    for tokens, found in zip(sentences, layers(saved, sentences), strict=True):
        expected = oracle.layers(options, arrays, tokens, vocabulary=vocabulary)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_the_clips_bite_in_these_tests():
    found = np.concatenate([oracle.layers(OPTIONS, ARRAYS, tokens)[1] for tokens in SENTENCES])
    assert 0.05 < np.mean(np.abs(found) == OPTIONS["lstm"]["proj_clip"]) < 0.95


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("home", ["", "216"])
def test_a_zip_gives_the_oracles_numbers(tmp_path, method, home):
    members = inside(home, MEMBERS) if home else MEMBERS
    path = zipped(tmp_path / "216.zip", members, method)
    assert nlpl.recognises(path)
    saved = nlpl.read(path)
    assert saved.format == "NLPL zip (bilm HDF5)"
    assert saved.vocabulary is None
    assert_oracle(saved)


def test_a_zip_and_the_files_in_it_are_one_model(tmp_path):
    oracle.write(tmp_path, OPTIONS, ARRAYS, WORDS)
    vocabulary = {"vocab.txt.gz": gzip.compress(LINES)}
    zip_ = nlpl.read(zipped(tmp_path / "216.zip", MEMBERS | vocabulary))
    files = bilm.read(tmp_path / "weights.hdf5", tmp_path / "options.json", tmp_path / "vocab.txt")
    assert zip_.fingerprint() == files.fingerprint()
    for found, expected in zip(layers(zip_), layers(files), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "vocabulary",
    [
        {"vocab.txt": LINES},
        {"vocab.txt.gz": gzip.compress(LINES)},
        {"vocab.txt": LINES, "vocab.txt.gz": b"not looked at"},
        {"vocab_no.txt.gz": gzip.compress(LINES)},
    ],
)
@pytest.mark.parametrize("pack", [zipped, filled])
def test_the_vocabulary_is_found(tmp_path, pack, vocabulary):
    path = pack(tmp_path / "model.zip", MEMBERS | vocabulary)
    assert nlpl.recognises(path)
    saved = nlpl.read(path)
    assert list(saved.vocabulary) == WORDS
    assert_oracle(saved)


def test_a_folder_gives_the_oracles_numbers(tmp_path):
    folder = filled(tmp_path / "216", MEMBERS)
    assert nlpl.recognises(folder)
    saved = nlpl.read(folder)
    assert saved.format == "NLPL folder (bilm HDF5)"
    assert_oracle(saved)


@pytest.mark.parametrize("count", [261, 262])
def test_both_counts_of_characters_mean_the_same_table(tmp_path, count):
    options = OPTIONS | {"char_cnn": OPTIONS["char_cnn"] | {"n_characters": count}}
    assert_oracle(nlpl.read(zipped(tmp_path / "a.zip", MEMBERS | {"options.json": json.dumps(options).encode()})))


def test_published_names_in_a_zip_are_found(tmp_path):
    renamed = {
        "elmo_2x8_weights.hdf5": WEIGHTS,
        "elmo_2x8_options.json": MEMBERS["options.json"],
        "__MACOSX/._model.hdf5": b"of another system",
    }
    assert_oracle(nlpl.read(zipped(tmp_path / "a.zip", renamed)))


@pytest.mark.parametrize("pack", [zipped, filled])
def test_a_softmax_is_read_when_asked_for(tmp_path, pack):
    softmax = {"softmax/W": np.ones((7, 4)), "softmax/b": np.arange(7.0)}
    members = MEMBERS | {"vocab.txt": LINES, "softmax_weights.hdf5": hdf5_bytes(softmax)}
    head = nlpl.read(pack(tmp_path / "a.zip", members)).read_softmax()
    np.testing.assert_array_equal(head.bias, softmax["softmax/b"])


def test_a_model_that_reads_word_ids_is_sized_by_its_vocabulary(tmp_path):
    options = oracle.options(filters=None)
    arrays = oracle.random_weights(options, words=len(WORDS))
    members = {"model.hdf5": hdf5_bytes(arrays), "options.json": json.dumps(options).encode(), "vocab.txt": LINES}
    saved = nlpl.read(zipped(tmp_path / "a.zip", members))
    assert_oracle(saved, [["the", "unseen", "日本"]], options, arrays, WORDS)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    saved = nlpl.read(zipped(tmp_path_factory.mktemp("nlpl") / "a.zip", MEMBERS))
    return Model(saved, LoadSettings(precision="float64", state="fresh"))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=20), max_size=4))
def test_any_sentence_gives_the_oracles_numbers(model, tokens):
    np.testing.assert_allclose(model.layers([tokens])[0], oracle.layers(OPTIONS, ARRAYS, tokens), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"model.hdf5": WEIGHTS}, "options.json: 0 found among model.hdf5"),
        ({"options.json": b"{}", "a.hdf5": WEIGHTS, "b.hdf5": WEIGHTS}, "weights: 2 found among a.hdf5, b.hdf5"),
        (inside("one", MEMBERS) | inside("two", MEMBERS), "weights: 2 found"),
        ({"deep/er/model.hdf5": WEIGHTS, "deep/er/options.json": b"{}"}, "weights: 0 found"),
        (MEMBERS | {"options.json": b"not JSON"}, "options.json: not JSON"),
        (MEMBERS | {"options.json": b"[" * 100_000}, "options.json: not JSON"),
        (MEMBERS | {"model.hdf5": WEIGHTS[:900]}, "a.zip: model.hdf5: damaged"),
        (MEMBERS | {"vocab.txt": b"a\n\xff\n"}, "a.zip: vocab.txt:2: not UTF-8"),
        (MEMBERS | {"vocab.txt.gz": gzip.compress(LINES)[:-9]}, "a.zip: vocab.txt.gz: a damaged"),
        (MEMBERS | {"../model.hdf5": WEIGHTS}, "points outside"),
    ],
)
def test_a_zip_without_a_whole_model_is_refused(tmp_path, members, found):
    with pytest.raises(StelmoError) as refused:
        nlpl.read(zipped(tmp_path / "a.zip", members))
    assert found in str(refused.value)
    assert "/stelmo-" not in str(refused.value)


@pytest.mark.parametrize("wrong", ["n_layers", "dim", "projection_dim"])
def test_options_that_promise_a_giant_are_refused_at_once(tmp_path, wrong):
    options = OPTIONS | {"lstm": OPTIONS["lstm"] | {wrong: 2_000_000_000}}
    path = zipped(tmp_path / "a.zip", MEMBERS | {"options.json": json.dumps(options).encode()})
    tracemalloc.start()
    with pytest.raises(ModelError):
        nlpl.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


def test_other_zips_and_folders_are_not_recognised(tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "state.th")
    np.savez(tmp_path / "vectors.npz", a=np.zeros(3))
    zipped(tmp_path / "efml.zip", {"char.dic": b"", "encoder.pkl": b""})
    assert not any(nlpl.recognises(tmp_path / name) for name in ("state.th", "vectors.npz", "efml.zip", "absent"))
    assert not nlpl.recognises(tmp_path)


def test_a_torn_zip_is_recognised_by_its_name_so_that_its_damage_is_said(tmp_path):
    path = zipped(tmp_path / "a.zip", MEMBERS)
    path.write_bytes(path.read_bytes()[:-30])
    assert nlpl.recognises(path)
    with pytest.raises(ModelError, match=r"a\.zip: a damaged or truncated archive"):
        nlpl.read(path)


def outcome(path: Path, raw: bytes) -> SavedModel | None:
    path.write_bytes(raw)
    try:
        return nlpl.read(path)
    except ModelError:
        return None


def test_a_truncated_zip_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", MEMBERS)
    raw = path.read_bytes()
    assert all(outcome(path, raw[:end]) is None for end in range(0, len(raw), len(raw) // 60))


def test_a_flipped_bit_in_a_zip_is_refused_or_harmless(tmp_path):
    path = zipped(tmp_path / "a.zip", MEMBERS | {"vocab.txt.gz": gzip.compress(LINES)})
    chance, raw, whole = random.Random(3), path.read_bytes(), nlpl.read(path)
    directory = raw.index(b"PK\x01\x02")
    places = [chance.randrange(len(raw)) for _ in range(100)] + [
        chance.randrange(directory, len(raw)) for _ in range(200)
    ]
    survivors = 0
    for place in places:
        flipped = bytearray(raw)
        flipped[place] ^= 1 << chance.randrange(8)
        found = outcome(path, bytes(flipped))
        survivors += found is not None
        for name, tensor in ({} if found is None else found.bilm.state_dict()).items():
            assert torch.equal(tensor, whole.bilm.state_dict()[name])
    assert 0 < survivors < len(places)


def test_damaged_weights_under_whole_checksums_raise_nothing_else(tmp_path):
    chance = random.Random(4)
    for _ in range(60):
        flipped = bytearray(WEIGHTS)
        for _ in range(4):
            flipped[chance.randrange(len(WEIGHTS) // 4)] = chance.randrange(256)
        zipped(tmp_path / "a.zip", MEMBERS | {"model.hdf5": bytes(flipped)}, zipfile.ZIP_STORED)
        outcome(tmp_path / "a.zip", (tmp_path / "a.zip").read_bytes())


def test_damaged_options_raise_nothing_else(tmp_path):
    chance, options = random.Random(5), MEMBERS["options.json"]
    for _ in range(120):
        flipped = bytearray(options)
        flipped[chance.randrange(len(options))] = chance.choice(b'0123456789-.eE,:[]{}"ntf')
        zipped(tmp_path / "a.zip", MEMBERS | {"options.json": bytes(flipped)}, zipfile.ZIP_STORED)
        outcome(tmp_path / "a.zip", (tmp_path / "a.zip").read_bytes())

"""Where sentences start if the caller does not say, in every format: from zeros, or from the model's own warm state.

Provenance of the numbers: AllenNLP published those of its tiny model, TensorFlow computed those of the checkpoint, and
the independent NumPy oracles those of all others.
"""

import io
import json
import tarfile
import zipfile

import efml_oracle
import h5py
import numpy as np
import oracle
import pytest
import torch
from allennlp_state import state_of
from shared import GOLDEN

import stelmo
from stelmo.cli.info import describe
from stelmo.compat import loaded

CHECKPOINT = GOLDEN.parents[1] / "fixtures" / "bilm_tf_checkpoint"
OPTIONS = oracle.options(highways=2)
ARRAYS = oracle.random_weights(OPTIONS, seed=4)
TOKENS = ["the", "river", "bank", "."]
OTHERS = [["a", "long", "river"], ["the", "tree"]]  # the mean of the states at their ends is a warm state


def published(folder):
    sentence = json.loads((GOLDEN / "sentences.json").read_text())[0][0].split()
    with h5py.File(GOLDEN / "lm_embeddings_0.hdf5") as file:
        return GOLDEN, sentence, np.concatenate(file["0"], -1)[None]


def bilm_files(folder):
    oracle.write(folder, OPTIONS, ARRAYS)
    return folder / "weights.hdf5", TOKENS, oracle.layers(OPTIONS, ARRAYS, TOKENS)


def allennlp_archive(folder):
    weights = io.BytesIO()
    torch.save(state_of(ARRAYS, prefix="embedder._elmo."), weights)
    members = {"weights.th": weights.getvalue(), "fta/model.options_file": json.dumps(OPTIONS).encode()}
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return folder / "model.tar.gz", TOKENS, oracle.layers(OPTIONS, ARRAYS, TOKENS)


def nlpl_zip(folder):
    oracle.write(folder, OPTIONS, ARRAYS)
    with zipfile.ZipFile(folder / "216.zip", "w") as archive:
        archive.write(folder / "weights.hdf5", "model.hdf5")
        archive.write(folder / "options.json", "options.json")
    return folder / "216.zip", TOKENS, oracle.layers(OPTIONS, ARRAYS, TOKENS)


def elmoformanylangs_folder(folder):
    made, tokens = efml_oracle.random_model(efml_oracle.architecture()), ["the", "tree", "木"]
    return efml_oracle.write(made, folder), tokens, efml_oracle.layers(made, tokens)


def tensorflow_checkpoint(folder):
    expected = np.load(CHECKPOINT / "expected_outputs.npz")
    return CHECKPOINT, expected["sentence_0"].tolist(), expected["layers_0"][:, 1:-1]


def converted_folder(folder):
    """A foreign model as a stelmo folder: it has no warm state of its own, and gets none by being converted."""
    path, tokens, layers = bilm_files(folder)
    stelmo.load(path, precision="float64").save(folder / "converted")
    return folder / "converted", tokens, layers


FOREIGN = [
    published,
    bilm_files,
    allennlp_archive,
    nlpl_zip,
    elmoformanylangs_folder,
    tensorflow_checkpoint,
    converted_folder,
]


@pytest.mark.parametrize("write", FOREIGN, ids=lambda write: write.__name__)
def test_a_model_without_a_warm_state_of_its_own_starts_from_zeros(write, tmp_path):
    path, tokens, expected = write(tmp_path)
    model = stelmo.load(path)
    assert model.settings.state == "fresh"
    for found in (model.layers([tokens])[0], stelmo.load(path, state="fresh").layers([tokens])[0]):
        np.testing.assert_allclose(found[-len(expected) :], expected, rtol=0, atol=1e-5)
    assert dict(describe(path))["start state"] == "fresh (zeros): no warm state of its own"


@pytest.mark.parametrize("write", FOREIGN, ids=lambda write: write.__name__)
def test_the_warm_state_can_be_asked_for_and_differs(write, tmp_path):
    path, tokens, expected = write(tmp_path)
    warm = stelmo.load(path, state="warm").layers([tokens])[0]
    assert np.abs(warm[-1] - expected[-1]).max() > 1e-3


def test_a_model_with_a_warm_state_of_its_own_starts_from_it(tmp_path):
    path, tokens, zeros = bilm_files(tmp_path)
    model = stelmo.load(path, precision="float64")
    model.warm_up(OTHERS)
    model.save(tmp_path / "warm")
    ends = [oracle.run(OPTIONS, ARRAYS, sentence)[1] for sentence in OTHERS]
    start = tuple(np.mean(part, axis=0) for part in zip(*ends, strict=True))
    expected = oracle.layers(OPTIONS, ARRAYS, tokens, start)
    again = stelmo.load(tmp_path / "warm", precision="float64")
    assert again.settings.state == "warm"
    np.testing.assert_allclose(again.layers([tokens])[0], expected, rtol=0, atol=1e-10)
    assert np.abs(expected[-1] - zeros[-1]).max() > 1e-3
    assert dict(describe(tmp_path / "warm"))["start state"] == "warm: its own, stored"
    np.testing.assert_allclose(loaded(tmp_path / "warm").layers([tokens])[0], zeros, rtol=0, atol=1e-5)


def test_the_bundled_model_brings_its_own_warm_state():
    assert stelmo.load().settings.state == "warm"

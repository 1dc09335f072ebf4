"""Vectors that AllenNLP published with its tiny model, reproduced; a trained model against the oracle.

Provenance: AllenNLP's test_fixtures/elmo (Apache 2.0). Three rows of ten sentences; batch i holds sentence i of
every row, and the LSTM state of a row goes on from batch to batch. File k, dataset "i", is (2, tokens, 16): the
forward and the backward half of the top layer for row k. AllenNLP's own tolerance: atol 1e-6, rtol 1e-5.
"""

import hashlib
import json

import h5py
import numpy as np
import oracle
import pytest
from shared import ENGLISH, GOLDEN, needs_english

import stelmo
from stelmo.compat.allennlp import ElmoEmbedder
from stelmo.engine.plain import Plain

SHA256 = {
    "lm_weights.hdf5": "dfdfd3001b5965b4",
    "lm_embeddings_0.hdf5": "ebeee87fe246cacc",
    "lm_embeddings_1.hdf5": "3c1547698ac31d92",
    "lm_embeddings_2.hdf5": "b10dabcc36b9461c",
    "elmo_token_embeddings.hdf5": "39cd3c881b66b74a",
}
SENTENCES = [
    ["The", "bank", "of", "the", "river", "was", "covered", "with", "grass", "."],
    ["She", "went", "to", "the", "bank", "to", "deposit", "1,250", "euros", ",", "naïve", "as", "ever", "."],
    ["Hello"],
    [
        "Pneumonoultramicroscopicsilicovolcanoconiosis-and-more",
        "was",
        "the",
        "winning",
        "word",
        "in",
        "1985",
        "🙂",
    ],
]


def golden_batches():
    rows = json.loads((GOLDEN / "sentences.json").read_text())
    return [[sentence.split() for sentence in batch] for batch in zip(*rows, strict=True)]


def golden_vectors():
    """The published top layer (tokens, 32) of every sentence, batch by batch."""
    rows = []
    for number in range(3):
        with h5py.File(GOLDEN / f"lm_embeddings_{number}.hdf5") as file:
            rows.append([np.concatenate(file[str(batch)], -1) for batch in range(10)])
    return list(zip(*rows, strict=True))


def golden_tokens():
    with h5py.File(GOLDEN / "elmo_token_embeddings.hdf5") as file:
        return file["embedding"][...]


def carried(model):
    """All golden batches, one call each, the state passed on."""
    state, results = None, []
    for batch in golden_batches():
        layers, state = model.carry(batch, state)
        results.append(layers)
    return results


def assert_golden(results):
    for batch, expected in zip(results, golden_vectors(), strict=True):
        for layers, vectors in zip(batch, expected, strict=True):
            assert np.abs(vectors).max() > 0.1
            np.testing.assert_allclose(layers[-1], vectors, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "prefix"), SHA256.items())
def test_the_golden_files_are_the_published_ones(name, prefix):
    assert hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest().startswith(prefix)


def test_unasked_a_published_model_starts_from_zeros_as_the_original_s_first_batch():
    model, batch = stelmo.load(GOLDEN), golden_batches()[0]
    embedders = [model, ElmoEmbedder(GOLDEN / "options.json", GOLDEN / "lm_weights.hdf5").model]
    for found in embedders:
        for layers, top in zip(found.layers(batch), golden_vectors()[0], strict=True):
            np.testing.assert_allclose(layers[-1], top, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_published_vectors_are_reproduced(precision):
    assert_golden(carried(stelmo.load(GOLDEN, precision=precision)))


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_published_vectors_are_reproduced_by_the_reference(precision):
    model = stelmo.load(GOLDEN, precision=precision)
    model.engine.compute = lambda: Plain(model.bilm, model.engine.word_ids)  # as on other devices and in training
    assert_golden(carried(model))


def test_one_call_under_carry_with_the_published_rows_reproduces_them_too():
    model = stelmo.load(GOLDEN, state="carry", batch_rows=3)
    found = model.layers([sentence for batch in golden_batches() for sentence in batch])
    assert_golden([found[start : start + 3] for start in range(0, 30, 3)])


def test_the_oracle_reproduces_the_published_vectors():
    options = json.loads((GOLDEN / "options.json").read_text())
    assert_golden(oracle.carry(options, oracle.read(GOLDEN / "lm_weights.hdf5"), golden_batches())[0])


def test_the_published_token_vectors_are_reproduced():
    model = stelmo.load(GOLDEN)
    assert np.abs(golden_tokens()).max() > 0.1
    np.testing.assert_allclose(model.token_vectors(list(model.vocabulary)), golden_tokens(), rtol=1e-5, atol=1e-6)


def test_the_published_token_vectors_as_input_give_the_published_vectors():
    cache = GOLDEN / "elmo_token_embeddings.hdf5"
    model = stelmo.load(GOLDEN, vocabulary=GOLDEN / "vocab_test.txt", token_embeddings=cache)
    assert_golden(carried(model))
    np.testing.assert_array_equal(model.token_vectors(list(model.vocabulary)), golden_tokens())


# Measured on these sentences: 1.2e-6 in float32 and 8e-15 in float64, where the vectors reach 7.
@needs_english
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_a_trained_model_agrees_with_the_oracle(precision, tolerance):
    options = json.loads((ENGLISH / "options.json").read_text())
    arrays = oracle.read(ENGLISH / "weights.hdf5")
    found = stelmo.load(ENGLISH, state="fresh", precision=precision).layers(SENTENCES)
    for tokens, layers in zip(SENTENCES, found, strict=True):
        expected = oracle.layers(options, arrays, tokens)
        assert np.abs(expected).max() > 1
        np.testing.assert_allclose(layers, expected, rtol=0, atol=tolerance)

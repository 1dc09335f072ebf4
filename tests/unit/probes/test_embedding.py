import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.embed.transformer import TransformerVectors
from stelmo.errors import ConfigError
from stelmo.probes import embedding
from stelmo.probes.embedding import Occurrence, blocks, cosines, occurrence_vectors, unit


def numbered(sentences):
    """Word number i of a sentence of n words has the vector (i, n)."""
    return [np.array([[i, len(words)] for i in range(len(words))], np.float64) for words in sentences]


def test_an_occurrence_of_several_words_has_their_mean():
    occurrences = [Occurrence(("a", "b", "c"), 1, 2), Occurrence(("a", "b", "c", "d"), 1, 4)]
    np.testing.assert_array_equal(occurrence_vectors(occurrences, numbered), [[1, 3], [2, 4]])


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=9), block=st.integers(1, 4))
def test_blocks_change_no_vector(sizes, block):
    occurrences = [Occurrence(("w",) * size, size - 1, size) for size in sizes]
    np.testing.assert_array_equal(
        occurrence_vectors(occurrences, numbered, block), occurrence_vectors(occurrences, numbered)
    )


def test_sentences_are_embedded_a_block_at_a_time():
    asked = []

    def embed(sentences):
        asked.append(len(sentences))
        return numbered(sentences)

    occurrence_vectors([Occurrence(("w",), 0, 1)] * 5, embed, block=2)
    assert asked == [2, 2, 1]


def test_no_uses_have_no_vectors():
    assert len(occurrence_vectors([], numbered)) == 0


def test_a_missing_sentence_is_noticed():
    with pytest.raises(ValueError, match="shorter"):
        occurrence_vectors([Occurrence(("w",), 0, 1)] * 2, lambda sentences: numbered(sentences)[:1])


def test_cosines_ignore_length_and_zeros_are_like_nothing():
    a_ND = np.array([[3.0, 0], [1, 1], [0, 0]])
    b_ND = np.array([[7.0, 0], [-2, -2], [1, 0]])
    np.testing.assert_allclose(cosines(a_ND, b_ND), [1, -1, 0], rtol=1e-6)


def test_half_precision_does_not_overflow_when_scaled():
    np.testing.assert_allclose(np.linalg.norm(unit(np.full((1, 64), 60000, np.float16))), 1, rtol=1e-6)


@given(items=st.lists(st.integers()), size=st.integers(1, 4))
def test_blocks_are_the_items_in_order(items, size):
    assert [item for block in blocks(items, size) for item in block] == items


def test_a_transformer_is_a_source_of_one_kind_of_vectors(bert):
    source = embedding.of_transformer(bert)
    assert source.names == ("tiny-bert",)
    words = ("the", "unbelievable", "bank")
    (found,) = source.embed([words])
    np.testing.assert_array_equal(found[:, 0], TransformerVectors(bert).layers([words])[0][0])


def test_a_difference_of_layers_is_what_the_upper_one_adds(model):
    source = embedding.of_model(model, [2, (2, 1), (1, 0)])
    assert source.names == ("layer 0", "layer 2", "layer 1 − 0", "layer 2 − 1")
    (found,) = source.embed([("the", "bank")])
    (layers_LTD,) = model.layers([["the", "bank"]])
    np.testing.assert_array_equal(found[:, 1], layers_LTD[2])
    np.testing.assert_array_equal(found[:, 3], layers_LTD[2] - layers_LTD[1])
    with pytest.raises(ConfigError, match="layer: 5 is not one of 0, 1, 2"):
        embedding.of_model(model, [(5, 1)])

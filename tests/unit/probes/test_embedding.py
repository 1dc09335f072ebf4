import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stelmo.errors import ModelError
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


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A random BERT of eight positions whose words fall into sub-tokens of known number."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "bank", "un", "##believ", "##able"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(pieces))
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=8).save_pretrained(folder)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(pieces), max_position_embeddings=8, **shape)
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def hidden(folder, ids):
    """Straight through the network: [CLS] ids [SEP] → (T, D) of the ids."""
    from transformers import AutoModel

    with torch.inference_mode():
        output = AutoModel.from_pretrained(folder).eval()(input_ids=torch.tensor([[2, *ids, 3]]))
    return output.last_hidden_state[0, 1:-1].numpy()


def test_a_words_vector_is_the_mean_over_its_sub_tokens(bert):
    source = embedding.of_transformer(bert)
    assert source.names == ("tiny-bert",)
    (found,) = source.embed([("the", "unbelievable", "bank")])
    expected = hidden(bert, [5, 7, 8, 9, 6])
    assert found.shape == (3, 1, 8)
    np.testing.assert_allclose(found[0, 0], expected[0], atol=1e-6)
    np.testing.assert_allclose(found[1, 0], expected[1:4].mean(0), atol=1e-6)
    np.testing.assert_allclose(found[2, 0], expected[4], atol=1e-6)


def test_a_sentence_that_is_too_long_is_read_in_parts_and_no_word_is_lost(bert):
    (found,) = embedding.of_transformer(bert).embed([("the", "unbelievable", "bank", "unbelievable", "the")])
    first, second = hidden(bert, [5, 7, 8, 9, 6]), hidden(bert, [7, 8, 9, 5])
    np.testing.assert_allclose(found[2, 0], first[4], atol=1e-6)
    np.testing.assert_allclose(found[3, 0], second[:3].mean(0), atol=1e-6)
    np.testing.assert_allclose(found[4, 0], second[3], atol=1e-6)


def test_a_folder_without_a_transformer_is_refused(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(ModelError, match=r"no config\.json"):
        embedding.of_transformer(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(ModelError, match="cannot be read as a Transformer"):
        embedding.of_transformer(tmp_path)

"""Vectors of a Transformer's words against its own network, and layers of it in place of a biLM's."""

import numpy as np
import pytest
import torch

from stelmo.embed.elmo import Elmo
from stelmo.embed.transformer import TransformerVectors
from stelmo.errors import ConfigError, ModelError, OutputError
from stelmo.jobs.precompute import precompute


def hidden(folder, ids):
    """Straight through the network: [CLS] ids [SEP] → (T, D) of the ids."""
    from transformers import AutoModel

    with torch.inference_mode():
        output = AutoModel.from_pretrained(folder).eval()(input_ids=torch.tensor([[2, *ids, 3]]))
    return output.last_hidden_state[0, 1:-1].numpy()


def test_a_words_vector_is_the_mean_over_its_sub_tokens(bert):
    (found,) = TransformerVectors(bert).layers([("the", "unbelievable", "bank")])
    expected = hidden(bert, [5, 7, 8, 9, 6])
    assert found.shape == (1, 3, 8)
    np.testing.assert_allclose(found[0, 0], expected[0], atol=1e-6)
    np.testing.assert_allclose(found[0, 1], expected[1:4].mean(0), atol=1e-6)
    np.testing.assert_allclose(found[0, 2], expected[4], atol=1e-6)


def test_a_sentence_that_is_too_long_is_read_in_parts_and_no_word_is_lost(bert):
    (found,) = TransformerVectors(bert).layers([("the", "unbelievable", "bank", "unbelievable", "the")])
    first, second = hidden(bert, [5, 7, 8, 9, 6]), hidden(bert, [7, 8, 9, 5])
    np.testing.assert_allclose(found[0, 2], first[4], atol=1e-6)
    np.testing.assert_allclose(found[0, 3], second[:3].mean(0), atol=1e-6)
    np.testing.assert_allclose(found[0, 4], second[3], atol=1e-6)


@pytest.fixture(params=["RoBERTa", "any"])
def roberta(request, tmp_path):
    """A random RoBERTa of ten positions, two of which no text can use, with a byte-level tokenizer: as RoBERTa's own
    class, or as a file without a class. Neither says how long a text may be."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = tokenizers.ByteLevelBPETokenizer()
    pieces.train_from_iterator(["by the bank"] * 9, vocab_size=300, special_tokens=special, show_progress=False)
    if request.param == "any":
        names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), special, strict=True))
        pieces.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        transformers.PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, **names).save_pretrained(tmp_path)
    else:
        pieces.save_model(str(tmp_path))
        transformers.RobertaTokenizerFast.from_pretrained(tmp_path).save_pretrained(tmp_path)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.RobertaConfig(vocab_size=pieces.get_vocab_size(), max_position_embeddings=10, **shape)
    torch.manual_seed(0)
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    return tmp_path


def test_words_are_read_by_a_byte_level_tokenizer_as_in_running_text(roberta):
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(roberta)
    pieces = [tokenizer.convert_tokens_to_ids(piece) for piece in ("Ġthe", "Ġbank")]
    assert tokenizer.unk_token_id not in pieces
    with torch.inference_mode():
        network = AutoModel.from_pretrained(roberta).eval()
        expected = network(input_ids=torch.tensor([[0, *pieces, 2]])).last_hidden_state[0, 1:-1].numpy()
    (found,) = TransformerVectors(roberta).layers([["the", "bank"]])
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


def test_a_text_as_long_as_the_usable_positions_is_read_whole_and_a_longer_one_in_parts(roberta):
    vectors = TransformerVectors(roberta)
    whole, longer = (vectors.layers([["bank"] * words])[0] for words in (6, 13))
    assert whole.shape == (1, 6, 8)
    assert longer.shape == (1, 13, 8)
    np.testing.assert_allclose(longer[:, :6], whole, atol=1e-6)
    np.testing.assert_allclose(longer[:, 6:12], whole, atol=1e-6)


def test_a_folder_without_a_transformer_is_refused(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(ModelError, match=r"no config\.json"):
        TransformerVectors(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(ModelError, match="cannot be read as a Transformer"):
        TransformerVectors(tmp_path)


def test_stored_vectors_are_mixed_as_one_layer(bert, tmp_path):
    vectors, sentences = TransformerVectors(bert), [["the", "bank"], ["unbelievable", "bank", "the"]]
    cached = precompute(vectors, [*sentences, []], tmp_path / "layers")
    assert len(cached) == 3
    elmo = Elmo(cached, dropout=0.0)
    found_BTD, mask_BT = elmo(sentences)
    assert found_BTD.shape == (2, 3, 8)
    assert mask_BT.tolist() == [[True, True, False], [True, True, True]]
    np.testing.assert_allclose(found_BTD[1].detach(), vectors.layers(sentences)[1][0], atol=1e-6)
    assert found_BTD[0, 2].tolist() == [0.0] * 8
    with pytest.raises(ConfigError, match="cannot change"):
        Elmo(cached, trainable=True)


def test_stored_vectors_belong_to_one_transformer(bert, tmp_path, model):
    precompute(TransformerVectors(bert), [["the"]], tmp_path / "layers")
    with pytest.raises(OutputError, match="layers of another model"):
        precompute(model, [["the"]], tmp_path / "layers")

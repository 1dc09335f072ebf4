"""AllenNLP's indexer and character mapper: the ids of words, markers and added tokens, and their padding."""

from types import SimpleNamespace

import pytest
import torch

from stelmo.compat.allennlp import ConfigurationError, ELMoCharacterMapper, ELMoTokenCharactersIndexer, batch_to_ids

REST = [261] * 50


def row(*ids):
    """259, the ids, 260, and padding up to 50."""
    return [259, *ids, 260, *REST][:50]


@pytest.mark.parametrize(
    ("word", "ids"),
    [("<S>", [257]), ("</S>", [258]), ("Āt", [197, 129, 117]), ("x" * 99, [121] * 48), ("\ud800a", [98])],
)
def test_a_word_has_the_ids_of_the_published_models(word, ids):
    indexer = ELMoTokenCharactersIndexer()
    token = SimpleNamespace(text=word)
    assert indexer.tokens_to_indices([token], object(), "name") == {"name": [row(*ids)]}
    assert indexer.tokens_to_indices([word]) == {"tokens": [row(*ids)]}


def test_an_added_token_is_one_character():
    indexer = ELMoTokenCharactersIndexer(tokens_to_add={"<first>": 1})
    assert indexer.tokens_to_indices(["<first>", "a"])["tokens"] == [row(2), row(98)]
    assert indexer != ELMoTokenCharactersIndexer()


def test_padding_adds_rows_of_zeros_as_lists_and_as_tensors():
    indexer = ELMoTokenCharactersIndexer()
    ids = indexer.tokens_to_indices(["a", "b"])
    expected = [row(98), row(99), [0] * 50]
    assert indexer.pad_token_sequence(ids, {"tokens": 3}, {})["tokens"] == expected
    assert indexer.as_padded_tensor(ids, {"tokens": 3}, {})["tokens"].tolist() == expected
    assert indexer.as_padded_tensor_dict(ids, {"tokens": 1})["tokens"].tolist() == expected[:1]
    assert indexer.get_padding_lengths("a") == {}
    assert ELMoTokenCharactersIndexer(token_min_padding_length=2).get_token_min_padding_length() == 2
    assert indexer.get_keys("tokens") == ["tokens"]


def test_a_token_without_text_is_refused():
    with pytest.raises(ConfigurationError, match="a token without text"):
        ELMoTokenCharactersIndexer().tokens_to_indices([SimpleNamespace(text=None)], object(), "name")


def test_the_mapper_counts_characters_without_the_one_for_padding():
    mapper = ELMoCharacterMapper
    assert mapper.beginning_of_sentence_characters[:4] == [258, mapper.beginning_of_sentence_character, 259, 260]
    assert mapper.end_of_sentence_characters[1] == mapper.end_of_sentence_character == 257
    assert mapper().convert_word_to_char_ids(mapper.bos_token) == [
        c + 1 for c in mapper.beginning_of_sentence_characters
    ]
    assert mapper() == mapper({})


def test_a_string_is_a_sentence_of_characters():
    assert torch.equal(batch_to_ids(["SEQ"]), batch_to_ids([["S", "E", "Q"]]))

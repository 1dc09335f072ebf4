"""AllenNLP's `ELMoTokenCharactersIndexer` and `ELMoCharacterMapper`: tokens → character ids, without a model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from stelmo.compat.inputs import sentences_of
from stelmo.errors import ConfigError
from stelmo.text import chars

Ids = list[list[int]]


def batch_to_ids(batch: Iterable[Sequence[str]]) -> Tensor:
    """Lists of tokens → character ids (B, T, 50), zeros past a sentence's end."""
    return torch.from_numpy(chars.encode_sentences(sentences_of(batch)))


class ELMoCharacterMapper:
    """One word → its 50 ids. `tokens_to_add` gives words a single character id of their own."""

    max_word_length = 50
    # As AllenNLP counts them: without the 1 that `convert_word_to_char_ids` adds to make room for padding.
    beginning_of_sentence_character, end_of_sentence_character = 256, 257
    beginning_of_word_character, end_of_word_character, padding_character = 258, 259, 260
    bos_token, eos_token = chars.BEGIN_SENTENCE, chars.END_SENTENCE
    beginning_of_sentence_characters: ClassVar = [number - 1 for number in chars.encode(bos_token)]
    end_of_sentence_characters: ClassVar = [number - 1 for number in chars.encode(eos_token)]

    def __init__(self, tokens_to_add: Mapping[str, int] | None = None) -> None:
        self.tokens_to_add = dict(tokens_to_add or {})

    def convert_word_to_char_ids(self, word: str) -> list[int]:
        ids = chars.encode(word, self.max_word_length)
        if word not in self.tokens_to_add:
            return ids
        marker = chars.encode(self.bos_token, self.max_word_length)  # has one character, too
        return [marker[0], self.tokens_to_add[word] + 1, *marker[2:]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ELMoCharacterMapper) and self.tokens_to_add == other.tokens_to_add

    __hash__ = None  # type: ignore[assignment]


class ELMoTokenCharactersIndexer:
    """Tokens (strings, or objects with `.text`) → {name: ids}; the vocabulary is not used."""

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Mapping[str, int] | None = None,
        token_min_padding_length: int = 0,
    ) -> None:
        self._namespace, self._token_min_padding_length = namespace, token_min_padding_length
        self._mapper = ELMoCharacterMapper(tokens_to_add)

    def count_vocab_items(self, token: Any, counter: Any) -> None:
        """Nothing to count: the ids are fixed."""

    def get_padding_lengths(self, token: Any) -> dict[str, int]:
        return {}

    def get_padding_token(self) -> list[int]:
        return []

    def get_token_min_padding_length(self) -> int:
        return self._token_min_padding_length

    def get_keys(self, index_name: str) -> list[str]:
        return [index_name]

    def tokens_to_indices(
        self, tokens: Sequence[Any], vocabulary: Any = None, index_name: str = "tokens"
    ) -> dict[str, Ids]:
        words = [token if isinstance(token, str) else token.text for token in tokens]
        if None in words:
            raise ConfigError("ELMoTokenCharactersIndexer: a token without text; use a tokenizer that keeps the text")
        return {index_name: [self._mapper.convert_word_to_char_ids(word) for word in words]}

    def pad_token_sequence(
        self, tokens: Mapping[str, Ids], desired_num_tokens: Mapping[str, int], padding_lengths: Any = None
    ) -> dict[str, Ids]:
        """Lists cut or filled with rows of zeros to the desired numbers of tokens (AllenNLP 0.8)."""
        return {name: self._padded(ids, desired_num_tokens[name]) for name, ids in tokens.items()}

    def as_padded_tensor(
        self, tokens: Mapping[str, Ids], desired_num_tokens: Mapping[str, int], padding_lengths: Any = None
    ) -> dict[str, Tensor]:
        """The same as tensors (AllenNLP 0.9)."""
        padded = self.pad_token_sequence(tokens, desired_num_tokens)
        return {name: torch.tensor(ids, dtype=torch.long) for name, ids in padded.items()}

    def as_padded_tensor_dict(self, tokens: Mapping[str, Ids], padding_lengths: Mapping[str, int]) -> dict[str, Tensor]:
        """The same under its later name (AllenNLP 1.0)."""
        return self.as_padded_tensor(tokens, padding_lengths)

    def _padded(self, ids: Ids, length: int) -> Ids:
        empty = [[0] * self._mapper.max_word_length for _ in range(length - len(ids))]
        return [*ids[:length], *empty]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ELMoTokenCharactersIndexer) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

"""A batch of sentences → its layers. Knows no files, no batching, no policy of states.

B sentences, T tokens (both markers included), C characters, P projection, U distinct words, L layers, D = 2P.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.config import CodePointInput, ModelConfig, WordInput
from stelmo.errors import ModelError
from stelmo.model.bilm import BiLM
from stelmo.model.encoder import CharCnn
from stelmo.model.state import State
from stelmo.ops import reference
from stelmo.text import chars, codepoints
from stelmo.text.codepoints import Alphabet
from stelmo.text.vocabulary import Vocabulary

Words = Sequence[str]
# U words → (U, C) characters, (U,) for a word-id model, (U, 1 + C) where a model of code points reads both
WordIds = Callable[[Words], Tensor]
ENCODED_TOGETHER = 512  # words in one convolution: its windows are the largest thing in memory


class Batch(NamedTuple):
    """The distinct words of some sentences, and where each stands. The token layer knows no context, so a
    word passes through the character CNN once."""

    ids_U: Tensor  # as `WordIds` makes them
    index_BT: Tensor  # rows of ids_U; anything past a sentence's end
    lengths_B: Tensor


def word_ids(config: ModelConfig, vocabulary: Vocabulary | None, alphabet: Alphabet | None = None) -> WordIds:
    """How this model's input layer numbers words."""
    if isinstance(config.input, CodePointInput):
        return _code_points(config.input, vocabulary, alphabet)
    if not isinstance(config.input, WordInput):
        return partial(_bytes, config.input.max_characters)
    if vocabulary is None:
        raise ModelError("a model that reads word ids needs its vocabulary")
    return partial(_numbers, vocabulary)


# Functions of the module, not of `word_ids`, so that an `Elmo` can be pickled with the network it is in.


def _bytes(width: int, words: Words) -> Tensor:
    return torch.from_numpy(chars.encode_words(words, width))


def _numbers(vocabulary: Vocabulary, words: Words) -> Tensor:
    return torch.tensor([vocabulary.id(word) for word in words])


def _code_points(reads: CodePointInput, vocabulary: Vocabulary | None, alphabet: Alphabet | None) -> WordIds:
    table = None if reads.word_table is None else vocabulary
    symbols = None if reads.convolution is None else alphabet
    return partial(_both, table, symbols, reads.max_characters)


def _both(table: Vocabulary | None, symbols: Alphabet | None, width: int, words: Words) -> Tensor:
    return torch.from_numpy(codepoints.encode_words(words, table, symbols, width))


def batch_of_tokens(sentences: Sequence[Words], ids_of: WordIds) -> Batch:
    """Sentences → a batch, with <S> and </S> around each."""
    numbers = {chars.BEGIN_SENTENCE: 0, chars.END_SENTENCE: 1}
    rows = [torch.tensor([0, *(numbers.setdefault(word, len(numbers)) for word in words), 1]) for words in sentences]
    index_BT = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return Batch(ids_of(list(numbers)), index_BT, torch.tensor([len(row) for row in rows]))


def batch_of_ids(chars_BTC: Tensor) -> Batch:
    """Character ids of sentences without markers, rows of zeros past the end → a batch with markers."""
    width = chars_BTC.shape[2]
    lengths_B = (chars_BTC > 0).any(-1).sum(1)
    markers_2C = torch.from_numpy(chars.encode_words([chars.BEGIN_SENTENCE, chars.END_SENTENCE], width))
    padded_BTC = torch.nn.functional.pad(chars_BTC, (0, 0, 1, 1))
    padded_BTC[:, 0] = markers_2C[0]
    padded_BTC[torch.arange(len(chars_BTC)), lengths_B + 1] = markers_2C[1].to(chars_BTC.device)
    ids_UC, index_BT = torch.unique(padded_BTC.flatten(0, 1), dim=0, return_inverse=True)
    return Batch(ids_UC, index_BT.view(padded_BTC.shape[:2]), lengths_B + 2)


def token_vectors(bilm: BiLM, ids_U: Tensor, char_cnn: CharCnn = reference.char_cnn) -> Tensor:
    """Ids of words → layer 0 (U, P), on the model's device."""
    device = bilm.encoder.table.device
    return torch.cat([bilm.encoder(part.to(device), char_cnn) for part in torch.split(ids_U, ENCODED_TOGETHER)])


def layers(bilm: BiLM, batch: Batch, start: State) -> tuple[Tensor, State]:
    """A batch → (L+1, B, T, 2P), markers included, and the state at each sentence's end."""
    x_UP = token_vectors(bilm, batch.ids_U)
    x_BTP = x_UP[batch.index_BT.to(x_UP.device)]
    layers_LBTD, end = bilm(x_BTP, batch.lengths_B.to(x_UP.device), start)
    return layers_LBTD, end

"""A batch of sentences → its layers by the modules themselves: on any device, with gradients. Knows no files.

B sentences, T tokens (both markers included), C characters, P projection, U distinct words, L layers, D = 2P.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.engine.planning import HALF
from stelmo.errors import ModelError
from stelmo.model.bilm import BiLM, Lstm, State
from stelmo.model.encoder import CharCnn
from stelmo.ops import reference, trainable
from stelmo.text import chars
from stelmo.text.ids import WordIds

Words = Sequence[str]
ENCODED_TOGETHER = 512  # words in one convolution, whose windows need more memory than anything else
# Any text that the model can read works: the states after different sentences are similar.
WARM_UP = [
    line.split()
    for line in (
        "The first of them was built in the city in the early years of the century .",
        "He said that it was not the end of the story , but she did not believe him .",
        "In 1998 , the company moved to a new office near the river .",
        "There are many kinds of music , and most people like more than one .",
    )
]


class Batch(NamedTuple):
    """The distinct words of some sentences, and where each occurs. The token layer has no context, so each
    distinct word passes through the encoder once."""

    ids_U: Tensor  # as `WordIds` makes them
    index_BT: Tensor  # rows of ids_U; any row past a sentence's end
    lengths_B: Tensor


def batch_of_tokens(sentences: Sequence[Words], ids_of: WordIds) -> Batch:
    """Sentences → a batch, with <S> and </S> around each."""
    numbers = {chars.BEGIN_SENTENCE: 0, chars.END_SENTENCE: 1}
    rows = [torch.tensor([0, *(numbers.setdefault(word, len(numbers)) for word in words), 1]) for words in sentences]
    index_BT = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return Batch(torch.from_numpy(ids_of(list(numbers))), index_BT, torch.tensor([len(row) for row in rows]))


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
    return _layers(bilm, batch, start, reference.char_cnn, reference.lstm)


def trained_layers(bilm: BiLM, batch: Batch, start: State) -> Tensor:
    """The same layers for training the biLM: on a CPU with hand-written gradients, which states do not carry.

    Half precision, also that of autocast, and other devices have those of autograd.
    """
    table = bilm.encoder.table
    by_hand = table.device.type == "cpu" and table.dtype.itemsize > 2 and not torch.is_autocast_enabled("cpu")
    functions = (trainable.char_cnn, trainable.padded_lstm) if by_hand else (reference.char_cnn, reference.lstm)
    return _layers(bilm, batch, start, *functions)[0]


def _layers(bilm: BiLM, batch: Batch, start: State, char_cnn: CharCnn, lstm: Lstm) -> tuple[Tensor, State]:
    x_UP = token_vectors(bilm, batch.ids_U, char_cnn)
    x_BTP = torch.nn.functional.embedding(batch.index_BT.to(x_UP.device), x_UP)
    layers_LBTD, end = bilm(x_BTP, batch.lengths_B.to(x_UP.device), start, lstm)
    return layers_LBTD, end


@torch.inference_mode(False)  # in any mode of the caller: the state may become the start state of a network in training
@torch.no_grad()
def warm_state(bilm: BiLM, ids_of: WordIds, sentences: Sequence[Words] = WARM_UP) -> State:
    """The mean of the states at the end of some sentences: a fixed state for `state="warm"` to start from."""
    batch = batch_of_tokens(sentences, ids_of)
    with torch.autocast(bilm.encoder.table.device.type, enabled=False):  # the state outlives the caller's autocast
        _, ends = layers(bilm, batch, bilm.zero_state(len(sentences)))
    return State(*(part.mean(2, keepdim=True) for part in ends))


class Plain(NamedTuple):
    """Runs sentences through the modules, on a GPU in half precision if requested."""

    bilm: BiLM
    ids_of: WordIds
    precision: str = "float32"

    @torch.inference_mode()
    def run(self, sentences: Sequence[Words], start: State, whole: bool = False) -> tuple[list[Tensor], State]:
        """As `Packed.run`."""
        half = HALF.get(self.precision)
        with torch.autocast(self.bilm.encoder.table.device.type, half, enabled=half is not None):
            batch = batch_of_tokens(sentences, self.ids_of)
            layers_LBTD, end = layers(self.bilm, batch, start if whole else start.expand(len(sentences)))
        if half is not None:
            layers_LBTD = layers_LBTD.float()
        refuse_overflow(layers_LBTD)
        first, after = (0, 2) if whole else (1, 1)
        rows = zip(layers_LBTD.unbind(1), sentences, strict=True)
        return [row_LTD[:, first : len(words) + after] for row_LTD, words in rows], end


def refuse_overflow(layers: Tensor) -> None:
    """Refuse NaN and infinity, by one sum for a whole batch: either of them in the layers makes it NaN or infinite.

    In at least float32, because a sum of many good layers in float16 overflows.
    """
    if not bool(layers.sum(dtype=torch.promote_types(layers.dtype, torch.float32)).isfinite()):
        raise ModelError(
            "the model computes NaN or infinity: its weights are too large or damaged; "
            "convert or train the model again, or load another one"
        )

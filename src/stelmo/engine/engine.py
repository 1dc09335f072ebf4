"""`Engine`: sentences → their layers. Decides how and in which batches they are computed.

B sentences of a batch, T tokens, L layers, P projection.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from stelmo.config import ModelConfig, choose
from stelmo.engine import plain, planning
from stelmo.engine.packed import Concatenated, Packed, Versions, versions
from stelmo.engine.plain import Plain
from stelmo.engine.planning import arrangement
from stelmo.errors import ConfigError, DataError
from stelmo.model.bilm import BiLM, State
from stelmo.settings import STATES, LoadSettings, StatePolicy
from stelmo.text import chars
from stelmo.text.ids import WordIds

Sentences = Iterable[Sequence[str]]
Kept = TypeVar("Kept")

WAY_OUT = "split raw text with stelmo.tokenize(text) first"


class Engine:
    """Runs a biLM: on the CPU by `Packed` (LSTMs) or `Concatenated` (other encoders), on other devices by its modules.

    The packed copy of the weights is made when it is first needed, and again when the parameters have changed in place
    or have been moved. Changes through `.data`, and of a model loaded in `torch.inference_mode()`, go unnoticed.
    """

    def __init__(
        self, bilm: BiLM, word_ids: WordIds, settings: LoadSettings | None = None, warm: State | None = None
    ) -> None:
        self.bilm, self.word_ids, self.settings = bilm, word_ids, settings or LoadSettings()
        self.plan = planning.plan(bilm.config, sum(map(Tensor.numel, bilm.parameters())), self.settings)
        self.own_warm_state = warm
        # The warm state of a model without its own, from a few English sentences, and the weights it was computed with.
        self._borrowed: tuple[Versions, State] | None = None
        self._packed: Packed | Concatenated | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again from the biLM: the packed weights and a borrowed warm state."""
        return {**self.__dict__, "_packed": None, "_borrowed": None}

    def run(
        self,
        sentences: Sentences,
        keep: Callable[[Tensor], Kept],
        state: StatePolicy | State | None = None,
        *,
        rows: int | None = None,
        markers: bool = False,
    ) -> tuple[list[Kept], State]:
        """What `keep` returns for the layers (L+1, T, 2P) of each sentence, in input order; and the state at the end.

        Every sentence starts from `state`, a policy or a state of one row. With `rows`, or under the policy carry,
        sentences are computed in input order, `rows` at a time, and each row of a batch starts where the same row of
        the batch before it ended. With `markers`, `keep` gets <S> and </S>, too: (L+1, T+2, 2P). The precision is that
        of the settings, even under the caller's autocast.
        """
        found = checked(sentences)
        start = self.settings.state if state is None else state
        if start == "carry":
            refuse_state(self.bilm.config, start)
            start, rows = self.bilm.zero_state(0), rows or self.settings.batch_rows
        elif not isinstance(start, State):
            start = self.start_state(start)
        compute, kept = self.compute(), dict[int, Kept]()
        with torch.inference_mode(), torch.autocast(self.bilm.encoder.table.device.type, enabled=False):
            if rows is None:
                filled = [position for position, words in enumerate(found) if words or markers]
                if len(filled) < len(found):  # a text can have millions of blank lines: they share one result
                    nothing_LTD = self.bilm.encoder.table.new_zeros(self.bilm.config.depth, 0, self.bilm.config.width)
                    kept = dict.fromkeys(range(len(found)), keep(nothing_LTD))
                lengths = [len(found[position]) + 2 for position in filled]
                groups = planning.by_length(lengths, self.plan.batch_tokens)
                batches: Iterator[list[int]] = ([filled[place] for place in group] for group in groups)
            else:
                batches = planning.in_order(len(found), rows)
                start = start.to(self.bilm.encoder.table.device, self.bilm.encoder.table.dtype)
            for positions in batches:
                batch = [found[position] for position in positions]
                if rows is None:
                    layers, _ = compute.run(batch, start.expand(len(batch)) if markers else start, whole=markers)
                else:
                    start = start.grow(len(batch))
                    layers, end = compute.run(batch, start.take(len(batch)), whole=True)
                    start = start.replace(end)
                    layers = layers if markers else [layers_LTD[:, 1:-1] for layers_LTD in layers]
                kept.update(zip(positions, map(keep, layers), strict=True))
                del layers  # before the next batch is computed
        return [kept[position] for position in range(len(found))], start

    def compute(self) -> Packed | Concatenated | Plain:
        """What computes a batch on the device where the biLM is now."""
        if self.bilm.encoder.table.device.type != "cpu":
            return Plain(self.bilm, self.word_ids, self.settings.precision)
        if self._packed is not None and not self._packed.is_stale(self.bilm):
            return self._packed
        if self.bilm.context is not None:
            self._packed = Concatenated(self.bilm, self.word_ids, self.plan.words)
        else:
            arrange = arrangement(self.settings.precision)
            self._packed = Packed(self.bilm, self.word_ids, self.plan.words, arrange)
        return self._packed

    def forget_weights(self) -> None:
        """Discard the packed copy of the weights, even if no change to them can be noticed."""
        self._packed = None

    def forget_words(self) -> None:
        """Empty the cache of token vectors, whose last bits can depend on the words computed together with them."""
        if self._packed is not None:
            self._packed.forget_words()

    def start_state(self, policy: StatePolicy) -> State:
        """The row that every sentence starts from: zeros, or the model's fixed warm state."""
        choose("state", policy, STATES)
        refuse_state(self.bilm.config, policy)
        if policy != "warm":
            return self.bilm.zero_state()
        if self.own_warm_state is not None:  # the biLM may have been moved or converted since
            return self.own_warm_state.to(self.bilm.encoder.table.device, self.bilm.encoder.table.dtype)
        found = versions(self.bilm)
        if self._borrowed is None or self._borrowed[0] != found:
            self._borrowed = found, plain.warm_state(self.bilm, self.word_ids)
        return self._borrowed[1]

    def warm_up(self, sentences: Sentences) -> None:
        """Make the state after these sentences the warm state."""
        refuse_state(self.bilm.config, "warm")
        found = checked(sentences)
        if not found:
            raise DataError("warm_up: no sentences; expected a few of the kind the model was trained on")
        self.own_warm_state = plain.warm_state(self.bilm, self.word_ids, found)


def refuse_state(config: ModelConfig, policy: StatePolicy) -> None:
    """Refuse a start state where the encoder carries none."""
    if policy != "fresh" and not config.has_state:
        raise ConfigError(
            f"state: {policy!r} is for LSTMs; a {config.encoder.kind} carries no state, so every sentence starts "
            "'fresh': leave the state out"
        )


# Sentences as a caller passes them


def checked(sentences: Sentences) -> list[Sequence[str]]:
    """The sentences, each a sequence of strings. A sentence may be empty."""
    if isinstance(sentences, str | bytes):
        raise DataError(f"{_shown(sentences)} is a string; expected sentences as lists of tokens; {WAY_OUT}")
    try:
        found = [_listed(sentence) for sentence in sentences]
    except TypeError:
        raise DataError(f"{_shown(sentences)} is not a list of sentences; {WAY_OUT}") from None
    for number, sentence in enumerate(found):
        if isinstance(sentence, str | bytes):
            raise DataError(
                f"sentence {number} is the string {_shown(sentence)}; expected a list of tokens "
                f"(pass a single sentence as [tokens]); {WAY_OUT}"
            )
        if not isinstance(sentence, Sequence):
            raise DataError(f"sentence {number} is {_shown(sentence)}; expected a list of tokens")
        for position, token in enumerate(sentence):
            if not isinstance(token, str):
                raise DataError(f"sentence {number}, token {position} is {_shown(token)}; tokens are strings")
    return found


def checked_ids(ids_BTC: Tensor, width: int) -> Tensor:
    """Character ids of sentences without markers, as `chars.encode_sentences` makes them."""
    if ids_BTC.dim() != 3 or ids_BTC.shape[2] != width or not ids_BTC.shape[0]:
        raise DataError(
            f"ids of shape {tuple(ids_BTC.shape)}; expected character ids (B, T, {width}) of at least one sentence"
        )
    if ids_BTC.numel() and not 0 <= int(ids_BTC.min()) <= int(ids_BTC.max()) < chars.ROWS:
        raise DataError(f"ids hold {int(ids_BTC.min())} … {int(ids_BTC.max())}; character ids are 0 … {chars.ROWS - 1}")
    is_token_BT = (ids_BTC > 0).any(-1)
    if bool((is_token_BT[:, 1:] & ~is_token_BT[:, :-1]).any()):
        raise DataError("ids with a row of zeros inside a sentence; zeros are allowed only past a sentence's end")
    return ids_BTC.long()


def _listed(sentence: Any) -> Any:
    """A NumPy array or a pandas Series of tokens → a list; anything else as it is."""
    one_axis = getattr(sentence, "ndim", None) == 1 and not isinstance(sentence, Tensor)
    return sentence.tolist() if one_axis else sentence


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"

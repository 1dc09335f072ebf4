"""AllenNLP's `_ElmoBiLm` and `_ElmoCharacterEncoder`: character ids in, activations and mask out; and its indexer,
which makes these ids.

B sentences, T tokens (both markers included), C characters, P projection, L layers, D = 2P.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MethodType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from stelmo.compat import File, loaded, sentences_of
from stelmo.config import CharInput, choose
from stelmo.embed.model import Model
from stelmo.engine import plain as engine
from stelmo.engine.engine import checked_ids
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.formats import allennlp
from stelmo.model.bilm import BiLM, State
from stelmo.text import chars

OLD_NAMES = ("_token_embedder.", "_elmo_lstm.", "_word_embedding.")  # of tensors in AllenNLP's state dicts


class ElmoLstm:
    """The LSTM state between calls, where AllenNLP keeps it: `elmo._elmo_lstm._elmo_lstm`."""

    def __init__(self, stateful: bool) -> None:
        self.stateful = stateful
        self.state: State | None = None

    def reset_states(self) -> None:
        """Forget the previous batches; the next one starts from zeros."""
        self.state = None

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """As AllenNLP has it: (L, B, 2P) and (L, B, 2H). Scripts set it to None to forget the previous batches."""
        if self.state is None:
            return None
        h, c = (torch.cat(list(part), -1) for part in self.state)
        return h, c

    @_states.setter
    def _states(self, states: None) -> None:
        if states is not None:
            raise ConfigError("_states can only be set to None, which forgets the previous batches; leave others out")
        self.reset_states()


class _ElmoBiLm(nn.Module):
    """Character ids (B, T, C) → "activations", L+1 of (B, T+2, 2P), and "mask", with <S> and </S> added.

    `requires_grad` of the parameters, at the time of a call, decides whether gradients are computed.
    """

    start_h: Tensor
    start_c: Tensor
    cache: Tensor | None

    def __init__(
        self,
        options_file: File,
        weight_file: File,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
        *,
        stateful: bool = False,
        state: str = "fresh",
    ) -> None:
        super().__init__()
        self._take_over(loaded(weight_file, options_file), ElmoLstm(stateful), vocab_to_cache, state)
        self.bilm.requires_grad_(requires_grad)
        if requires_grad and vocab_to_cache:
            warnings.warn("vocab_to_cache is not used while the biLM is trained", stacklevel=2)

    @classmethod
    def of(cls, model: Model, lstm: ElmoLstm) -> "_ElmoBiLm":
        """Wraps a loaded model, sharing its weights."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._take_over(model, lstm, None, "fresh")
        return made

    def _take_over(self, model: Model, lstm: ElmoLstm, words: Sequence[str] | None, state: str) -> None:
        if not isinstance(model.config.input, CharInput):
            raise ModelError(
                "the model does not read bytes, which AllenNLP's classes pass; use stelmo.Elmo with tokens"
            )
        choose("state", state, ("fresh", "warm"))
        if lstm.stateful and state == "warm":
            raise ConfigError("stateful: the first batch starts from zeros, as in AllenNLP; leave state='warm' out")
        self.num_layers, self.max_characters = model.config.depth, model.config.input.max_characters
        self.bilm: BiLM = model.bilm
        self._elmo_lstm, self._words = lstm, words
        start = model.start_state("warm" if state == "warm" else "fresh")
        # Not in the state dict, which old checkpoints must fit.
        self.register_buffer("start_h", start.h.clone(), persistent=False)
        self.register_buffer("start_c", start.c.clone(), persistent=False)
        self.register_buffer("cache", None, persistent=False)
        if words is not None:
            self.create_cached_cnn_embeddings(words)
        self.register_load_state_dict_post_hook(_after_loading)  # type: ignore[no-untyped-call]

    def get_output_dim(self) -> int:
        return self.bilm.config.width

    @property
    def state(self) -> State | None:
        return self._elmo_lstm.state

    @property
    def stateful(self) -> bool:
        return self._elmo_lstm.stateful

    def reset_states(self) -> None:
        self._elmo_lstm.reset_states()

    @property
    def _token_embedder(self) -> "_ElmoCharacterEncoder":
        return _ElmoCharacterEncoder.of(self.bilm)

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        words = word_inputs if word_inputs is not None and self._is_cached(inputs, word_inputs) else None
        rows = len(inputs if words is None else words)
        if self.stateful:
            state = self.bilm.zero_state(0) if self.state is None else self.state
            grown = state.to(self.start_h.device, self.start_h.dtype).grow(rows)
            self._elmo_lstm.state = grown
            start = grown.take(rows)
        else:
            start = State(self.start_h, self.start_c).expand(rows)
        with recording(self.bilm):
            if words is not None:
                assert self.cache is not None
                lengths_B = (words > 0).sum(1) + 2
                index_BT = nn.functional.pad(words, (1, 1))
                index_BT[:, 0] = len(self.cache) - 2  # the last two rows of the cache are <S> and </S>
                index_BT[torch.arange(len(index_BT)), lengths_B - 1] = len(self.cache) - 1
                layers_LBTD, end = self.bilm(self.cache[index_BT], lengths_B, start)
            else:
                batch = engine.batch_of_ids(checked_ids(inputs, self.max_characters))
                lengths_B = batch.lengths_B
                layers_LBTD, end = engine.layers(self.bilm, batch, start)
        if self.stateful:
            self._elmo_lstm.state = grown.replace(State(end.h.detach(), end.c.detach()))
        return {"activations": list(layers_LBTD), "mask": inside(lengths_B, layers_LBTD.shape[2])}

    def _is_cached(self, inputs: Tensor, word_inputs: Tensor) -> bool:
        """Whether every word is in the cache; otherwise the characters are read, if `inputs` has any."""
        spelled = inputs.shape[:-1] == word_inputs.shape
        if self.cache is None:
            if inputs.shape != word_inputs.shape:
                warnings.warn("word_inputs are not used: Elmo was made without vocab_to_cache", stacklevel=5)
            return False
        if learns(self.bilm) and spelled:
            return False
        if bool((word_inputs < len(self.cache) - 2).all()):
            return True
        if not spelled:
            raise DataError(
                f"word id {int(word_inputs.max())}; vocab_to_cache has {len(self.cache) - 2} words; "
                "pass the character ids, too"
            )
        return False

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Compute and keep the token vectors of these words: `word_inputs` are their positions in the list."""
        self._words = list(tokens)
        words = [*self._words, chars.BEGIN_SENTENCE, chars.END_SENTENCE]
        ids_UC = torch.from_numpy(chars.encode_words(words, self.max_characters))
        with torch.no_grad():
            self.cache = engine.token_vectors(self.bilm, ids_UC)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """AllenNLP's names → ours, before torch compares them with the module's."""
        old = [name for name in state_dict if name.startswith(tuple(prefix + start for start in OLD_NAMES))]
        tensors = {name.removeprefix(prefix): state_dict.pop(name) for name in old}
        if tensors:
            converted = allennlp.tensors(tensors, self.bilm.config, "load_state_dict")
            state_dict |= {f"{prefix}bilm.{name}": tensor for name, tensor in converted.items()}
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _after_loading(module: nn.Module, _: Any) -> None:
    """The cache follows the loaded weights."""
    assert isinstance(module, _ElmoBiLm)
    if module._words is not None:
        module.create_cached_cnn_embeddings(module._words)


class _ElmoCharacterEncoder(nn.Module):
    """Character ids (B, T, C) → "token_embedding" (B, T+2, P), the token layer without context, and "mask"."""

    def __init__(self, options_file: File, weight_file: File, requires_grad: bool = False) -> None:
        super().__init__()
        model = loaded(weight_file, options_file)
        self._bilm = (model.bilm,)  # a tuple: only the encoder's parameters are this module's
        self.encoder = model.bilm.encoder.requires_grad_(requires_grad)
        self.output_dim = model.config.projection

    @classmethod
    def of(cls, bilm: BiLM) -> "_ElmoCharacterEncoder":
        """Around a biLM, sharing its weights."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._bilm, made.encoder, made.output_dim = (bilm,), bilm.encoder, bilm.config.projection
        return made

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        (bilm,) = self._bilm
        assert isinstance(bilm.config.input, CharInput)
        batch = engine.batch_of_ids(checked_ids(inputs, bilm.config.input.max_characters))
        with recording(self.encoder):
            x_UP = engine.token_vectors(bilm, batch.ids_U)
        mask_BT = inside(batch.lengths_B, batch.index_BT.shape[1]).to(x_UP.device)
        x_BTP = x_UP[batch.index_BT.to(x_UP.device)]
        return {"token_embedding": torch.where(mask_BT[:, :, None] > 0, x_BTP, 0.0), "mask": mask_BT}


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, D) and mask (B, T) with <S> and </S> → both without, (B, T−2, D) and (B, T−2), zeros past each end."""
    inner = mask[:, 2:]
    return torch.where(inner[:, :, None] > 0, tensor[:, 1:-1], 0.0), inner.long()


def inside(lengths_B: Tensor, width: int) -> Tensor:
    """The mask (B, width) as AllenNLP 0.9 has it: integers, 1 for a token."""
    return (torch.arange(width, device=lengths_B.device) < lengths_B[:, None]).long()


def learns(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def recording(module: nn.Module) -> AbstractContextManager[Any]:
    """Gradients if a parameter requires them; otherwise no memory is used for them."""
    return nullcontext() if learns(module) else torch.no_grad()


# Character ids


Ids = list[list[int]]


def batch_to_ids(batch: Iterable[Sequence[str]]) -> Tensor:
    """Lists of tokens → character ids (B, T, 50), zeros past a sentence's end."""
    return torch.from_numpy(chars.encode_sentences(sentences_of(batch)))


class _StaticOrBound:
    """A method that can be called on the class: the mapper's was static before AllenNLP added `tokens_to_add`."""

    def __init__(self, function: Callable[[Any, str], list[int]]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type) -> Callable[[str], list[int]]:
        return MethodType(self.function, owner() if instance is None else instance)


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

    @_StaticOrBound
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
        return {index_name: [self.token_to_indices(token) for token in tokens]}

    def token_to_indices(self, token: Any, vocabulary: Any = None) -> list[int]:
        """The ids of one token, as the first releases had it."""
        word = token if isinstance(token, str) else token.text
        if word is None:
            raise ConfigError("ELMoTokenCharactersIndexer: a token without text; use a tokenizer that keeps the text")
        return self._mapper.convert_word_to_char_ids(word)

    def pad_token_sequence(
        self, tokens: Mapping[str, Ids], desired_num_tokens: Mapping[str, int], padding_lengths: Any = None
    ) -> dict[str, Ids]:
        """Lists cut or filled with rows of zeros to the desired numbers of tokens (AllenNLP 0.8)."""
        padded = {}
        for name, ids in tokens.items():
            length = desired_num_tokens[name]
            empty = [[0] * self._mapper.max_word_length for _ in range(length - len(ids))]
            padded[name] = [*ids[:length], *empty]
        return padded

    def as_padded_tensor(
        self, tokens: Mapping[str, Ids], desired_num_tokens: Mapping[str, int], padding_lengths: Any = None
    ) -> dict[str, Tensor]:
        """The same as tensors (AllenNLP 0.9)."""
        padded = self.pad_token_sequence(tokens, desired_num_tokens)
        return {name: torch.tensor(ids, dtype=torch.long) for name, ids in padded.items()}

    def as_padded_tensor_dict(self, tokens: Mapping[str, Ids], padding_lengths: Mapping[str, int]) -> dict[str, Tensor]:
        """The same under its later name (AllenNLP 1.0)."""
        return self.as_padded_tensor(tokens, padding_lengths)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ELMoTokenCharactersIndexer) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

"""A model → Hugging Face's `AutoModel` and back: the same folder works for both.

B sentences, T tokens, C characters of a word, L layers, N tokens of a batch, D width of a vector.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stelmo.config import CharInput, ModelConfig, choose, parse
from stelmo.embed.model import Model
from stelmo.engine import plain
from stelmo.engine.engine import Engine, checked, checked_ids, refuse_state
from stelmo.engine.packed import Versions, versions
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.model.bilm import BiLM, ProjectedLstm, State
from stelmo.model.context import GatedCnn, Transformer
from stelmo.model.encoder import CharEncoder
from stelmo.store import folder
from stelmo.text import chars, sentences
from stelmo.text.ids import word_ids

try:
    from transformers import AutoConfig, AutoModel, BatchEncoding, PretrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput
    from transformers.utils import cached_file
except ImportError:
    raise ConfigError("AutoModel requires transformers; pip install 'stelmo[huggingface]'") from None

TOKENIZER = "stelmo_tokenizer.json"
HUB_OPTIONS = ("revision", "token", "cache_dir", "local_files_only", "subfolder")
OTHER_FILES = ("vocabulary", "alphabet", "softmax")  # of a stelmo folder; a model that reads bytes does not need them
FAST = (torch.float32, torch.float64)
UTF_32 = "utf-32-le"


class StelmoConfig(PretrainedConfig):
    """The manifest of a stelmo folder as a configuration of transformers.

    `model` holds the fields of `stelmo.config.ModelConfig`; `state` says where every sentence starts: warm, fresh,
    or None, which is warm if the model has a warm state of its own.
    """

    model_type = "stelmo"

    def __init__(self, model: Mapping[str, Any] | None = None, state: str | None = None, **rest: Any) -> None:
        choose("state", state, (None, "warm", "fresh"))
        self.stelmo = folder.VERSION
        self.model = None if model is None else dict(model)
        self.state = state
        super().__init__(**{name: value for name, value in rest.items() if name not in (*OTHER_FILES, "stelmo")})

    @property
    def architecture(self) -> ModelConfig:
        return _reading_bytes(parse(ModelConfig, self.model, "StelmoConfig: model", ConfigError))

    @property
    def max_characters(self) -> int:
        reads = self.architecture.input
        assert isinstance(reads, CharInput)
        return reads.max_characters

    @property
    def hidden_size(self) -> int:
        return self.architecture.width

    @property
    def num_hidden_layers(self) -> int:
        return self.architecture.depth - 1


class StelmoModel(PreTrainedModel):
    """Character ids (B, T, C) → `last_hidden_state`, the top layer (B, T, D), and `hidden_states`, all layers.

    Without gradients it runs on stelmo's own engine, whose vectors do not depend on the batch.
    """

    config_class = StelmoConfig
    base_model_prefix = "bilm"  # the file has the biLM's tensors without a prefix
    main_input_name = "input_ids"
    _keys_to_ignore_on_load_missing = (r"^start\.",)
    _keys_to_ignore_on_load_unexpected = (r"^mixes\.",)

    def __init__(self, config: StelmoConfig) -> None:
        super().__init__(config)
        self.bilm = BiLM(config.architecture)
        self._engine: Engine | None = None
        self.start = _Start(self.bilm.zero_state())
        # the warm state of a model without its own, from a few English sentences, and the weights it was computed with
        self._borrowed: tuple[Versions, State] | None = None
        self.post_init()

    @classmethod
    def of(cls, model: Model, state: str | None = None) -> "StelmoModel":
        """Wraps a loaded model: the weights are shared, not copied, and stay frozen."""
        if model.settings.precision not in ("float32", "float64"):
            raise ConfigError(f"AutoModel: precision {model.settings.precision} is stelmo's own; load it as float32")
        config = StelmoConfig(_reading_bytes(model.config).model_dump(), state or model.settings.state)
        with torch.device("meta"):
            made = cls(config)
        made.bilm = model.bilm
        own, zeros = model.saved().start, model.bilm.zero_state()
        made.start = _Start(State(zeros.h * torch.nan, zeros.c * torch.nan) if own is None else own)
        made.eval()
        return made

    @classmethod
    def from_pretrained(cls, name: Any, *arguments: Any, **options: Any) -> Any:
        """As in transformers, but weights stored in half precision are converted to float32 unless `dtype` is given."""
        if not {"dtype", "torch_dtype"} & options.keys():
            options["dtype"] = torch.float32
        return super().from_pretrained(name, *arguments, **options)

    def save_pretrained(self, save_directory: Any, *arguments: Any, **options: Any) -> None:
        """A folder for `AutoModel.from_pretrained`, and for `stelmo.load`."""
        tensors = options.pop("state_dict", None) or self.state_dict()
        kept = (name for name in tensors if self._has_start() or not name.startswith("start."))
        named = {name.removeprefix("bilm."): tensors[name] for name in kept}
        super().save_pretrained(save_directory, *arguments, state_dict=named, **options)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        sentences: Sequence[Sequence[str]] | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Ids as `StelmoTokenizer` makes them, or lists of tokens."""
        ids_BTC = self._ids(input_ids, attention_mask, sentences)
        hidden = tuple(self._layers(ids_BTC).unbind(0))
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = BaseModelOutput(last_hidden_state=hidden[-1], hidden_states=hidden if wanted else None)
        return output.to_tuple() if return_dict is False else output

    def _ids(self, input_ids: Tensor | None, mask_BT: Tensor | None, tokens: Sequence[Sequence[str]] | None) -> Tensor:
        if (input_ids is None) == (tokens is None):
            raise DataError("StelmoModel: expected input_ids (StelmoTokenizer makes them) or sentences, one of the two")
        width = self.config.max_characters
        if tokens is not None:
            return torch.from_numpy(_encoded(tokens, width))
        assert input_ids is not None
        if mask_BT is None:
            return checked_ids(input_ids, width)
        if mask_BT.shape != input_ids.shape[:2]:
            raise DataError(f"attention_mask of shape {tuple(mask_BT.shape)}; expected {tuple(input_ids.shape[:2])}")
        return checked_ids(input_ids * mask_BT[:, :, None].to(input_ids.dtype), width)

    def _layers(self, ids_BTC: Tensor) -> Tensor:
        """(L+1, B, T, D), zero past a sentence's end."""
        table, row = self.bilm.encoder.table, self._start_row()
        learns = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.bilm.parameters())
        if learns or table.device.type != "cpu" or table.dtype not in FAST:
            batch, start = plain.batch_of_ids(ids_BTC.to(table.device)), row.expand(len(ids_BTC))
            if learns:
                layers_LBTD = plain.trained_layers(self.bilm, batch, start)
            else:
                layers_LBTD, _ = plain.layers(self.bilm, batch, start)
            inside_BT1 = (ids_BTC > 0).any(-1, keepdim=True).to(table.device)
            return torch.where(inside_BT1, layers_LBTD[:, :, 1:-1], 0.0)
        if self._engine is None or self._engine.bilm is not self.bilm:
            self._engine = Engine(self.bilm, partial(_ids_of_keys, self.config.max_characters))
        parts, _ = self._engine.run(_keys(ids_BTC), lambda layers_LTD: layers_LTD, row)
        config = self.bilm.config
        filled_LBTD = torch.zeros(config.depth, *ids_BTC.shape[:2], config.width, dtype=table.dtype)
        for number, part_LTD in enumerate(parts):
            filled_LBTD[:, number, : part_LTD.shape[1]] = part_LTD
        return filled_LBTD

    def _start_row(self) -> State:
        own = self._has_start()
        refuse_state(self.config.architecture, self.config.state or "fresh")
        if (self.config.state or ("warm" if own else "fresh")) == "fresh":
            return self.bilm.zero_state()
        if own:
            return State(self.start.h, self.start.c)
        found = versions(self.bilm)
        if self._borrowed is None or self._borrowed[0] != found:
            with torch.no_grad():
                self._borrowed = found, plain.warm_state(self.bilm, word_ids(self.config.architecture, None))
        return self._borrowed[1]

    def _has_start(self) -> bool:
        return self.start.h.numel() > 0 and not bool(self.start.h.isnan().any())

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, CharEncoder | ProjectedLstm | Transformer | GatedCnn):
            module.reset(torch.default_generator)
        elif isinstance(module, _Start):
            module.h.fill_(torch.nan)
            module.c.fill_(torch.nan)


class _Start(nn.Module):
    """The state that `warm` begins from, under its names in the file; NaN if the model has none of its own."""

    h: Tensor
    c: Tensor

    def __init__(self, state: State) -> None:
        super().__init__()
        self.register_buffer("h", state.h)
        self.register_buffer("c", state.c)


class StelmoTokenizer:
    """Texts, or lists of tokens → `input_ids` (B, T, C) and `attention_mask` (B, T). The sentences of a text follow
    one another in its row."""

    def __init__(self, max_characters: int = 50, language: str = "en", contractions: str = "ptb") -> None:
        choose("contractions", contractions, ("ptb", "moses"))
        self.max_characters, self.language, self.contractions = max_characters, language, contractions

    def __call__(
        self,
        texts: str | Sequence[str | Sequence[str]],
        padding: bool | str = True,
        return_tensors: str = "pt",
        *,
        truncation: bool | str = False,
        max_length: int | None = None,
        is_split_into_words: bool = False,
        **others: Any,
    ) -> Any:
        """PyTorch tensors, padded to the longest. A row is cut only to a `max_length`: the models have no longest one.

        Lists of tokens need no `is_split_into_words`; with it, a list of strings is one row of tokens.
        """
        if others:
            raise ConfigError(
                f"StelmoTokenizer: {', '.join(others)} found; expected padding, truncation, max_length, "
                "is_split_into_words or return_tensors"
            )
        choose("padding", padding, (True, "longest"))
        choose("return_tensors", return_tensors, ("pt",))
        choose("truncation", truncation, (True, False, "longest_first", "only_first", "do_not_truncate"))
        cut = truncation not in (False, "do_not_truncate")
        if max_length is not None and (not cut or max_length < 1):
            raise ConfigError(f"max_length {max_length}: expected 1 or more, together with truncation=True")
        one = isinstance(texts, str) or (is_split_into_words and all(isinstance(text, str) for text in texts))
        listed: Sequence[Any] = [texts] if one else texts
        rows = [self.tokens(text)[:max_length] for text in listed]
        ids_BTC = torch.from_numpy(_encoded(rows, self.max_characters))
        return BatchEncoding({"input_ids": ids_BTC, "attention_mask": (ids_BTC > 0).any(-1).long()})

    def tokens(self, text: str | Sequence[str]) -> list[str]:
        if not isinstance(text, str):
            return list(text)
        found = sentences.tokenize(text, self.language, self.contractions)
        return [token for sentence in found for token in sentence]

    def save_pretrained(self, save_directory: str | Path) -> None:
        Path(save_directory).mkdir(parents=True, exist_ok=True)
        (Path(save_directory) / TOKENIZER).write_text(json.dumps(vars(self), indent=2) + "\n")

    @classmethod
    def from_pretrained(cls, name: str | Path, **settings: Any) -> "StelmoTokenizer":
        """As it was saved in the folder, or in the repository of the hub; otherwise as its model requires.

        The settings replace saved ones; `revision`, `token`, `cache_dir`, `local_files_only` and `subfolder` are
        those of `AutoModel.from_pretrained`.
        """
        hub = {option: settings.pop(option) for option in HUB_OPTIONS if option in settings}
        path = cached_file(name, TOKENIZER, _raise_exceptions_for_missing_entries=False, **hub)
        if path is None:
            return cls(AutoConfig.from_pretrained(name, **hub).max_characters, **settings)
        try:
            return cls(**(json.loads(Path(path).read_bytes()) | settings))
        except (ValueError, TypeError) as problem:
            raise ModelError(f"{path}: not the settings of a tokenizer ({problem})") from None


def _encoded(rows: Sequence[Sequence[str]], width: int) -> NDArray[np.int64]:
    """As `chars.encode_sentences`, each distinct word once."""
    numbers: dict[str, int] = {}
    index = [[numbers.setdefault(word, len(numbers)) for word in words] for words in checked(rows)]
    ids_UC = chars.encode_words(list(numbers), width)
    ids_BTC = np.zeros((len(index), max(map(len, index), default=0), width), np.int64)
    for row, found in enumerate(index):
        ids_BTC[row, : len(found)] = ids_UC[found]
    return ids_BTC


def _keys(ids_BTC: Tensor) -> Iterator[list[str]]:
    """The engine identifies words by strings: here, the string of the word's ids, one character each."""
    lengths = (ids_BTC > 0).any(-1).sum(1).tolist()
    width = ids_BTC.shape[2]
    for row_TC, length in zip(ids_BTC.numpy().astype("<u4"), lengths, strict=True):
        text = row_TC[:length].tobytes().decode(UTF_32)
        yield [text[place : place + width] for place in range(0, len(text), width)]


def _ids_of_keys(width: int, keys: Sequence[str]) -> NDArray[np.int64]:
    """Back to ids (U, C); the engine itself adds the two markers by name."""
    markers = (chars.BEGIN_SENTENCE, chars.END_SENTENCE)
    rows = [chars.encode(key, width) if key in markers else list(map(ord, key)) for key in keys]
    return np.array(rows, np.int64)


def _reading_bytes(config: ModelConfig) -> ModelConfig:
    if not isinstance(config.input, CharInput):
        raise ConfigError(f"AutoModel: input {config.input.kind}: the model has ids of its own; use stelmo.load")
    return config


AutoConfig.register("stelmo", StelmoConfig)
AutoModel.register(StelmoConfig, StelmoModel)

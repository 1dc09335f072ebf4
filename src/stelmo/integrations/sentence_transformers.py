"""A model → the first module of a `SentenceTransformer`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from stelmo.embed.load import load
from stelmo.embed.model import Model, picking
from stelmo.errors import ConfigError, DataError
from stelmo.integrations.huggingface import StelmoModel, StelmoTokenizer
from stelmo.settings import Layer

try:
    from sentence_transformers.base.modules import InputModule
except ImportError:
    raise ConfigError("SentenceTransformer requires its library; pip install 'stelmo[sentence-transformers]'") from None


class StelmoTransformer(InputModule):
    """Texts → `token_embeddings` of one layer (`mean` of all, `top`, or a number), for a pooling module that follows.

    The model: a `stelmo.load` model, a `StelmoModel`, a path, or None for the one that comes with stelmo.
    `max_seq_length`: tokens of a text, its prompt included, that are read; None: all.
    """

    config_file_name = "stelmo_sentences.json"
    config_keys: list[str] = ["layer", "max_seq_length"]  # noqa: RUF012, as the library declares it

    def __init__(
        self,
        model: Model | StelmoModel | str | Path | None = None,
        layer: Layer = "mean",
        tokenizer: StelmoTokenizer | None = None,
        max_seq_length: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(model, Model | StelmoModel):
            model = load(model)
        self.auto_model = StelmoModel.of(model) if isinstance(model, Model) else model
        config = self.auto_model.config
        picking(layer, config.architecture.depth)  # refuses a layer that the model does not have
        self.layer, self.max_seq_length = layer, max_seq_length
        self.tokenizer = tokenizer or StelmoTokenizer(config.max_characters)

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """Character ids and their mask; the tokens of a prompt are put before those of each text."""
        for text in inputs:
            if not isinstance(text, str):
                raise DataError(f"{type(text).__name__} {text!r:.40}; expected texts, not pairs or lists")
        before = self.tokenizer.tokens(prompt or "")
        rows = [[*before, *self.tokenizer.tokens(text)] for text in inputs]
        cut = self.max_seq_length is not None
        features = dict(self.tokenizer(rows, truncation=cut, max_length=self.max_seq_length))
        return features | ({"prompt_length": len(before)} if prompt else {})

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        output = self.auto_model(features["input_ids"], features["attention_mask"], output_hidden_states=True)
        pick = picking(self.layer, len(output.hidden_states))
        return features | {"token_embeddings": pick(torch.stack(output.hidden_states))}

    def get_embedding_dimension(self) -> int:
        width: int = self.auto_model.config.hidden_size
        return width

    def save(self, output_path: str, *arguments: Any, **options: Any) -> None:
        """A folder that `AutoModel.from_pretrained` and `stelmo.load` read, too."""
        self.auto_model.save_pretrained(output_path)
        self.tokenizer.save_pretrained(output_path)
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> "StelmoTransformer":
        hub = {
            name: options[name] for name in ("token", "cache_folder", "revision", "local_files_only") if name in options
        }
        folder = cls.load_dir_path(model_name_or_path, subfolder, **hub)
        settings = cls.load_config(model_name_or_path, subfolder, **hub)
        return cls(StelmoModel.from_pretrained(folder), tokenizer=StelmoTokenizer.from_pretrained(folder), **settings)

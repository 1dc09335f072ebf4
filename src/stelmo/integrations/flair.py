"""A model → flair's word embeddings, in place of its `ELMoEmbeddings`."""

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from stelmo.config import choose
from stelmo.embed.load import load
from stelmo.embed.model import Model, Reduce
from stelmo.engine.planning import HALF
from stelmo.errors import ConfigError
from stelmo.formats import models
from stelmo.integrations import SAVED

try:
    import flair
    from flair.embeddings import TokenEmbeddings
    from flair.embeddings.base import register_embeddings
except ImportError:
    raise ConfigError("flair is not installed; pip install 'stelmo[flair]' in an environment of its own") from None


MODES: dict[str, Reduce] = {
    "all": lambda layers_LTD: torch.cat(layers_LTD.unbind(0), -1),
    "top": lambda layers_LTD: layers_LTD[-1],
    "average": lambda layers_LTD: layers_LTD.mean(0),
}


@register_embeddings
class StelmoEmbeddings(TokenEmbeddings):
    """The vectors of flair's own tokens. Modes, as in the old class: all (the layers concatenated), top, average.

    The model: a path, a loaded model, or None for the one bundled with stelmo; settings are those of `stelmo.load`.
    """

    def __init__(self, model: Model | str | Path | None = None, embedding_mode: str = "all", **settings: Any) -> None:
        choose("embedding_mode", embedding_mode, tuple(MODES))
        self.model = model if isinstance(model, Model) else load(model, **settings)
        if self.model.settings.state == "carry":
            raise ConfigError("flair: under state 'carry' a sentence depends on all before it; choose warm or fresh")
        self.embedding_mode = embedding_mode
        self.name = f"stelmo-{self.model.saved().fingerprint()[:8]}-{self.model.settings.state}-{embedding_mode}"
        self.static_embeddings = True  # the model is not trained, so flair can cache the vectors
        super().__init__()

    @property
    def embedding_length(self) -> int:
        layers = self.model.config.depth if self.embedding_mode == "all" else 1
        return layers * self.model.config.width

    def _add_embeddings_internal(self, sentences: list[Any]) -> None:
        tokens = [[token.text for token in sentence] for sentence in sentences]
        vectors, _ = self.model.run(tokens, MODES[self.embedding_mode])
        for sentence, vectors_TD in zip(sentences, vectors, strict=True):
            for token, vector_D in zip(sentence, torch.from_numpy(vectors_TD).to(flair.device), strict=True):
                token.set_embedding(self.name, vector_D)

    def to_params(self) -> dict[str, Any]:
        """The model itself, so that a tagger's file is complete; without the softmax, which is not used."""
        with tempfile.TemporaryDirectory() as room:
            folder = Path(room) / "model"
            models.write(replace(self.model.saved(), read_softmax=None), folder)
            files = {file.name: file.read_bytes() for file in folder.iterdir()}
        settings = self.model.settings.model_dump(include=SAVED)
        return {"files": files, "embedding_mode": self.embedding_mode, "settings": settings}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> "StelmoEmbeddings":
        """On flair's device. int8 is only for the CPU; half precision is only for a GPU."""
        settings = {name: value for name, value in params["settings"].items() if name in SAVED}
        device = "cpu" if settings["precision"] == "int8" else str(flair.device)
        if settings["precision"] in HALF and device == "cpu":
            warnings.warn(
                f"precision {settings['precision']} requires a GPU; StelmoEmbeddings computes in float32", stacklevel=2
            )
            settings["precision"] = "float32"
        with tempfile.TemporaryDirectory() as room:
            for name, content in params["files"].items():
                (Path(room) / Path(name).name).write_bytes(content)
            return cls(room, params["embedding_mode"], device=device, **settings)

"""Small models for tests: every number random, so that every term of the maths matters."""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from stelmo.config import (
    CharInput,
    CodePointInput,
    GatedCnnConfig,
    LstmConfig,
    ModelConfig,
    TransformerConfig,
    WordInput,
)
from stelmo.embed.model import Model
from stelmo.engine import plain
from stelmo.formats import models
from stelmo.model.bilm import BiLM, Softmax
from stelmo.settings import LoadSettings
from stelmo.store.saved import SavedModel
from stelmo.text.ids import Vocabulary, word_ids

WORDS = ("<S>", "</S>", "<UNK>", "the", "bank", "river", ".", "a", "über", "日本")
CHARS = CharInput(embedding=4, filters=((1, 3), (2, 5), (3, 4)), highways=2)
LSTM = LstmConfig(cells=10, projection=6, layers=2, cell_clip=3.0, projection_clip=3.0)
CONFIG = ModelConfig(input=CHARS, lstm=LSTM)
TRANSFORMER = TransformerConfig(width=6, hidden=9, layers=2, heads=3, positions=12)
GATED_CNN = GatedCnnConfig(width=6, blocks=(((4, 6),), ((1, 4), (3, 4), (2, 6, 3))))
ENCODERS = {
    "lstm": CONFIG,
    "transformer": ModelConfig(input=CHARS, encoder=TRANSFORMER),
    "gated-cnn": ModelConfig(input=CHARS.model_copy(update={"layer_norm": 1e-6}), encoder=GATED_CNN),
}
WITHOUT_STATE = {name: config for name, config in ENCODERS.items() if not config.has_state}
WORD_CONFIG = ModelConfig(input=WordInput(words=len(WORDS)), lstm=LSTM)


def bilm(config: ModelConfig = CONFIG, seed: int = 0, dtype: torch.dtype = torch.float32) -> BiLM:
    generator = torch.Generator().manual_seed(seed)
    module = BiLM(config).reset(seed).requires_grad_(False).to(dtype)
    for tensor in module.state_dict().values():
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.7)
    if isinstance(config.input, CharInput):
        module.encoder.table[0] = 0
    return module


def softmax(config: ModelConfig = CONFIG, seed: int = 1) -> Softmax:
    head = Softmax(len(WORDS), config.projection).requires_grad_(False)
    for tensor in head.state_dict().values():
        tensor.copy_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)))
    return head


def saved(config: ModelConfig = CONFIG, **fields: Any) -> SavedModel:
    """With a vocabulary, a softmax and a warm state of its own, unless told otherwise."""
    module, words = bilm(config), Vocabulary(WORDS)
    given = {"vocabulary": words, "read_softmax": partial(softmax, config), "start": None} | fields
    if config.has_state and not isinstance(
        config.input, CodePointInput
    ):  # its alphabet does not know the sentences of the warm-up
        given = {**given, "start": plain.warm_state(module, word_ids(config, words))} | fields
    return SavedModel(module, "tiny", **given)


def model(config: ModelConfig = CONFIG, **settings: Any) -> Model:
    return Model(saved(config), LoadSettings(**settings))


def folder(path: Path, format: str = "stelmo", config: ModelConfig = CONFIG) -> Path:
    """A model folder on disk."""
    models.write(saved(config), path, format)
    return path


def counting_words(model: Model) -> list[int]:
    """How many words the model remembers whenever `layers` is called from now on."""
    remembered: list[int] = []
    original = model.layers

    def layers(sentences: Any, state: Any = None) -> Any:
        remembered.append(len(model.engine.compute()._token_layer._rows))  # type: ignore[union-attr]
        return original(sentences, state)

    model.layers = layers  # type: ignore[method-assign]
    return remembered

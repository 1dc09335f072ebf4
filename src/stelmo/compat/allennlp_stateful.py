"""AllenNLP's ELMo classes with its hidden state: the same names as in `stelmo.compat.allennlp`, other defaults.

    from allennlp.modules.elmo import Elmo, batch_to_ids   →   from stelmo.compat.allennlp_stateful import …

Here an unchanged script gets the numbers of the original in every call, not only in the first: the LSTM state is
carried from batch to batch, so the vectors of a sentence depend on the calls before it.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from stelmo.compat import allennlp
from stelmo.compat.allennlp import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ConfigurationError,
    ELMoCharacterMapper,
    ELMoTokenCharactersIndexer,
    ScalarMix,
    _ElmoCharacterEncoder,
    batch_to_ids,
    empty_embedding,
    remove_sentence_boundaries,
)

__all__ = [  # noqa: RUF022 (in the order of `stelmo.compat.allennlp`)
    "Elmo",
    "batch_to_ids",
    "_ElmoBiLm",
    "_ElmoCharacterEncoder",
    "ScalarMix",
    "ElmoTokenEmbedder",
    "ElmoEmbedder",
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "DEFAULT_BATCH_SIZE",
    "empty_embedding",
    "main",
    "ELMoTokenCharactersIndexer",
    "ELMoCharacterMapper",
    "ConfigurationError",
    "remove_sentence_boundaries",
]


class _ElmoBiLm(allennlp._ElmoBiLm):
    def __init__(self, *arguments: Any, stateful: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, stateful=stateful, **settings)


class Elmo(allennlp.Elmo):
    def __init__(self, *arguments: Any, stateful: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, stateful=stateful, **settings)


class ElmoTokenEmbedder(allennlp.ElmoTokenEmbedder):
    def __init__(self, *arguments: Any, stateful: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, stateful=stateful, **settings)


class ElmoEmbedder(allennlp.ElmoEmbedder):
    """An empty sentence is an `empty_embedding()`, whatever the sizes of the model."""

    def __init__(self, *arguments: Any, stateful: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, stateful=stateful, **settings)

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[NDArray[Any]]:
        return [layers if layers.shape[1] else empty_embedding() for layers in super().embed_batch(batch)]


main = partial(allennlp.main, stateful=True)

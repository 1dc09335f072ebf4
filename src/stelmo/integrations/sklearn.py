"""Texts or lists of tokens → one vector each, as a scikit-learn transformer.

N texts, S sentences of one, T tokens, L layers, D width.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stelmo.config import choose, parse
from stelmo.embed.load import SharedModel, shared
from stelmo.embed.model import Array, Reduce, picking
from stelmo.errors import ConfigError, DataError
from stelmo.settings import LoadSettings
from stelmo.text.sentences import tokenize

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise ConfigError("ElmoVectorizer requires scikit-learn; pip install 'stelmo[sklearn]'") from None

TOGETHER = 4096  # texts whose sentences are in memory at a time


class Pooling(NamedTuple):
    tokens: Callable[[Tensor], Tensor]  # (T, D) of a sentence → (D,)
    sentences: Callable[[Array, int], Array]  # (S, D) of a text, and how many tokens it has → (D,)


POOLINGS = {
    "mean": Pooling(lambda x_TD: x_TD.sum(0), lambda x_SD, tokens: x_SD.sum(0) / tokens),
    "max": Pooling(lambda x_TD: x_TD.amax(0), lambda x_SD, tokens: x_SD.max(0)),
    "first": Pooling(lambda x_TD: x_TD[0], lambda x_SD, tokens: x_SD[0]),
    "last": Pooling(lambda x_TD: x_TD[-1], lambda x_SD, tokens: x_SD[-1]),
}


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts → (N, D): the vectors of a text's tokens, pooled. A text without a token has zeros.

    model      path of a model; None: the one bundled with stelmo
    pooling    mean, max, first or last, over all tokens of a text
    layer      mean, top, a number, or a weight for each layer
    tokenizer  text → sentences of tokens, or the tokens of one; None: `stelmo.tokenize`. A list of tokens, one
               sentence, is taken as it is

    The model stays outside: an estimator holds its name and, once fitted, its fingerprint.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        pooling: str = "mean",
        layer: Any = "mean",
        tokenizer: Callable[[str], Any] | None = None,
        state: str | None = None,
        precision: str = "float32",
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.model = model
        self.pooling = pooling
        self.layer = layer
        self.tokenizer = tokenizer
        self.state = state
        self.precision = precision
        self.device = device
        self.threads = threads

    def fit(self, X: Iterable[Any], y: object = None) -> "ElmoVectorizer":
        """Checks the settings and stores the model's fingerprint; nothing is learned from the texts."""
        _refuse_shape(X)
        found = self._shared(None)
        self._reduce(found.model.config.depth)
        self.fingerprint_ = found.fingerprint
        self._n_features_out = found.model.config.width
        return self

    def transform(self, X: Iterable[Any]) -> Array:
        """(N, D), in float32 unless `precision` is float64."""
        check_is_fitted(self)
        _refuse_shape(X)
        found = self._shared(self.fingerprint_)
        reduce = self._reduce(found.model.config.depth)
        texts = list(X)
        dtype = np.float64 if self.precision == "float64" else np.float32
        vectors_ND = np.zeros((len(texts), found.model.config.width), dtype)
        for first in range(0, len(texts), TOGETHER):
            split = [self._sentences(text, first + row) for row, text in enumerate(texts[first : first + TOGETHER])]
            parts = iter(found.run([tokens for sentences in split for tokens in sentences], reduce))
            for row, sentences in enumerate(split, first):
                if sentences:
                    x_SD = np.stack([next(parts) for _ in sentences])
                    vectors_ND[row] = POOLINGS[self.pooling].sentences(x_SD, sum(map(len, sentences)))
        return vectors_ND

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _shared(self, fingerprint: str | None) -> SharedModel:
        names = ("state", "precision", "device", "threads")
        asked = {name: getattr(self, name) for name in names if name != "state" or self.state is not None}
        return shared(self.model, parse(LoadSettings, asked, "ElmoVectorizer", ConfigError), fingerprint)

    def _reduce(self, depth: int) -> Reduce:
        choose("pooling", self.pooling, tuple(POOLINGS))
        pick, pool = _picking(self.layer, depth), POOLINGS[self.pooling].tokens
        return lambda layers_LTD: pool(pick(layers_LTD))

    def _sentences(self, text: Any, row: int) -> list[list[str]]:
        """The sentences of a text that have tokens."""
        split = (self.tokenizer or tokenize)(text) if isinstance(text, str) else text
        if not isinstance(split, Sequence | np.ndarray) or isinstance(split, str | bytes):
            raise DataError(f"row {row}: {type(split).__name__} {split!r:.40}; expected a text, or a list of tokens")
        nested = isinstance(text, str) and any(not isinstance(tokens, str) for tokens in split)
        sentences = [list(tokens) for tokens in (split if nested else [split])]
        for token in (token for tokens in sentences for token in tokens):
            if not isinstance(token, str):
                raise DataError(
                    f"row {row}: token {token!r:.40}; tokens must be strings; a list of tokens is one sentence"
                )
        return [tokens for tokens in sentences if tokens]


def mixes(depth: int = 3, steps: int = 2) -> list[tuple[float, ...]]:
    """A grid for searching `layer`: all weights of `depth` layers that sum to 1, in steps of 1/steps."""
    counts = (parts for parts in product(range(steps + 1), repeat=depth) if sum(parts) == steps)
    return [tuple(part / steps for part in parts) for parts in counts]


def _picking(layer: Any, depth: int) -> Reduce:
    """A layer by name or number, or the sum of all, each with its weight."""
    if isinstance(layer, str | Integral):
        return picking(layer if isinstance(layer, str) else int(layer), depth)  # type: ignore[arg-type]
    try:
        weights_L = torch.tensor([float(weight) for weight in layer], dtype=torch.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"layer: {layer!r:.60}; expected mean, top, a number, or a weight for each layer") from None
    if len(weights_L) != depth or not bool(weights_L.isfinite().all()):
        raise ConfigError(f"layer: {layer!r:.60}; the model has {depth} layers, so expected {depth} finite weights")
    return lambda layers_LTD: torch.einsum("l,ltd->td", weights_L.to(layers_LTD), layers_LTD)


def _refuse_shape(X: Any) -> None:
    """Iterating over a table gives its column names, over a string its letters; both are refused."""
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise DataError(f"{type(X).__name__} {X!r:.40}; expected a list of texts, one alone as [text]")
    dimensions = getattr(X, "ndim", 1)
    if dimensions != 1:
        raise DataError(
            f"{type(X).__name__} of {dimensions} dimensions; expected one column of texts, such as table['text']"
        )

"""A dataset → its frozen layers, computed once and kept in a folder for later training.

L layers, T tokens, D = 2P.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch

from stelmo.config import ModelConfig, choose
from stelmo.embed.elmo import Cached, LayerShape, key_of
from stelmo.embed.model import Array, Model, Sentences
from stelmo.embed.transformer import TransformerVectors
from stelmo.engine import planning
from stelmo.engine.engine import checked
from stelmo.errors import ConfigError, DataError
from stelmo.jobs.run import Advance
from stelmo.settings import STATES, Dtype, OutputSettings, StatePolicy
from stelmo.store import layers as store
from stelmo.store.layers import LayerFolder, Manifest
from stelmo.store.saved import Mix

BLOCK_TOKENS: int = OutputSettings.model_fields["block_tokens"].default
HARMLESS = {"device", "threads", "batch_tokens", "batch_rows", "memory"}  # change the last bits at most, except
BATCHING = {"batch_tokens", "memory"}  # in int8, where a sentence's numbers depend on those computed together with it


def precompute(
    model: Model | TransformerVectors,
    sentences: Sentences,
    folder: str | Path,
    *,
    dtype: Dtype | None = None,
    state: StatePolicy | None = None,
    block_tokens: int = BLOCK_TOKENS,
    advance: Advance = lambda tokens: None,
) -> Cached:
    """The layers of the sentences; those that the folder does not have are computed and added to it.

    A folder belongs to one model and one group of settings; others are refused. `dtype` is that of the stored numbers
    (unset: the one the model computes in). Finished blocks of `block_tokens` survive an interruption. `advance` is
    called with the number of tokens of each block.
    """
    path, found = Path(folder), checked(sentences)
    if isinstance(model, TransformerVectors):
        shape, fresh = LayerShape(model.depth, model.width), {"state": "fresh"}
        source = _Source(model.fingerprint(), fresh, np.empty(0), shape, (), "float32", model.layers)
    else:
        source = _of_bilm(model, state)
    kept = source.computed if dtype is None else dtype
    choose("dtype", kept, get_args(Dtype))
    depth, width = source.config.depth, source.config.width
    manifest = Manifest(model=source.fingerprint, settings=source.settings, depth=depth, width=width, dtype=kept)
    store.prepare(path, manifest, source.start)
    layers = LayerFolder(path, manifest)
    wanted = {key_of(sentence): sentence for sentence in found}
    if any(key not in layers for key in wanted):
        with store.appending(path, manifest) as appended:
            missing = {key: sentence for key, sentence in wanted.items() if key not in appended.found}
            for pairs in planning.by_tokens(missing.items(), block_tokens, lambda pair: len(pair[1])):
                keys, block = [key for key, _ in pairs], [sentence for _, sentence in pairs]
                computed = zip(block, source.layers(block), strict=True)
                appended.append(keys, [_narrowed(*pair, manifest.dtype) for pair in computed])
                advance(sum(map(len, block)))
        layers = LayerFolder(path, manifest)
    return Cached(layers, source.config, source.mixes, getattr(torch, source.computed))


class _Source(NamedTuple):
    """What a folder of layers depends on, and the function that computes them."""

    fingerprint: str
    settings: dict[str, Any]  # those that change numbers
    start: Array  # the state that sentences start from: can be changed, and is not part of the fingerprint
    config: ModelConfig | LayerShape
    mixes: Sequence[Mix]
    computed: str  # dtype of what `layers` returns
    layers: Callable[[list[Sequence[str]]], Sequence[Array]]


def _of_bilm(model: Model, state: StatePolicy | None) -> _Source:
    policy = model.settings.state if state is None else state
    choose("state", policy, STATES)
    if policy == "carry":
        raise ConfigError(
            "precompute: with state 'carry' a sentence's layers depend on those before it; choose 'warm' or 'fresh'"
        )

    def layers(block: list[Sequence[str]]) -> Sequence[Array]:
        model.forget_words()  # so that a block has the same bits whether or not others ran before it
        return model.layers(block, policy)

    left_out = HARMLESS - BATCHING if model.settings.precision == "int8" else HARMLESS
    settings = model.settings.model_dump(mode="json", exclude=left_out) | {"state": policy}
    start = np.concatenate([part.cpu().double().numpy().ravel() for part in model.start_state(policy)])
    computed = model.layers([[]], policy)[0].dtype.name
    return _Source(model.saved().fingerprint(), settings, start, model.config, model.mixes, computed, layers)


def _narrowed(sentence: Sequence[str], layers_LTD: Array, dtype: Dtype) -> Array:
    """Converted to the stored dtype; numbers outside its range are refused instead of becoming infinite."""
    with np.errstate(over="ignore"):
        kept = layers_LTD.astype(dtype, copy=False)
    if not np.isfinite(kept).all():
        raise DataError(
            f"the layers of {' '.join(sentence)!r:.60} reach {np.abs(layers_LTD).max():.3g}, "
            f"which is outside the range of {dtype}; choose a wider dtype"
        )
    return kept

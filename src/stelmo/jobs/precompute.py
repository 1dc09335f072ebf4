"""A dataset → its frozen layers, computed once and kept in a folder for later training.

L layers, T tokens, D = 2P.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from stelmo.config import choose
from stelmo.embed.elmo import Cached, key_of
from stelmo.embed.model import Array, Model, Sentences
from stelmo.engine import planning
from stelmo.engine.engine import checked
from stelmo.errors import ConfigError, DataError
from stelmo.jobs.run import Advance
from stelmo.settings import STATES, Dtype, OutputSettings, StatePolicy
from stelmo.store import layers as store
from stelmo.store.layers import LayerFolder, Manifest

BLOCK_TOKENS: int = OutputSettings.model_fields["block_tokens"].default
HARMLESS = {"device", "threads", "batch_tokens", "batch_rows", "memory"}  # change the last bits at most


def precompute(
    model: Model,
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
    policy = _lasting(model.settings.state if state is None else state)
    path, found = Path(folder), checked(sentences)
    empty_LTD = model.layers([[]], policy)[0]
    manifest = _manifest(model, policy, empty_LTD, dtype)
    store.prepare(path, manifest, _numbers(model, policy))
    layers = LayerFolder(path, manifest)
    wanted = {key_of(sentence): sentence for sentence in found}
    if any(key not in layers for key in wanted):
        _add(model, policy, path, manifest, wanted, block_tokens, advance)
        layers = LayerFolder(path, manifest)
    return Cached(layers, model, torch.from_numpy(empty_LTD).dtype)


def _lasting(policy: StatePolicy) -> StatePolicy:
    choose("state", policy, STATES)
    if policy == "carry":
        raise ConfigError(
            "precompute: with state 'carry' a sentence's layers depend on those before it; choose 'warm' or 'fresh'"
        )
    return policy


def _manifest(model: Model, policy: StatePolicy, empty_LTD: Array, dtype: Dtype | None) -> Manifest:
    depth, _, width = empty_LTD.shape
    kept = empty_LTD.dtype.name if dtype is None else dtype
    choose("dtype", kept, get_args(Dtype))
    settings = model.settings.model_dump(mode="json", exclude=HARMLESS) | {"state": policy}
    return Manifest(model=model.saved().fingerprint(), settings=settings, depth=depth, width=width, dtype=kept)


def _numbers(model: Model, policy: StatePolicy) -> Array:
    """The state that sentences start from: a model's warm state can be changed and is not part of its fingerprint."""
    return np.concatenate([part.cpu().double().numpy().ravel() for part in model.start_state(policy)])


def _add(
    model: Model,
    policy: StatePolicy,
    path: Path,
    manifest: Manifest,
    wanted: Mapping[bytes, Sequence[str]],
    block_tokens: int,
    advance: Advance,
) -> None:
    with store.appending(path, manifest) as folder:
        missing = {key: sentence for key, sentence in wanted.items() if key not in folder.found}
        for pairs in planning.by_tokens(missing.items(), block_tokens, lambda pair: len(pair[1])):
            keys, block = [key for key, _ in pairs], [sentence for _, sentence in pairs]
            model.forget_words()  # so that a block has the same bits whether or not others ran before it
            computed = model.layers(block, policy)
            narrowed = [_narrowed(*pair, manifest.dtype) for pair in zip(block, computed, strict=True)]
            folder.append(keys, narrowed)
            advance(sum(map(len, block)))


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

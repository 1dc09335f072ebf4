"""A model's name → the model, read once per process and shared by all callers.

What other libraries copy, pickle and send to workers is the name and the fingerprint, never the weights.
"""

from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from stelmo.embed.load import load
from stelmo.embed.model import Array, Model, Reduce, Sentences
from stelmo.errors import ConfigError, ModelError
from stelmo.settings import LoadSettings

KEPT = 2  # models in memory; the least recently used is dropped

_Stamp = tuple[tuple[str, int, int], ...]
_lock = RLock()  # a model's word cache is not thread-safe


class Resident(NamedTuple):
    model: Model
    fingerprint: str

    def run(self, sentences: Sentences, reduce: Reduce) -> list[Array]:
        with _lock:
            return self.model.run(sentences, reduce)[0]


def get(name: object, settings: LoadSettings, fingerprint: str | None = None) -> Resident:
    """The model of that name (None: the bundled one), refused if its fingerprint is not the one expected."""
    if settings.state == "carry":
        raise ConfigError("state: under 'carry' a sentence depends on all before it; choose warm or fresh")
    path = absolute(name)
    with _lock:
        found = _read(path, _stamp(path), tuple(settings.model_dump(exclude_unset=True).items()))
    if fingerprint not in (None, found.fingerprint):
        raise ModelError(
            f"{path or 'the bundled model'}: other weights (fingerprint {found.fingerprint[:8]}) than before "
            f"({fingerprint:.8}); put the old ones there, or fit or save again"
        )
    return found


def absolute(name: object) -> str | None:
    """The path as it is found from any working directory."""
    if name is None or isinstance(name, str | Path):
        return None if name is None else str(Path(name).absolute())
    raise ConfigError(f"model: {type(name).__name__} found; expected a path, so save it first: model.save('my-model')")


@lru_cache(maxsize=KEPT)
def _read(path: str | None, stamp: _Stamp, settings: tuple[tuple[str, Any], ...]) -> Resident:
    model = load(path, **dict(settings))
    return Resident(model, model.saved().fingerprint())


def _stamp(path: str | None) -> _Stamp:
    """Changes when the files do, so that a changed model is read again."""
    if path is None or not Path(path).exists():
        return ()
    files = sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)

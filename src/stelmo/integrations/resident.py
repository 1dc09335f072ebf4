"""A model's name → the model, read once in a process and shared by all who ask. Knows no foreign library.

What other libraries copy, pickle and send to workers is the name and the fingerprint, never the weights.
"""

from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from stelmo.config import LoadSettings
from stelmo.embed.load import load
from stelmo.embed.model import Array, Model, Reduce, Sentences
from stelmo.errors import ConfigError, ModelError

KEPT = 2  # models in memory; the one unused for longest goes

_Stamp = tuple[tuple[str, int, int], ...]
_lock = RLock()  # a model's word cache is not made for two threads


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
        found = _read(path, _stamp(path), settings)
    if fingerprint not in (None, found.fingerprint):
        raise ModelError(
            f"{path or 'the bundled model'}: other weights (fingerprint {found.fingerprint[:8]}) than before "
            f"({fingerprint:.8}); put the old ones there, or fit or save again"
        )
    return found


def absolute(name: object) -> str | None:
    """As it is found from any folder."""
    if name is None or isinstance(name, str | Path):
        return None if name is None else str(Path(name).absolute())
    raise ConfigError(f"model: {type(name).__name__} found; expected a path, so save it first: model.save('my-model')")


@lru_cache(maxsize=KEPT)
def _read(path: str | None, stamp: _Stamp, settings: LoadSettings) -> Resident:
    model = load(path, **settings.model_dump())
    return Resident(model, model.saved().fingerprint())


def _stamp(path: str | None) -> _Stamp:
    """Changes when the files do, so that a model written anew is read anew."""
    if path is None or not Path(path).exists():
        return ()
    files = sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)

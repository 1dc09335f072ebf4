"""stelmo: a maintained ELMo. Text → contextual word vectors, from ELMo models in all their file formats."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stelmo.embed.elmo import Elmo as Elmo
    from stelmo.embed.load import from_pretrained as from_pretrained
    from stelmo.embed.load import load as load
    from stelmo.embed.model import Model as Model
    from stelmo.errors import ConfigError as ConfigError
    from stelmo.errors import DataError as DataError
    from stelmo.errors import MissingModelError as MissingModelError
    from stelmo.errors import ModelError as ModelError
    from stelmo.errors import OutputError as OutputError
    from stelmo.errors import StelmoError as StelmoError
    from stelmo.jobs.precompute import precompute as precompute
    from stelmo.model.bilm import State as State
    from stelmo.model.mix import ScalarMix as ScalarMix
    from stelmo.text.sentences import tokenize as tokenize

__version__ = "0.1.0"

# Imported when first used: `import stelmo` and `stelmo --help` need no torch.
_HOMES = {
    "Elmo": "embed.elmo",
    "from_pretrained": "embed.load",
    "load": "embed.load",
    "Model": "embed.model",
    "precompute": "jobs.precompute",
    "ConfigError": "errors",
    "DataError": "errors",
    "MissingModelError": "errors",
    "ModelError": "errors",
    "OutputError": "errors",
    "StelmoError": "errors",
    "ScalarMix": "model.mix",
    "State": "model.bilm",
    "tokenize": "text.sentences",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stelmo' has no attribute {name!r}")
    return getattr(import_module(f"stelmo.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

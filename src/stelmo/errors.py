"""What a user can get wrong, as exceptions. Knows nothing else.

StelmoError
├── ConfigError   a setting is unknown, of the wrong type, or at odds with another; also a ValueError
├── DataError     a text, corpus or task file is not what its format promises
├── ModelError    a model file is torn, of another shape, or not to be trusted
│   └── MissingModelError   it is not there; also a FileNotFoundError
└── OutputError   a result cannot be written where it was asked for

A message is one sentence: where, what was found, what is expected, the way out.
"""


class StelmoError(Exception):
    """The user can put this right; the command line prints it in one line and exits with 2."""


class ConfigError(StelmoError, ValueError):
    """A setting is unknown, of the wrong type, or at odds with another."""


class DataError(StelmoError):
    """A text, corpus or task file is not what its format promises."""


class ModelError(StelmoError):
    """A model file is torn, of another shape, or not to be trusted."""


class MissingModelError(ModelError, FileNotFoundError):
    """A model file, or one that it needs, is not there."""


class OutputError(StelmoError):
    """A result cannot be written where it was asked for."""

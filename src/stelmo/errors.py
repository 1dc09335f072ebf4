"""What a user can get wrong, as exceptions. Knows nothing else.

StelmoError
├── ConfigError   a setting is unknown, of the wrong type, or conflicts with another; also a ValueError
├── DataError     a text, corpus or task file does not follow its format
├── ModelError    a model file is damaged, has another shape, or cannot be trusted
│   └── MissingModelError   it does not exist; also a FileNotFoundError
└── OutputError   a result cannot be written where it was asked for

A message is one sentence: where, what was found, what is expected, the way out.
"""


class StelmoError(Exception):
    """The user can correct this; the command line prints it in one line and exits with 2."""


class ConfigError(StelmoError, ValueError):
    """A setting is unknown, of the wrong type, or conflicts with another."""


class DataError(StelmoError):
    """A text, corpus or task file does not follow its format."""


class ModelError(StelmoError):
    """A model file is damaged, has another shape, or cannot be trusted."""


class MissingModelError(ModelError, FileNotFoundError):
    """A model file, or one that it needs, does not exist."""


class OutputError(StelmoError):
    """A result cannot be written where it was asked for."""

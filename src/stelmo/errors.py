"""What a user can get wrong, as exceptions. Knows nothing else.

StelmoError
├── ConfigError   a setting is unknown, of the wrong type, or at odds with another
├── DataError     a text, corpus or task file is not what its format promises
├── ModelError    a model file is missing, torn, of another shape, or not to be trusted
└── OutputError   a result cannot be written where it was asked for

A message is one sentence: where, what was found, what is expected, the way out.
"""


class StelmoError(Exception):
    """The user can put this right; the command line prints it in one line and exits with 2."""


class ConfigError(StelmoError):
    """A setting is unknown, of the wrong type, or at odds with another."""


class DataError(StelmoError):
    """A text, corpus or task file is not what its format promises."""


class ModelError(StelmoError):
    """A model file is missing, torn, of another shape, or not to be trusted."""


class OutputError(StelmoError):
    """A result cannot be written where it was asked for."""

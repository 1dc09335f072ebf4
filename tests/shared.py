"""What the tests of several rooms lean on: the optional shared folder, and a model made of arrays.

The shared folder holds weights too large or too foreign for the repository. It is named by STELMO_SHARED,
else looked for beside the repository; tests that need it are skipped where it is absent.
"""

import os
import tempfile
from pathlib import Path

import oracle
import pytest

import stelmo

FOLDER = Path(os.environ.get("STELMO_SHARED") or Path(__file__).resolve().parents[2] / "shared")
GOLDEN = FOLDER / "golden" / "allennlp"
ENGLISH = FOLDER / "models" / "english-33min"

ABSENT = "is not there; set STELMO_SHARED to the folder that holds it"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"{GOLDEN} {ABSENT}")
needs_english = pytest.mark.skipif(not ENGLISH.is_dir(), reason=f"{ENGLISH} {ABSENT}")


def loaded(options, arrays, vocabulary=None, **settings):
    """Published options and arrays → a stelmo model, by way of files as a user has them."""
    with tempfile.TemporaryDirectory() as folder:
        oracle.write(Path(folder), options, arrays, vocabulary)
        return stelmo.load(folder, **settings)

"""What the tests of several packages use: golden files, two optional folders, and a model made of arrays.

The shared folder holds weights too large or too foreign for the repository. It is named by STELMO_SHARED,
else looked for beside the repository. The data folder holds the tasks' real files (ner/, srl/, sst5/ …). It is named
by STELMO_DATA, else .data in the repository. Tests that need one are skipped where it is absent.
"""

import os
import tempfile
from pathlib import Path

import oracle
import pytest

import stelmo

FOLDER = Path(os.environ.get("STELMO_SHARED") or Path(__file__).resolve().parents[2] / "shared")
GOLDEN = Path(__file__).parent / "golden" / "allennlp"
ENGLISH = FOLDER / "models" / "english-33min"
DATA = Path(os.environ.get("STELMO_DATA") or Path(__file__).resolve().parents[1] / ".data")

ABSENT = "is not there; set STELMO_SHARED to the folder that holds it"
needs_english = pytest.mark.skipif(not ENGLISH.is_dir(), reason=f"{ENGLISH} {ABSENT}")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there; set STELMO_DATA to the tasks' data")


def loaded(options, arrays, vocabulary=None, **settings):
    """Published options and arrays → a stelmo model, by way of files as a user has them."""
    with tempfile.TemporaryDirectory() as folder:
        oracle.write(Path(folder), options, arrays, vocabulary)
        return stelmo.load(folder, **settings)

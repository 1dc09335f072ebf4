"""Every module can be imported on a system without the modules of Unix."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import stelmo

pytestmark = pytest.mark.long

SOURCE = Path(stelmo.__file__).parent
MODULES = sorted(
    ".".join(("stelmo", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if path.stem != "__main__"  # importing it runs the command
)
# Modules that need an optional dependency, and the package to look for.
OPTIONAL = {
    "stelmo.integrations.flair": "flair",
    "stelmo.integrations.huggingface": "transformers",
    "stelmo.integrations.onnx": "onnx",
    "stelmo.integrations.ray": "ray",
    "stelmo.integrations.sentence_transformers": "sentence_transformers",
    "stelmo.integrations.sklearn": "sklearn",
    "stelmo.integrations.spacy": "spacy",
    **{name: "fastapi" for name in MODULES if name.startswith(("stelmo.serve.", "stelmo.cli.serve"))},
}
# First as they are, so that other libraries, which may need the modules of Unix on Unix, are there; then ours again.
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.split(".")[0] == "stelmo"]:
    del sys.modules[name]
for absent in ("fcntl", "resource", "grp", "pwd", "termios", "tty", "pty"):
    sys.modules[absent] = None  # importing it raises ImportError
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as problem:
        print(f"{name}: {problem!r}")
"""


def test_every_module_is_imported_without_the_modules_of_unix():
    absent = {name for name, package in OPTIONAL.items() if importlib.util.find_spec(package) is None}
    wanted = [name for name in MODULES if name not in absent]
    command = [sys.executable, "-W", "ignore", "-c", IMPORT, *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert len(wanted) > 100

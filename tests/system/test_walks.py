"""The two walks of docs/architecture.md are the frames of the running code; its map has every file."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import corpora
import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
RECORDER = """
import sys
import torch

torch.set_num_threads(1)
module, name, caller, *arguments = sys.argv[1:]
found = []
if module == "stelmo.ops.trainable":
    import torch._dynamo  # torch.optim imports it, which takes long under a profiler


def record(frame, event, argument):
    here = frame.f_globals.get("__name__"), frame.f_code.co_name
    if event != "call" or found or here != (module, name) or frame.f_back.f_code.co_name != caller:
        return
    while frame is not None:
        home = frame.f_globals.get("__name__", "")
        if home.startswith("stelmo."):
            found.append(f"{home.removeprefix('stelmo.')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    raise SystemExit  # what follows is not looked at


from stelmo.cli.main import main

sys.argv = ["stelmo", *arguments]
sys.setprofile(record)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print("WALK", *reversed(found))
"""


def written(walk):
    """The frames that the document lists."""
    section = DOCUMENT[DOCUMENT.index(f"<!-- walk: {walk} -->") :].split("\n\n", 2)[1]
    return re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)


def recorded(module, name, caller, *arguments):
    command = [sys.executable, "-c", RECORDER, module, name, caller, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return next(line for line in done.stdout.splitlines() if line.startswith("WALK")).split()[1:]


def test_a_sentence_takes_the_documented_walk():
    found = recorded("stelmo.ops.fast", "lstm", "_directions", "embed", "The bank raised its rates .", "--threads", 1)
    assert found == written("embed")
    assert len(found) <= 9


def test_a_training_step_takes_the_documented_walk(tmp_path):
    corpora.make(tmp_path / "corpus", corpora.sentences(50))
    settings = ("--set", "tokens=80", "--set", "batch=4", "--set", "threads=1")
    run = ("pretrain", "tiny", "--data", tmp_path / "corpus", "--to", tmp_path / "run", *settings)
    found = recorded("stelmo.ops.trainable", "lstm", "_stack", *run)
    assert found == written("pretrain")
    assert len(found) <= 11


def test_the_map_has_every_file_with_the_first_sentence_of_its_docstring():
    write_map = runpy.run_path(str(ROOT / "docs" / "write_map.py"))
    assert write_map["with_map"](DOCUMENT) == DOCUMENT, "run: python docs/write_map.py"


@pytest.mark.parametrize("name", re.findall(r"`((?:tasks/ner|serve/site)/[\w./]+)`", DOCUMENT))
def test_files_named_elsewhere_exist(name):
    assert (ROOT / "src" / "stelmo" / name).is_file()

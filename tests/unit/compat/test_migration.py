"""Every block of docs/migration.md runs (Python, the new side of a diff, commands), and its tables are complete."""

import importlib
import re
import shlex
from pathlib import Path

import commands
import h5py
import oracle
import pytest
import tiny

from stelmo.compat import COMMANDS as OLD_COMMANDS
from stelmo.compat import MODULES

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "migration.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
PROGRAMS = [(kind, body) for kind, body in BLOCKS if kind in ("python", "diff")]
COMMANDS = [line[2:] for kind, body in BLOCKS if kind == "console" for line in body.splitlines()]


def new_side(kind, body):
    """What a reader ends up with: a diff without its removed lines and without its first column."""
    lines = [line for line in body.splitlines() if kind == "python" or not line.startswith("-")]
    return "\n".join(line if kind == "python" else line[1:] for line in lines)


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder with the files the document speaks of."""
    options = oracle.options()
    for folder in (tmp_path, tmp_path / "model"):
        folder.mkdir(exist_ok=True)
        oracle.write(folder, options, oracle.random_weights(options), tiny.WORDS)
        with h5py.File(folder / "softmax_weights.hdf5", "w") as file:
            file["softmax/W"] = oracle.random_weights(options)["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"][:4, :10].T
            file["softmax/b"] = [0.1 * number for number in range(len(tiny.WORDS))]
    (tmp_path / "sentences.txt").write_text("The bank .\nthe river bank .\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("kind", "body"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_the_new_lines_run(beside, kind, body):
    exec(compile(new_side(kind, body), str(DOCUMENT), "exec"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_run(beside, monkeypatch, capsys, command):
    done = commands.run(monkeypatch, capsys, *shlex.split(command)[1:])
    assert done.code == 0, done.err
    with h5py.File(beside / "vectors.hdf5") as file:
        assert set(file) == {"0", "1", "sentence_to_index"}


def test_every_old_program_has_its_block():
    assert len(PROGRAMS) >= 10
    assert len(COMMANDS) == 1


def surface():
    """Old import line → new import line, for every name that the compat modules offer."""
    for name in MODULES:
        module = importlib.import_module(f"stelmo.compat.{name}")
        for old, names in module.IMPORTS.items():
            assert [found for found in names if not hasattr(module, found)] == []
            if old == "tensorflow_hub":
                yield "import tensorflow_hub as hub", "from stelmo.compat import tfhub as hub", names
            else:
                listed = ", ".join(names)
                yield f"from {old} import {listed}", f"from stelmo.compat.{name} import {listed}", names


def test_the_page_opens_with_every_old_import_and_command():
    rows = [*((old, new) for old, new, _ in surface()), *OLD_COMMANDS.items()]
    table = ["| old | new |", "|---|---|", *(f"| `{old}` | `{new}` |" for old, new in rows)]
    assert "\n".join(table) + "\n" in TEXT.split("\n## ")[0]


TESTS = {
    "AllenNLP": ("allennlp", ["test_allennlp", "test_elmo_bilm", "test_elmo_indexer"]),
    "bilm-tf": ("bilm", ["test_bilm"]),
    "TF-Hub": ("tfhub", ["test_tfhub"]),
    "simple_elmo": ("simple_elmo", ["test_simple_elmo"]),
    "ELMoForManyLangs": ("elmoformanylangs", ["test_elmoformanylangs"]),
}


@pytest.mark.parametrize("program", TESTS)
def test_the_page_counts_names_and_tested_behaviours(program):
    module, tests = TESTS[program]
    imports = importlib.import_module(f"stelmo.compat.{module}").IMPORTS
    sources = [Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in tests]
    behaviours = sum(len(re.findall(r"^def test_", source, re.MULTILINE)) for source in sources)
    assert f"| {program} | {sum(map(len, imports.values()))} | {behaviours} |" in TEXT


def test_links_inside_the_document_lead_somewhere():
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors

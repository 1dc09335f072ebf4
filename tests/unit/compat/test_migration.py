"""Every block of docs/migration.md runs (Python, the new side of a diff, commands), and its tables are complete."""

import inspect
import re
import shlex
from pathlib import Path

import commands
import h5py
import oracle
import pytest
import surface
import tiny

from stelmo.compat import MODULES, allennlp, elmoformanylangs, simple_elmo

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


# The tables are what `surface` makes of the compat modules: print them with it when this fails.


def test_the_page_opens_with_every_old_import_and_command():
    assert tuple(surface.CALLS) == MODULES
    assert surface.imports_table() in TEXT.split("\n## ")[0]


def test_the_page_counts_what_is_here_of_each_program_and_what_is_tested():
    assert surface.coverage_table() in TEXT.split("\n## ")[0]


def test_the_page_lists_every_name_that_is_not_here():
    assert surface.absent_table() in TEXT.partition("\n## What differs")[2]


def test_no_other_page_lists_differences():
    """The migration page is the only one to look at."""
    others = [path for path in DOCUMENT.parent.rglob("*.md") if path != DOCUMENT]
    assert [path.name for path in others if re.search(r"^#+ What differs", path.read_text("utf-8"), re.MULTILINE)] == []


@pytest.mark.parametrize("name", MODULES)
def test_every_name_can_be_imported_and_no_absent_one(name):
    module = surface.compat(name)
    assert [found for names in module.IMPORTS.values() for found in names if not hasattr(module, found)] == []
    here = {f"{old}.{found}" for old, names in module.IMPORTS.items() for found in names}
    assert here.isdisjoint(module.ABSENT)


@pytest.mark.parametrize(("name", "call"), [(name, call) for name, calls in surface.CALLS.items() for call in calls])
def test_a_call_takes_the_original_s_arguments_in_their_order(name, call):
    found = surface.compat(name)
    for part in call.split("."):
        found = getattr(found, part)
    by_position = [
        parameter.name
        for parameter in inspect.signature(found).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "self"
    ]
    expected = surface.CALLS[name][call].split()
    assert by_position[: len(expected)] == expected


def test_the_attributes_that_scripts_read_are_there(beside):
    embedder, elmo = allennlp.ElmoEmbedder("options.json", "weights.hdf5"), simple_elmo.ElmoModel()
    elmo.load("model")
    module = allennlp.Elmo("options.json", "weights.hdf5", 1)
    attributes = {
        embedder: "indexer elmo_bilm cuda_device",
        embedder.elmo_bilm: "num_layers _token_embedder _elmo_lstm",
        module: "_elmo_lstm _scalar_mixes _dropout scalar_mix_0",
        module._elmo_lstm._elmo_lstm: "stateful reset_states",
        elmo: "batcher batch_size max_chars vector_size n_layers vocab model",
        elmoformanylangs.Embedder("model"): "model_dir batch_size model",
    }
    for found, names in attributes.items():
        assert [name for name in names.split() if not hasattr(found, name)] == []


def test_links_inside_the_document_lead_somewhere():
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors

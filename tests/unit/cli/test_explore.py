"""`stelmo explore`: what the page is given, and the old spelling that makes an index."""

import sys

import pytest
import tiny
from commands import run

from stelmo.explore import index

TEXT = "The bank was full . A river bank .\nThe river .\n"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.tok").write_text(TEXT)
    return tmp_path / "corpus.tok"


@pytest.fixture
def stelmo(tmp_path, monkeypatch, capsys):
    """The command with a tiny model."""
    model = tiny.folder(tmp_path / "model")
    return lambda *arguments: run(monkeypatch, capsys, "explore", "--model", model, *arguments)


@pytest.fixture
def shown(monkeypatch):
    """What the page is run with."""
    page = pytest.importorskip("stelmo.serve.service", reason="the page is an extra; pip install 'stelmo[explore]'")
    calls = []

    def fake(index, model, tasks, *, started, **options):
        started("http://127.0.0.1:1/")
        calls.append((index, model, tasks, options))

    monkeypatch.setattr(page, "run_page", fake)
    return calls


def test_the_old_spelling_makes_an_index_with_a_note(stelmo, corpus, tmp_path):
    (tmp_path / "words").write_text("bank\n")
    options = ["--index", corpus, "--to", tmp_path / "uses", "--words", tmp_path / "words", "--per-word", 1]
    done = stelmo(*options, "--from", "tokens")
    assert done.code == 0
    assert done.err.startswith("note: explore --index CORPUS is now called stelmo index CORPUS")
    assert dict(index.open(tmp_path / "uses").words) == {"bank": 1}


def test_the_page_gets_the_index_the_model_and_the_runs(stelmo, corpus, shown, tmp_path):
    stelmo("--index", corpus, "--to", tmp_path / "uses")
    done = stelmo(tmp_path / "uses", "--port", 1234, "--no-browser", "--task", tmp_path / "run")
    assert (done.code, done.out) == (0, "http://127.0.0.1:1/   (stop with Ctrl-C)\n")
    [(found, model, tasks, options)] = shown
    assert found.folder == tmp_path / "uses"
    assert found.fingerprint == model.saved().fingerprint()
    assert tasks == [tmp_path / "run"]
    assert options == {"name": "model", "credit": "", "port": 1234, "open_browser": False}


def test_without_a_folder_the_index_of_the_package_is_shown_and_kept_in_the_cache(stelmo, shown, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "bundled_sentences", lambda: iter([["the", "bank"], ["a", "bank"]]))
    assert stelmo().code == 0
    [(found, _, _, options)] = shown
    assert found.words["bank"] == 2
    assert found.folder.is_relative_to(tmp_path / "cache" / "stelmo")
    assert options["open_browser"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--index", "CORPUS"], "--to DIR is missing"),
        (["--to", "uses"], "--index CORPUS is missing"),
        (["uses", "--index", "CORPUS", "--to", "other"], "show an index or make one"),
        (["--words", "CORPUS"], "--words has no effect here: it concerns the file that --export writes"),
        (["--overwrite"], "--overwrite has no effect here"),
        (["--language", "fr"], "--language has no effect here: it concerns `stelmo index`"),
        (["--export", "f.html", "--port", "0"], "--port has no effect here: --export writes a file"),
        (["--export", "f.html", "--task", "run"], "--task has no effect here"),
        (["--export", "f.html", "--column", "0"], "--column has no effect here"),
        (["--index", "CORPUS", "--to", "uses", "--export", "f.html"], "--export has no effect here: an index is made"),
    ],
)
def test_a_mistake_is_said_in_one_line(arguments, message, stelmo, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = stelmo(*(corpus if argument == "CORPUS" else argument for argument in arguments))
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_folder_that_is_no_index_is_refused(stelmo, shown, tmp_path):
    done = stelmo(tmp_path)
    assert done.code == 2
    assert "no index of word uses" in done.err
    assert not shown


def test_an_index_by_another_model_is_refused(stelmo, corpus, shown, tmp_path, monkeypatch, capsys):
    stelmo("--index", corpus, "--to", tmp_path / "uses")
    other = tiny.folder(tmp_path / "other", config=tiny.WORD_CONFIG)
    done = run(monkeypatch, capsys, "explore", tmp_path / "uses", "--model", other)
    assert done.code == 2
    assert "was made by another model" in done.err
    assert not shown


def test_a_missing_library_is_named_with_the_way_out(stelmo, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    for name in [name for name in sys.modules if name.startswith("stelmo.serve")]:
        monkeypatch.delitem(sys.modules, name)
    done = stelmo(tmp_path)
    assert done.code == 2
    assert "pip install 'stelmo[explore]'" in done.err


def test_an_export_is_a_file_and_no_server(stelmo, corpus, shown, tmp_path):
    stelmo("--index", corpus, "--to", tmp_path / "uses")
    file = tmp_path / "bank.html"
    done = stelmo(tmp_path / "uses", "--export", file, "--words", "bank, river")
    assert (done.code, done.out) == (0, f"{file}: the maps of bank, river; open it in a browser\n")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not shown
    again = stelmo(tmp_path / "uses", "--export", file, "--words", "bank")
    assert again.code == 2
    assert "--overwrite" in again.err
    assert stelmo(tmp_path / "uses", "--export", file, "--words", "bank", "--overwrite").code == 0


def test_an_export_of_an_unknown_word_leaves_no_file(stelmo, corpus, tmp_path):
    stelmo("--index", corpus, "--to", tmp_path / "uses")
    done = stelmo(tmp_path / "uses", "--export", tmp_path / "bank.html", "--words", "bnak")
    assert done.code == 2
    assert "did you mean bank?" in done.err
    assert not (tmp_path / "bank.html").exists()

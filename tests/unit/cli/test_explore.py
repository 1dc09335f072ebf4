"""`stelmo explore`: what a shell sees of making an index, and what the page is given."""

import sys

import pytest
import tiny
from commands import run

from stelmo.explore import bundled, index

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
    page = pytest.importorskip("stelmo.serve.page", reason="the page is an extra; pip install 'stelmo[explore]'")
    calls = []

    def fake(index, model, tasks, *, started, **options):
        started("http://127.0.0.1:1/")
        calls.append((index, model, tasks, options))

    monkeypatch.setattr(page, "run", fake)
    return calls


def test_a_corpus_becomes_an_index_and_the_next_command_is_named(stelmo, corpus, tmp_path):
    done = stelmo("--index", corpus, "--to", tmp_path / "uses")
    assert (done.code, done.out) == (
        0,
        f"{tmp_path / 'uses'}: 9 uses of 6 words; see them with `stelmo explore {tmp_path / 'uses'}`\n",
    )
    assert dict(index.open(tmp_path / "uses").words) == {"bank": 2, "river": 2, "the": 2, "a": 1, "full": 1, "was": 1}


def test_several_files_and_later_ones_go_into_one_index(stelmo, corpus, tmp_path):
    for name in ("b", "c"):
        (tmp_path / f"{name}.tok").write_text(f"another {name} bank\n")
    stelmo("--index", corpus, "--index", tmp_path / "b.tok", "--to", tmp_path / "uses")
    stelmo("--index", tmp_path / "c.tok", "--to", tmp_path / "uses")
    assert index.open(tmp_path / "uses").words["bank"] == 4


def test_words_and_their_number_can_be_chosen(stelmo, corpus, tmp_path):
    (tmp_path / "words").write_text("Bank\n\nriver\n")
    stelmo("--index", corpus, "--to", tmp_path / "uses", "--words", tmp_path / "words", "--per-word", 1)
    assert dict(index.open(tmp_path / "uses").words) == {"bank": 1, "river": 1}


def test_the_page_gets_the_index_the_model_and_the_runs(stelmo, corpus, shown, tmp_path):
    stelmo("--index", corpus, "--to", tmp_path / "uses")
    done = stelmo(tmp_path / "uses", "--port", 1234, "--no-browser", "--task", tmp_path / "run")
    assert (done.code, done.out) == (0, "http://127.0.0.1:1/   (Ctrl-C ends it)\n")
    [(found, model, tasks, options)] = shown
    assert found.folder == tmp_path / "uses"
    assert found.fingerprint == model.saved().fingerprint()
    assert tasks == [tmp_path / "run"]
    assert options == {"name": "model", "port": 1234, "open_browser": False}


def test_without_a_folder_the_index_of_the_package_is_shown_and_kept_in_the_cache(stelmo, shown, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(bundled, "sentences", lambda: iter([["the", "bank"], ["a", "bank"]]))
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
        (["uses", "--index", "CORPUS", "--to", "other"], "either an index is shown, or one is made"),
        (["--index", "no/such.txt", "--to", "uses"], "no/such.txt: no such file"),
        (["--index", "CORPUS", "--to", "no/uses"], "there is no folder"),
        (["--index", "CORPUS", "--to", "uses", "--words", "EMPTY"], "no word; expected one a line"),
        (["--index", "EMPTY", "--to", "uses"], "the corpus has no use of a word"),
        (["--words", "CORPUS"], "--words chooses what to index"),
    ],
)
def test_a_mistake_is_said_in_one_line(arguments, message, stelmo, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.tok").write_text("\n")
    names = {"CORPUS": corpus, "EMPTY": tmp_path / "empty.tok"}
    done = stelmo(*(names.get(argument, argument) for argument in arguments))
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


def test_an_interruption_says_how_to_go_on(stelmo, corpus, tmp_path, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(index, "build", stop)
    done = stelmo("--index", corpus, "--to", tmp_path / "uses")
    assert done.code == 130
    assert "the same command goes on where it stopped" in done.err

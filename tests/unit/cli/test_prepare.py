"""`stelmo prepare`: what a person types and reads."""

import pytest
from commands import run

from stelmo.corpus import folder as shards


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("We sat on the bank.\nStocks fell.\nStocks fell.\nThe end.\n")
    return tmp_path


def test_text_becomes_a_corpus_and_is_reported(text, monkeypatch, capsys):
    done = run(monkeypatch, capsys, "prepare", "a.txt", "--to", "corpus", "--processes", 1, "--heldout", 1)
    assert done.code == 0, done.err
    assert "vocabulary" in done.out
    assert "4; 1 (25.00%) repeat an earlier line" in done.out
    assert "2 times a.txt:2" in done.out
    assert shards.read(text / "corpus").manifest.heldout.sentences == 1


def test_info_says_the_same(text, monkeypatch, capsys):
    made = run(monkeypatch, capsys, "prepare", "a.txt", "--to", "corpus", "--processes", 1)
    assert run(monkeypatch, capsys, "info", "corpus").out == made.out


def test_a_line_as_long_as_a_book_in_the_held_out_part_is_noted(text, monkeypatch, capsys):
    (text / "b.txt").write_text("One. " * 300 + "\n" + "Two. " * 300 + "\n")
    done = run(monkeypatch, capsys, "prepare", "b.txt", "--to", "corpus", "--processes", 1)
    assert "much more text is held out than requested" in done.err


def test_the_same_command_again_does_nothing_and_says_so(text, monkeypatch, capsys):
    command = ("prepare", "a.txt", "--to", "corpus", "--processes", 1)
    first = run(monkeypatch, capsys, *command)
    again = run(monkeypatch, capsys, *command)
    assert again.out == first.out
    assert "nothing to do" in again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.txt", "--to", "corpus"), "missing.txt: No such file"),
        (("a.txt", "--to", "corpus", "--size", 3), "size"),
        (("a.txt", "--to", "corpus", "--from", "pdf"), "format"),
        (("a.txt", "--to", "corpus", "--heldout", 1.5), "whole number"),
        (("a.txt", "--to", "corpus", "--vocabulary", "a.txt", "--size", 9), "given or counted"),
        (("a.txt", "--to", "corpus", "--vocabulary", "a.txt"), "a.txt:3: 'Stocks fell.' occurs twice"),
        (("a.txt", "--to", "a.txt"), "a.txt exists and is not a corpus"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(text, monkeypatch, capsys, arguments, message):
    done = run(monkeypatch, capsys, "prepare", *arguments, "--processes", 1)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_an_interrupt_says_how_to_resume(text, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("stelmo.corpus.prepare.prepare", interrupted)
    done = run(monkeypatch, capsys, "prepare", "a.txt", "--to", "corpus")
    assert done.code == 130
    assert "run the same command again to resume" in done.err

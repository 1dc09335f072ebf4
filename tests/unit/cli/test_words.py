"""`stelmo words`: files for gensim and readers of GloVe, from a vocabulary or a corpus; and the page about them."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import tiny
from commands import run

from stelmo.store import static

DOCS = (Path(__file__).parents[3] / "docs" / "integrations" / "word2vec.md").read_text()


@pytest.fixture
def stelmo(tmp_path, monkeypatch, capsys):
    """The command, in a folder with a model and a corpus."""
    monkeypatch.chdir(tmp_path)
    tiny.folder(tmp_path / "my-model")
    Path("corpus.txt").write_text("The bank of the river . The bank closed .\nA bank .\n" * 5)
    return lambda *arguments, stdin=b"": run(monkeypatch, capsys, "words", *arguments, stdin=stdin)


def test_the_vocabularys_token_layer(stelmo):
    done = stelmo("-m", "my-model", "-o", "words.vec")
    assert (done.code, done.out) == (0, "words.vec: 8 words, 6 dimensions each\n")
    assert static.read("words.vec").width == 6


def test_means_over_a_corpus(stelmo):
    done = stelmo("corpus.txt", "-m", "my-model", "-o", "words.txt", "--min-count", "10", "--layer", "1")
    assert (done.code, done.out) == (0, "words.txt: 3 words, 12 dimensions each; 5 rare words left out\n")
    assert static.read("words.txt").words == ["bank", ".", "The"]


def test_standard_input_and_notes_on_what_is_left_out(stelmo):
    lines = b'["New York", "bank"]\n["a", "river", "river"]\n'
    done = stelmo("-", "--from", "jsonl", "-m", "my-model", "-o", "words.bin", "--max-words", "3", stdin=lines)
    assert done.code == 0, done.err
    assert static.read("words.bin").words == ["bank", "a"]
    assert "1 word that contains white space: left out" in done.err
    assert "2 tokens are left out: their words first occurred when --max-words were already stored" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "words.csv"], "words are written to .vec"),
        (["-o", "words.vec", "--layer", "1"], "--layer requires a corpus"),
        (["-o", "words.vec", "--min-count", "2"], "--min-count requires a corpus"),
        (["corpus.txt", "-o", "words.vec", "--layer", "all"], "layer"),
        (["corpus.txt", "-o", "words.vec", "--layer", "9"], "layer: 9 is not one of"),
        (["corpus.txt", "-o", "words.vec", "--layer=--1"], "layer"),
        (["corpus.txt", "-o", "words.vec", "--min-count", "0"], "min_count"),
        (["corpus.txt", "-o", "words.vec", "--min-count", "99"], "none of 8 words occurs 99 times"),
        (["nowhere.txt", "-o", "words.vec"], "nowhere.txt: no such file"),
    ],
)
def test_a_mistake_is_one_line(stelmo, arguments, message):
    done = stelmo("-m", "my-model", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not Path("words.vec").exists()


def test_the_page_runs(stelmo):
    pytest.importorskip("gensim", reason="gensim is not installed; pip install 'stelmo[baselines]'")
    commands, snippet = (
        re.search(rf"^```{language}\n(.*?)^```$", DOCS, re.DOTALL | re.MULTILINE)[1] for language in ("sh", "python")
    )
    for line in commands.splitlines():
        program, verb, *arguments = shlex.split(line, comments=True)
        assert (program, verb) == ("stelmo", "words")
        assert stelmo(*arguments, "-m", "my-model").code == 0
    names: dict[str, object] = {}
    exec(snippet, names)
    np.testing.assert_array_equal(names["words"]["bank"], names["ours"].of(["bank"])[0])

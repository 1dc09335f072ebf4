"""`stelmo perplexity`: the figures of a model worked out by hand, in every form, and what is refused."""

import gzip
import json
import math
import shutil
from functools import partial

import commands
import pytest
import tiny
import toy_lm

from stelmo.corpus.folder import read_manifest
from stelmo.corpus.prepare import prepare
from stelmo.formats import models
from stelmo.settings import PrepareSettings

TOY = {"<S>": 0.0625, "</S>": 0.125, "<UNK>": 0.1875, "the": 0.5, "bank": 0.125}
TEXT = "the bank\n\nthe quokka bank\n"
# the bank: 0.5, 0.125 and a marker; the quokka bank: 0.5, 0.1875, 0.125 and a marker
FORWARD = [0.5, 0.125, 0.125, 0.5, 0.1875, 0.125, 0.125]
BACKWARD = [0.5, 0.125, 0.0625, 0.5, 0.1875, 0.125, 0.0625]


def perplexity_of(*probabilities):
    return pytest.approx(math.prod(probabilities) ** (-1 / len(probabilities)))


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    models.write(toy_lm.saved(TOY), tmp_path / "model")
    (tmp_path / "text.tok").write_text(TEXT)
    return partial(commands.run, monkeypatch, capsys, "perplexity")


def test_the_totals_are_those_of_the_arithmetic_on_paper(call):
    done = call("model", "text.tok", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["sentences"], found["words"], found["unknown"], found["vocabulary"]) == (2, 5, 1, 5)
    assert found["forward"] == perplexity_of(*FORWARD)
    assert found["backward"] == perplexity_of(*BACKWARD)
    assert found["combined"] == perplexity_of(*FORWARD, *BACKWARD)
    assert found["known_forward"] == perplexity_of(*FORWARD[:4], *FORWARD[5:])
    assert found["known_backward"] == perplexity_of(*BACKWARD[:4], *BACKWARD[5:])
    assert found["known_combined"] == perplexity_of(*FORWARD[:4], *FORWARD[5:], *BACKWARD[:4], *BACKWARD[5:])
    assert (found["model"], found["state"]) == ("model", "warm")


def test_the_table_has_three_figures_with_and_without_unknown_words_and_says_what_was_counted(call):
    out = call("model", "text.tok").out.splitlines()
    figures = {line.rsplit(maxsplit=2)[0]: line.split()[-2:] for line in out[1:4]}
    assert list(figures) == ["forward", "backward", "geometric mean"]
    assert figures["forward"] == [f"{math.prod(FORWARD) ** (-1 / 7):.2f}", "5.04"]
    assert out[4] == (
        "5 words, 2 ends of sentences; outside the vocabulary of 5 words and scored as <UNK>: 1 (20.0%); state warm"
    )


def test_every_file_has_a_row(call, tmp_path):
    (tmp_path / "more.tok").write_text("the\n")
    done = call("model", "text.tok", "more.tok", "--per-file", "-o", "rows.jsonl", "--json")
    assert done.code == 0, done.err
    text, more = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert (text["file"], text["words"], text["forward"]) == ("text.tok", 5, perplexity_of(*FORWARD))
    assert (more["file"], more["words"], more["forward"]) == ("more.tok", 1, perplexity_of(0.5, 0.125))
    assert json.loads(done.out)["forward"] == perplexity_of(*FORWARD, 0.5, 0.125)


def test_every_sentence_has_a_row(call, tmp_path):
    assert call("model", "text.tok", "--per-sentence", "-o", "rows.tsv").code == 0
    head, *rows = (line.split("\t") for line in (tmp_path / "rows.tsv").read_text().splitlines())
    assert head == ["file", "line", "words", "unknown", "forward", "backward", "combined", "text"]
    assert [row[:4] + row[7:] for row in rows] == [
        ["text.tok", "1", "2", "0", "the bank"],
        ["text.tok", "3", "3", "1", "the quokka bank"],
    ]
    assert float(rows[0][4]) == perplexity_of(*FORWARD[:3])
    assert float(rows[1][6]) == perplexity_of(*FORWARD[3:], *BACKWARD[3:])


def test_json_lines_alone_go_to_standard_output(call):
    lines = call("model", "text.tok", "--per-sentence", "-o", "-").out.splitlines()
    assert [json.loads(line)["line"] for line in lines] == [1, 3]


def test_a_table_of_many_sentences_shows_the_first_and_says_so(call, tmp_path):
    (tmp_path / "long.tok").write_text("the [bold] bank\n" * 30)
    done = call("model", "long.tok", "--per-sentence")
    assert done.out.count("the [bold] bank") == 20
    assert "first 20 rows" in done.err


def test_raw_text_standard_input_and_compressed_files_are_read(call, tmp_path):
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(b"the bank\nthe quokka bank\n"))
    for arguments in (["text.txt.gz"], ["-"], [], ["the bank", "the quokka bank"]):
        done = call("model", *arguments, "--json", stdin=b"the bank\nthe quokka bank\n")
        assert json.loads(done.out)["forward"] == perplexity_of(*FORWARD), arguments


def test_the_softmax_and_the_vocabulary_can_be_named(call, tmp_path):
    tiny.folder(tmp_path / "published", "bilm")
    expected = call("published", "the bank", "--json").out
    for name in ("vocab.txt", "softmax_weights.hdf5"):
        (tmp_path / "published" / name).rename(tmp_path / name)
    files = ["--softmax", "softmax_weights.hdf5", "--vocabulary", "vocab.txt"]
    assert call("published", "the bank", "--json", *files).out == expected


def test_the_state_changes_the_figures(call, tmp_path):
    tiny.folder(tmp_path / "random")
    warm, fresh = (
        json.loads(call("random", "the bank", "--json", "--state", state).out) for state in ("warm", "fresh")
    )
    assert warm["forward"] != fresh["forward"]


# Of a corpus


@pytest.fixture
def corpus(tmp_path):
    """Two files; "town" is outside the toy's vocabulary."""
    (tmp_path / "first.tok").write_text("the bank\n" * 40)
    (tmp_path / "second.tok").write_text("the town the bank\n" * 40)
    prepare(
        [tmp_path / "first.tok", tmp_path / "second.tok"],
        tmp_path / "corpus",
        PrepareSettings(format="tokens", heldout=0.5),
    )
    return tmp_path / "corpus"


ONE = ([0.5, 0.125, 0.125], [0.5, 0.125, 0.0625])  # a sentence forward, backward
TWO = ([0.5, 0.1875, 0.5, 0.125, 0.125], [0.5, 0.1875, 0.5, 0.125, 0.0625])


def test_the_held_out_text_of_a_corpus_has_a_row_for_each_file(call, corpus, tmp_path):
    done = call("model", "--data", "corpus", "--json", "-o", "rows.jsonl", "--rows", 3)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["model"], found["corpus"], found["vocabulary"]) == ("model", "corpus", 5)
    first, second = found["files"]
    sizes = [sizes.heldout.sentences for sizes in read_manifest(corpus).by_input]
    assert [row["words"] for row in (first, second)] == [2 * sizes[0], 4 * sizes[1]]
    assert [row["file"] for row in (first, second)] == [str(tmp_path / "first.tok"), str(tmp_path / "second.tok")]
    assert [row["unknown_share"] for row in (first, second)] == [0, 0.25]
    for row, (forward, backward) in ((first, ONE), (second, TWO)):
        assert row["forward"] == perplexity_of(*forward)
        assert row["backward"] == perplexity_of(*backward)
        assert row["combined"] == perplexity_of(*forward, *backward)
    assert found["all"]["forward"] == perplexity_of(*ONE[0] * sizes[0], *TWO[0] * sizes[1])
    assert found["all"]["file"] == "all"
    written = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert written == [first, second, found["all"]]


def test_the_table_of_a_corpus_says_how_many_words_are_unknown(call, corpus):
    done = call("model", "--data", "corpus")
    head, first, second, everything, explained = done.out.splitlines()
    assert head.split()[-5:] == ["unknown", "forward", "backward", "geometric", "mean"]
    assert [line.split()[2] for line in (first, second)] == ["0.0%", "25.0%"]
    assert everything.startswith("all ")
    assert explained == (
        "full softmax over 5 words; unknown: outside that vocabulary, scored as <UNK>; 64 rows side by side, "
        "state carried"
    )


def test_a_limit_holds_for_each_row(call, corpus):
    done = call("model", "--data", "corpus", "--tokens", 10, "--rows", 1, "-o", "-")
    rows = [json.loads(line) for line in done.out.splitlines()]
    whole = [json.loads(line) for line in call("model", "--data", "corpus", "-o", "-").out.splitlines()]
    assert all(5 <= row["predictions"] <= 15 < of["predictions"] for row, of in zip(rows, whole, strict=True))


WRONG_OF_A_CORPUS = {
    "a folder that is not a corpus": (["model", "--data", "model"], "not a finished corpus"),
    "a missing corpus": (["model", "--data", "nowhere"], "nowhere: no such folder"),
    "an older corpus": (["model", "--data", "older"], "older: prepared by an earlier version"),
    "nothing held out": (["model", "--data", "trained"], "trained: no held-out sentences"),
    "no softmax": (["headless", "--data", "corpus"], "no softmax"),
    "no vocabulary": (["wordless", "--data", "corpus"], "no vocabulary"),
    "a text beside it": (["model", "text.tok", "--data", "corpus"], "--data and FILE cannot be combined"),
    "rows of sentences": (["model", "--per-sentence", "--data", "corpus"], "--data and --per-sentence"),
    "a state": (["model", "--state", "warm", "--data", "corpus"], "--data and --state"),
    "a limit without a corpus": (["model", "text.tok", "--tokens", 5], "--tokens requires --data"),
    "rows without a corpus": (["model", "text.tok", "--rows", 5], "--rows requires --data"),
    "8 bits": (["model", "--data", "corpus", "--precision", "int8"], "float32 or float64"),
    "two outputs": (["model", "--data", "corpus", "--json", "-o", "-"], "give one of them"),
    "an unknown ending": (["model", "--data", "corpus", "-o", "rows.doc"], "unknown extension '.doc'"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG_OF_A_CORPUS.values(), ids=WRONG_OF_A_CORPUS)
def test_what_is_wrong_with_a_corpus_is_said_in_one_sentence(arguments, message, call, corpus, tmp_path):
    models.write(tiny.saved(read_softmax=None), tmp_path / "headless")
    models.write(tiny.saved(vocabulary=None), tmp_path / "wordless")
    prepare([tmp_path / "first.tok"], tmp_path / "trained", PrepareSettings(format="tokens", heldout=0))
    shutil.copytree(corpus, tmp_path / "older")
    values = json.loads((corpus / "manifest.json").read_text())
    (tmp_path / "older" / "manifest.json").write_text(json.dumps({**values, "by_input": None}))
    before = sorted(tmp_path.rglob("*"))
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


WRONG = {
    "a missing model": (["nowhere", "text.tok"], "nowhere: no such file"),
    "a missing file": (["model", "missing.txt"], "missing.txt: no such file"),
    "no text": (["model", "empty.tok"], "no word"),
    "no softmax": (["headless", "text.tok"], "no softmax"),
    "no vocabulary": (["wordless", "text.tok"], "no vocabulary"),
    "a state that goes on": (["model", "text.tok", "--state", "carry"], "--state: 'carry'"),
    "rows of two kinds": (["model", "text.tok", "--per-file", "--per-sentence"], "cannot be combined"),
    "an output for no rows": (["model", "text.tok", "-o", "rows.tsv"], "-o rows.tsv"),
    "rows among the totals": (["model", "text.tok", "--per-file", "--json"], "-o FILE"),
    "an unknown ending": (["model", "text.tok", "--per-file", "-o", "rows.doc"], "unknown extension '.doc'"),
    "an output that exists": (["model", "text.tok", "--per-file", "-o", "there.tsv"], "--overwrite"),
    "a broken line far down": (["model", "broken.tok", "--per-sentence", "-o", "rows.tsv"], "broken.tok:3"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_sentence_and_nothing_is_left(arguments, message, call, tmp_path):
    (tmp_path / "empty.tok").write_text("\n\n")
    (tmp_path / "broken.tok").write_bytes(b"the\nbank\n\xff\n")
    (tmp_path / "there.tsv").write_text("mine")
    models.write(tiny.saved(read_softmax=None), tmp_path / "headless")
    models.write(tiny.saved(vocabulary=None), tmp_path / "wordless")
    before = sorted(tmp_path.rglob("*"))
    done = call(*arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before

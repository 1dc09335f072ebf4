"""`stelmo guess`: the words of the library's own guesses, as a table and as JSON, and what is refused."""

import json
from functools import partial

import commands
import pytest
import tiny

from stelmo.formats import models
from stelmo.lm import probabilities as lm


@pytest.fixture
def call(monkeypatch, capsys, tmp_path, model):
    monkeypatch.chdir(tmp_path)
    models.write(tiny.saved(read_softmax=None), tmp_path / "headless")
    return partial(commands.run, monkeypatch, capsys, "guess")


def expected(tokens, position, k):
    model = tiny.model()
    return lm.guesses(model, model.softmax, tokens, position, k)


def test_the_table_has_the_best_words_of_both_and_of_each_direction(call):
    done = call("the ___ a river.", "-m", "model", "-k", 3)
    assert done.code == 0, done.err
    title, head, *rows = done.out.strip().splitlines()
    assert title.strip() == "the ___ a river ."
    assert head.split() == ["both", "forward", "backward"]
    found = expected(["the", "___", "a", "river", "."], 1, 3)
    for row, best in zip(rows, zip(*found, strict=True), strict=True):
        assert row.split() == [cell for guess in best for cell in (guess.word, f"{guess.probability:.1%}")]


def test_json_has_a_line_for_every_gap(call):
    done = call("the ___ .", "a bank ___ the ___", "a river", "-m", "model", "-k", 2, "--json", "--from", "tokens")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [(line["tokens"], line["position"]) for line in lines] == [
        (["the", "___", "."], 1),
        (["a", "bank", "___", "the", "___"], 2),
        (["a", "bank", "___", "the", "___"], 4),
    ]
    found = expected(["the", "___", "."], 1, 2)
    assert [guess["word"] for guess in lines[0]["both"]] == [guess.word for guess in found.both]
    assert lines[0]["forward"][0] == pytest.approx(found.forward[0]._asdict())
    assert {"word", "probability", "forward", "backward"} == set(lines[0]["both"][0])


def test_a_word_in_square_brackets_is_shown_as_it_is(call):
    assert "[bold]" in call("a [bold] ___", "-m", "model", "--from", "tokens").out


WRONG = {
    "no gap": (["the bank"], "no gap; write ___"),
    "a gap in a word": (["un___able"], "whole word"),
    "no softmax": (["the ___", "-m", "headless"], "no softmax"),
    "a missing model": (["the ___", "-m", "nowhere"], "nowhere: no such file"),
    "no words wanted": (["the ___", "-k", "0"], "-k"),
    "an unknown format": (["the ___", "--from", "conllu"], "--from"),
    "a state that goes on": (["the ___", "--state", "carry"], "--state"),
    "nothing": ([], "TEXT"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_and_the_exit_code_is_2(arguments, message, call):
    done = call(*arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err

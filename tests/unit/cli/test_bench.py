"""`stelmo bench`: a table, a picture, and refusals before any work."""

import json
from functools import partial

import pytest
import tiny
from commands import run

from stelmo import benchmark as speed


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(speed, "SIZES", {"small": (8, 4, 1)})
    monkeypatch.setattr(speed, "SENTENCES", {"small": 10})
    monkeypatch.setattr(speed, "FILTERS", ((1, 2), (2, 3)))
    monkeypatch.setattr(speed, "ROWS", (1, 2))


@pytest.mark.pictures
def test_a_table_and_a_picture_are_written(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "rows.svg"
    done = run(monkeypatch, capsys, "bench", "--rounds", "1", "--picture", str(picture))
    assert done.code == 0, done.err
    assert "| small |" in done.out
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["huge"], "'huge' is neither a size (small) nor a model file or folder"),
        (["--picture", "rows.gif"], "a picture ends in .svg or .png"),
        (["--picture", "nowhere/rows.svg"], "there is no folder nowhere"),
    ],
)
def test_mistakes_are_refused_before_any_work(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(speed, "measure", None)
    done = run(monkeypatch, capsys, "bench", *arguments)
    assert done.code == 2
    assert message in done.err


def test_models_are_compared_with_each_other(tmp_path, monkeypatch, capsys):
    first, second = tiny.folder(tmp_path / "first"), tiny.folder(tmp_path / "second", config=tiny.WORD_CONFIG)
    monkeypatch.setattr(speed, "compare", partial(speed.compare, sentences=3))
    arguments = ["bench", first, second, "--rounds", "1", "--clock", "processor"]
    done = run(monkeypatch, capsys, *arguments)
    assert done.code == 0, done.err
    assert f"| {second} |" in done.out
    assert done.out.count("(1.00×)") >= 3  # of the first, relative to itself
    rows = [json.loads(line) for line in run(monkeypatch, capsys, *arguments, "--json").out.splitlines()]
    assert [row["model"] for row in rows] == [str(first), str(second)]
    assert all(row[way] > 0 for row in rows for way in ("no word known", "every word known", "one sentence"))
    assert rows[0]["parameters"] == sum(tensor.numel() for tensor in tiny.model().bilm.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clock", "sun"], "--clock: 'sun' is not one of wall, processor"),
        (["--json"], "only to compare models"),
        (["small", "--clock", "processor"], "only to compare models"),
        ([".", "--picture", "rows.svg"], "only for sizes"),
        (["small", "."], "'.' is not a size (small); sizes and models cannot be combined"),
    ],
)
def test_options_of_the_other_kind_are_refused(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(speed, "measure", None)
    done = run(monkeypatch, capsys, "bench", *arguments)
    assert done.code == 2
    assert message in done.err

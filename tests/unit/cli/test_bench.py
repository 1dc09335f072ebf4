"""`stelmo bench`: a table, a picture, and refusals before any work."""

import pytest
from commands import run

from stelmo import benchmark as speed


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(speed, "SIZES", {"small": (8, 4, 1)})
    monkeypatch.setattr(speed, "SENTENCES", {"small": 10})
    monkeypatch.setattr(speed, "FILTERS", ((1, 2), (2, 3)))
    monkeypatch.setattr(speed, "ROWS", (1, 2))


def test_a_table_and_a_picture_are_written(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "rows.svg"
    done = run(monkeypatch, capsys, "bench", "--rounds", "1", "--picture", str(picture))
    assert done.code == 0, done.err
    assert "| small |" in done.out
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["huge"], "size: 'huge' is not one of small"),
        (["--picture", "rows.gif"], "a picture ends in .svg or .png"),
        (["--picture", "nowhere/rows.svg"], "there is no folder nowhere"),
    ],
)
def test_mistakes_are_refused_before_any_work(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(speed, "measure", None)
    done = run(monkeypatch, capsys, "bench", *arguments)
    assert done.code == 2
    assert message in done.err

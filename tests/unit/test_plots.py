"""Pictures: they are drawn, the same numbers give the same bytes, and other endings are refused."""

import pytest

from stelmo import plots as pictures
from stelmo.errors import OutputError

pytestmark = pytest.mark.pictures
SERIES = {"forward": [(1, 10.0), (2, 5.0)], "backward": [(1, 12.0), (2, 6.0)]}


def draw(path, **options):
    pictures.lines(path, SERIES, x="tokens", y="perplexity", title="a run", **options)
    return path.read_bytes()


def test_lines_have_their_names(tmp_path):
    content = draw(tmp_path / "a.svg", log_y=True)
    assert content.startswith(b"<?xml")
    for word in (b"tokens", b"perplexity", b"a run", b"forward", b"backward"):
        assert word in content


def test_on_a_logarithmic_axis_stands_what_was_measured(tmp_path):
    pictures.lines(tmp_path / "a.svg", {"a": [(2, 1.0), (50, 2.0)]}, x="%", y="score", title="", log_x=True)
    content = (tmp_path / "a.svg").read_text()
    assert "<!-- 2 -->" in content
    assert "<!-- 50 -->" in content


def test_large_numbers_are_written_out_and_have_no_powers_of_ten(tmp_path):
    points = {"a": [(0, 900.0), (2_000_000, 150.0)]}
    pictures.lines(tmp_path / "a.svg", points, x="tokens", y="perplexity", title="", log_y=True)
    content = (tmp_path / "a.svg").read_text()
    assert "<!-- 2 M -->" in content
    assert "<!-- 200 -->" in content
    assert "mathdefault" not in content  # how 2 × 10² would be drawn


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_same_numbers_give_the_same_bytes(ending, tmp_path):
    assert draw(tmp_path / f"a.{ending}") == draw(tmp_path / f"b.{ending}")


def test_panels_have_their_titles_and_one_legend(tmp_path):
    found = {"first panel": {"a": [(0, 1), (1, 2)]}, "second panel": {"a": [(0, 1)], "b": [(0, 2), (1, 3)]}}
    pictures.panels(tmp_path / "p.svg", found, x="layer", y="percent", title="all of it")
    text = (tmp_path / "p.svg").read_text()
    assert [text.count(f"<!-- {name} -->") for name in ("first panel", "second panel", "all of it", "percent")] == [
        1
    ] * 4
    assert (text.count("<!-- a -->"), text.count("<!-- b -->")) == (1, 1)  # a series of the second panel alone, too


def test_bars_have_their_names_and_values(tmp_path):
    pictures.bars(tmp_path / "b.svg", {"one": 1.5, "two": 20_000}, x="tokens a second", title="speed")
    content = (tmp_path / "b.svg").read_text()
    for word in ("one", "two", "1.5", "2e+04", "speed"):
        assert word in content


def test_shades_carry_their_numbers(tmp_path):
    rows = {"SRL, input": [0.2, 0.5, 0.3], "NER, input": [0.29, 0.36, 0.35]}
    pictures.heat(tmp_path / "h.svg", rows, x="layer", title="weights")
    content = (tmp_path / "h.svg").read_text()
    for word in ("SRL, input", "NER, input", "0.50", "0.36", "layer", "weights"):
        assert word in content


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(OutputError, match=r"a picture ends in \.svg or \.png"):
        draw(tmp_path / "a.gif")


def test_intervals_have_their_names_and_both_kinds_of_points(tmp_path):
    values, marks = {"first": (2.0, 1.0, 4.0), "second": (0.5, -0.5, 1.0)}, {"first": 3.0, "second": 0.7}
    pictures.intervals(tmp_path / "i.svg", values, marks, names=("here", "there"), x="points", title="gain")
    content = (tmp_path / "i.svg").read_text()
    for word in ("first", "second", "here", "there", "points", "gain"):
        assert f"<!-- {word} -->" in content

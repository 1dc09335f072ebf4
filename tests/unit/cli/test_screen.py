"""The progress bar of long-running work: one line on a terminal of 80 columns."""

import io

import pytest
from rich.console import Console

from stelmo.cli import screen


@pytest.mark.parametrize("label", ["indexing", "indexing bundled text", "embedding"])
def test_a_progress_bar_is_one_line_at_80_columns(label, monkeypatch):
    written = io.StringIO()
    terminal = Console(file=written, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(screen, "Console", lambda stderr: terminal)
    with screen.progress(label, lambda: 0.42) as advance:
        advance(12_345_678)
    drawn = [line for line in written.getvalue().replace("\r", "\n").splitlines() if "12,345,678 tokens" in line]
    assert drawn
    assert all(label in line and "left" in line for line in drawn)

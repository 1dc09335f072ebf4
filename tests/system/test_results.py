"""docs/results.md, and the weights that the explorer shows, against the records in docs/results."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_results_page_says_what_the_records_say():
    writer = runpy.run_path(str(ROOT / "docs" / "write_results.py"))
    document = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    with writer["as_report"]() as setup:
        assert writer["page"](setup, document) == document, "run: python docs/write_results.py"
        assert writer["learned"](setup) == writer["LEARNED"].read_text(encoding="utf-8")

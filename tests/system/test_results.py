"""docs/results.md, and the weights that the explorer shows, against the records in docs/results."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_records_of_finished_seeds_are_copied_with_their_times_and_relative_paths(tmp_path):
    copy_records = runpy.run_path(str(ROOT / "docs" / "write_results.py"))["copy_records"]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").symlink_to("elsewhere", target_is_directory=True)
    runs, logs = tmp_path / "report" / "runs", tmp_path / "report" / "logs"
    cell, data = "srl-elmo-input-lambda-0.001", json.dumps({"data": str(tmp_path / "elsewhere" / "srl")})
    for seed, files in {"seed-0": ("task.json", "result.json"), "seed-1": ("task.json",)}.items():
        (runs / cell / seed).mkdir(parents=True)
        for name in files:
            (runs / cell / seed / name).write_text(data)
    logs.mkdir()
    for name in (cell, "srl-elmo-none"):
        (logs / f"{name}.time.json").write_text("{}")
    copy_records(tmp_path / "report", tmp_path / "records")
    found = {path.relative_to(tmp_path / "records").as_posix() for path in (tmp_path / "records").rglob("*.json")}
    assert found == {f"runs/{cell}/seed-0/{name}" for name in ("task.json", "result.json")} | {f"logs/{cell}.time.json"}
    noted = json.loads((tmp_path / "records" / "runs" / cell / "seed-0" / "task.json").read_text())
    assert noted == {"data": "data/srl"}


@pytest.mark.long
def test_the_results_page_says_what_the_records_say():
    writer = runpy.run_path(str(ROOT / "docs" / "write_results.py"))
    document = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    with writer["as_report"]() as setup:
        assert writer["page"](setup, document) == document, "run: python docs/write_results.py"
        assert writer["learned"](setup) == writer["LEARNED"].read_text(encoding="utf-8")

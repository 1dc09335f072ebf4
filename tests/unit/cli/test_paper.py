"""`stelmo paper`: cells run, the report is written, and one of another model is refused."""

import pytest
import tiny
from commands import run
from unit.tasks import samples

pytestmark = pytest.mark.long


@pytest.fixture
def options(tmp_path):
    folder = tmp_path / "data" / "sst5"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text(samples.SST5)
    model = tiny.folder(tmp_path / "model")
    return ["paper", "--data", folder.parent, "--to", tmp_path / "report", "--parts", "table1", "--tasks", "sst5",
            "--seeds", 1, "--jobs", 2, "--model", model]  # fmt: skip


def test_the_report_is_run_once(options, tmp_path, monkeypatch, capsys):
    done = run(monkeypatch, capsys, *options)
    assert done.code == 0, done.err
    assert "2 of 2: sst5-" in done.err
    text = (tmp_path / "report" / "report.md").read_text()
    assert "not run" not in text
    assert "51.4 → 54.7" in text
    again = run(monkeypatch, capsys, *options)
    assert "2 cells, 2 of them already finished" in again.err
    assert (tmp_path / "report" / "report.md").read_text() == text


def test_a_report_of_another_model_is_refused(options, tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, capsys, *options, "--only-report").code == 0
    other = tiny.folder(tmp_path / "other", config=tiny.WORD_CONFIG)
    refused = run(monkeypatch, capsys, *options[:-1], other, "--only-report")
    assert refused.code == 2
    assert "bilm is " in refused.err
    assert "choose another folder" in refused.err
    assert refused.err.count("\n") == 1


def test_a_file_in_the_report_s_place_is_refused(options, tmp_path, monkeypatch, capsys):
    (tmp_path / "report").write_text("mine")
    refused = run(monkeypatch, capsys, *options, "--only-report")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert (tmp_path / "report").read_text() == "mine"


@pytest.mark.parametrize("wrong", ["sst5", "sst5=", "sst5=0", "sst5=two", "poetry=2", "=2"])
def test_seeds_of_a_task_are_a_number_above_0(wrong, options, tmp_path, monkeypatch, capsys):
    refused = run(monkeypatch, capsys, *options, "--only-report", "--seeds-of", wrong)
    assert refused.code == 2
    assert wrong.partition("=")[0] in refused.err
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "report").exists()


def test_seeds_of_single_tasks_replace_those_of_all(options, tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, capsys, *options, "--only-report", "--seeds-of", "squad=2,sst5=7").code == 0
    assert "--seeds 7" in (tmp_path / "report" / "report.md").read_text()


def test_data_that_are_not_there_are_refused(options, tmp_path, monkeypatch, capsys):
    refused = run(monkeypatch, capsys, *options, "--data", tmp_path / "nowhere")
    assert refused.code == 2
    assert "nowhere: no such folder; give the folder that holds a folder for each task" in refused.err
    assert not (tmp_path / "report").exists()


def test_a_cell_that_failed_is_named_after_the_report_is_written(options, tmp_path, monkeypatch, capsys):
    (tmp_path / "data" / "sst5" / "dev.txt").write_text("(7 wrong)\n")
    failed = run(monkeypatch, capsys, *options)
    assert failed.code == 2
    assert "not run" in (tmp_path / "report" / "report.md").read_text()
    message = failed.err.splitlines()[-1]
    assert "2 of 2 cells failed, the first is sst5-elmo-" in message
    log = next((tmp_path / "report" / "logs").glob("sst5-elmo-*.log"))
    assert "dev.txt:1: the label '7'" in log.read_text()

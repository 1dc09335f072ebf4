"""The paper's cells and the report on them: run once, taken up again, honest about what was not run."""

import base64
import json
import os
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest
import tiny
from commands import run as run_command
from unit.tasks import more_samples, samples

from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.paper import cells, document, report
from stelmo.paper import run as runs
from stelmo.paper.cells import Cell, Setup
from stelmo.paper.document import Command, Commands, Heading, Link, Picture, Table, Text
from stelmo.tasks.experiment import Results
from stelmo.tasks.network import TASKS


@pytest.fixture
def setup(tmp_path):
    """Data of two tasks, in a folder of their own and in one of the task's name."""
    for folder in ("sst5", "ner/made_up"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (tmp_path / "data" / "sst5" / f"{split}.txt").write_text(samples.SST5)
        (tmp_path / "data" / "ner" / "made_up" / f"{split}.conll").write_text(samples.NER_COLUMNS)
    (tmp_path / "report").mkdir()
    return Setup(
        tmp_path / "data",
        tmp_path / "report",
        tasks=("sst5", "ner"),
        ablated=("sst5",),
        curves=("sst5",),
        parts=("table1", "table2", "table3", "figure1", "figure2"),
    )


def finish(setup, cell, dev, test, mixes=None):
    """As if the cell had run."""
    folder = cells.run_of(setup, cell.name)
    folder.mkdir(parents=True, exist_ok=True)
    found = Results(
        task=cell.chain, metric="accuracy", seeds=range(len(dev)), dev=dev, test=test, epochs=[1] * len(dev),
        examples={"train": 30, "dev": 3, "test": 3}, figures={}, mixes=mixes or {},
    )  # fmt: skip
    (folder / "results.json").write_text(found.model_dump_json())


def text_of(setup):
    return report.write(setup).read_text()


def row(text, *starts):
    (line,) = [line for line in text.splitlines() if line.startswith("| " + " | ".join(starts) + " ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_cells_that_tables_share_are_run_once(setup):
    names = [cell.name for cell in cells.cells(setup)]
    assert len(names) == len(set(names))
    assert "sst5-elmo-none" in names
    assert "sst5-elmo-both-lambda-0.001" in names  # of Table 1, Table 2, Table 3 and Figure 1 alike
    assert sum(name.startswith("ner") for name in names) == 2


@pytest.mark.parametrize("parts", [("table2", "table1"), ("table3", "table1"), ("table1", "table3")])
def test_a_cell_of_several_parts_has_the_most_seeds_in_whatever_order(parts, setup):
    """ELMo as in Table 1 is also in Tables 2 and 3, which need fewer seeds."""
    (cell,) = [cell for cell in cells.cells(setup._replace(parts=parts)) if cell == cells.with_elmo(setup, "sst5")]
    assert cell.seeds == 3
    assert "--seeds 3" in runs.command_line(cell)


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("figure2", {"ner-elmo-input-lambda-0.1"}),
        (
            "table7",
            {
                "ner-elmo-none",
                "ner-elmo-input-lambda-0.1",
                "corpus-ner",
                "tuned-ner",
                "ner-elmo-input-lambda-0.1-tuned",
            },
        ),
    ],
)
def test_a_part_runs_what_it_reports_and_nothing_else(part, names, setup):
    assert {cell.name for cell in cells.cells(setup._replace(parts=(part,), tasks=("ner",)))} == names


def test_vectors_that_are_not_a_file_concern_the_tasks_alone(setup):
    chosen = setup._replace(vectors="trained", parts=("table1", "table4", "table5"))
    found = {cell.name: cell.command for cell in cells.cells(chosen)}
    assert "trained" in found["ner-elmo-none"]
    assert "--vectors" not in found["neighbours"]
    assert "--vectors" not in found["probe-wsd"]
    assert "--vectors" in cells.neighbours(setup._replace(vectors="glove.txt")).command


def test_a_model_has_its_vocabulary_in_its_folder_even_if_its_run_is_named(setup, tmp_path):
    run = tmp_path / "pretrained"
    (run / "model").mkdir(parents=True)
    (run / "model" / "weights.hdf5").touch()
    for name, model in (("a", run), ("b", run / "model"), ("c", run / "model" / "weights.hdf5")):
        (run / "run.json").touch()
        prepare, _ = cells.tuning(setup._replace(model=str(model), to=tmp_path / name), "ner")
        assert prepare.command[-2:] == ("--vocabulary", str(run / "model" / "vocab.txt"))


def test_a_cell_is_a_command_that_can_be_typed(setup):
    cell = cells.with_elmo(setup, "ner", 0.1)
    typed = runs.command_line(cell)
    assert typed.startswith("stelmo task ner --data ")
    assert "--fraction 0.1" in typed
    assert "--lambda 0.1" in typed
    assert str(setup.data / "ner" / "made_up") in typed


def test_every_task_of_the_paper_has_published_figures():
    assert set(report.TABLE_1) == set(TASKS) == set(report.TITLES)
    assert set(report.PARTS) == set(cells.PARTS)


def test_what_was_not_run_says_so(setup):
    text = text_of(setup)
    assert row(text, "SST-5", "not run", "not run", "–")[1:5] == ["not run", "not run", "–", "–"]
    assert "| SST-5 | not run | not run | not run |" in text  # Table 3
    assert "figure2.svg" not in text


def test_gains_are_absolute_and_relative_to_the_error_left(setup):
    finish(setup, cells.baseline(setup, "sst5"), [49.0, 50.0, 51.0], [39.0, 40.0, 41.0])
    finish(setup, cells.with_elmo(setup, "sst5"), [55.0, 55.0, 55.0], [46.0, 46.0, 46.0])
    found = row(text_of(setup), "SST-5", "40.0 ± 1.0", "46.0 ± 0.0")
    # (46 − 40) / (100 − 40) = 10 %
    assert found[3:7] == ["+6.0", "–", "–", "+10.0 %"]
    assert found[7] == "50.0 ± 1.0 → 55.0 ± 0.0"
    assert found[8] == "51.4 → 54.7 (+3.3 / +6.8 %)"
    assert found[9:] == ["both", "accuracy", "sst5", "30", "3"]


def test_a_baseline_without_errors_leaves_nothing_to_remove(setup):
    finish(setup, cells.baseline(setup, "sst5"), [99.0], [100.0])
    finish(setup, cells.with_elmo(setup, "sst5"), [99.0], [98.0])
    assert row(text_of(setup), "SST-5", "100.0", "98.0")[3:7] == ["-2.0", "–", "–", "–"]


def count(setup, cell, right, of):
    """As if a cell had predicted so many test examples right, with each seed."""
    for seed, number in enumerate(right):
        folder = cells.run_of(setup, cell.name) / f"seed-{seed}"
        folder.mkdir(parents=True)
        np.savez(folder / "counts.npz", test=np.array([(float(place < number), 1.0) for place in range(of)]))


@pytest.mark.pictures
def test_a_gain_says_how_sure_it_is(setup):
    pair = cells.baseline(setup, "sst5"), cells.with_elmo(setup, "sst5")
    for cell, right in zip(pair, ([80, 82], [110, 112]), strict=True):
        finish(setup, cell, [50.0, 50.0], [number / 2 for number in right])
        count(setup, cell, right, 200)
    found = row(text_of(setup), "SST-5", "40.5 ± 0.7", "55.5 ± 0.7")
    low, high = map(float, found[4].split(" to "))
    assert found[3] == "+15.0"
    assert 5 < low < 15 < high < 25
    assert found[5] == "**< 0.001**"
    # (55.5 − 40.5) / (100 − 40.5) = 25 %, the paper's is 6.8 %
    text = (setup.to / "report.md").read_text()
    assert "Significant gains (p < 0.05): 1 of 1 (SST-5)." in text
    assert "at least as large as the paper's: 1 of 1 (SST-5)." in text
    assert "<!-- Gain by ELMo -->" in (setup.to / "table1.svg").read_text()


@pytest.mark.pictures
def test_a_sure_loss_is_not_a_significant_gain(setup):
    pair = cells.baseline(setup, "sst5"), cells.with_elmo(setup, "sst5")
    for cell, right in zip(pair, ([110, 112], [80, 82]), strict=True):
        finish(setup, cell, [50.0, 50.0], [number / 2 for number in right])
        count(setup, cell, right, 200)
    text = text_of(setup)
    assert row(text, "SST-5", "55.5 ± 0.7")[5] == "**< 0.001**"
    assert "Significant gains (p < 0.05): 0 of 1." in text


@pytest.mark.pictures
def test_a_small_gain_is_neither_sure_nor_as_large_as_the_paper_s(setup):
    pair = cells.baseline(setup, "sst5"), cells.with_elmo(setup, "sst5")
    for cell, right in zip(pair, ([80, 82], [81, 82]), strict=True):
        finish(setup, cell, [50.0, 50.0], [number / 2 for number in right])
        count(setup, cell, right, 200)
    text = text_of(setup)
    assert "Significant gains (p < 0.05): 0 of 1." in text
    assert "at least as large as the paper's: 0 of 1." in text


def test_the_tasks_of_a_part_are_among_the_chosen_ones(setup):
    chosen = setup._replace(tasks=("ner",), parts=("table2", "table3", "figure1", "controls"), controls=("ner", "sst5"))
    assert {cell.chain for cell in cells.cells(chosen)} == {"ner"}
    assert "SST-5" not in text_of(chosen)


def test_controls_differ_from_elmo_in_one_thing(setup):
    found = cells.controls(setup._replace(transformer="folders/MiniLM", ablation_seeds=1), "sst5")
    assert list(found) == [
        "static vectors alone", "ELMo", "its last layer alone", "ELMo, fine-tuned", "token vectors of MiniLM"
    ]  # fmt: skip
    assert len({cell.name for cell in found.values()}) == 5
    typed = {name: runs.command_line(cell) for name, cell in found.items()}
    last = cells.table_2(setup._replace(ablation_seeds=1), "sst5")[0]
    assert found["its last layer alone"] == last  # not run twice
    assert "--finetune" in typed["ELMo, fine-tuned"]
    assert typed["ELMo, fine-tuned"].count("--seeds 1") == 1
    assert "--transformer folders/MiniLM" in typed["token vectors of MiniLM"]
    assert "layers/sst5-transformer-MiniLM" in typed["token vectors of MiniLM"]  # layers of another model
    other = cells.controls(setup._replace(transformer="folders/mpnet"), "sst5")["token vectors of mpnet"]
    assert other.name not in {cell.name for cell in found.values()}  # is not taken for a finished cell of MiniLM


def test_table_7_scores_the_task_with_the_tuned_bilm(setup):
    chain = [cell for cell in cells.cells(setup._replace(parts=("table7",))) if cell.chain == "tuning-ner"]
    assert [cell.name for cell in chain] == ["corpus-ner", "tuned-ner", "ner-elmo-input-lambda-0.1-tuned"]
    assert str(cells.run_of(setup, "tuned-ner") / "model") in chain[-1].command
    assert chain[-1].seeds == cells.baseline(setup, "ner").seeds == 3
    finish(setup, chain[-1], [60.0], [61.0])
    assert row(text_of(setup._replace(parts=("table7",))), "NER")[5:] == ["not run", "61.0", "–", "–", "–", "–"]
    finish(setup, cells.baseline(setup, "ner"), [50.0], [48.0])
    found = row(text_of(setup._replace(parts=("table7",))), "NER")
    # over the network without ELMo: (61 − 48) / (100 − 48) = 25 %
    assert found[5:] == ["not run", "61.0", "+13.0", "–", "–", "+25.0 %"]


def test_ablations_have_at_most_their_number_of_seeds(setup):
    assert cells.with_elmo(setup, "sst5").seeds == 3
    assert cells.with_elmo(setup._replace(seeds_of=(("sst5", 10),)), "sst5").seeds == 10
    assert cells.with_elmo(setup._replace(seeds_of=(("sst5", 10),)), "ner").seeds == 3
    assert {cell.seeds for cell in cells.table_2(setup, "sst5")} == {2}
    assert {cell.seeds for cell in cells.figure_1(setup, "sst5")[0.01]} == {2}
    found = {cell.name: cell.seeds for cell in cells.cells(setup)}
    assert found["sst5-elmo-both-lambda-0.001"] == 3  # of Table 1 as well


@pytest.mark.parametrize(("options", "seeds"), [((), 2), (("--seeds", 1), 1), (("--seeds-of", "squad=5"), 5)])
def test_squad_has_two_seeds_unless_fewer_are_asked_for(options, seeds, setup, tmp_path, monkeypatch, capsys):
    (setup.data / "squad").mkdir()
    for split in ("train", "dev"):
        (setup.data / "squad" / f"{split}-v1.1.json").write_text(more_samples.SQUAD)
    arguments = ["--data", setup.data, "--to", setup.to, "--model", tiny.folder(tmp_path / "model"), "--only-report"]
    done = run_command(monkeypatch, capsys, "paper", *arguments, "--parts", "table1", "--tasks", "squad", *options)
    assert done.code == 0, done.err
    assert (setup.to / "report.md").read_text().count(f"--seeds {seeds} ") == 2


def test_on_a_share_of_the_data_evaluations_are_closer_and_the_rate_falls_sooner(setup):
    (setup.data / "srl").mkdir()
    for split in ("train", "dev", "test"):
        (setup.data / "srl" / f"{split}.jsonl").write_text(samples.SRL_JSON)
    setup = setup._replace(size="workstation")
    whole, hundredth = cells.baseline(setup, "srl"), cells.baseline(setup, "srl", 0.01)
    assert (whole.steps, hundredth.steps) == (12_000, 1_200)
    assert "steps=" not in runs.command_line(whole)
    assert "--set steps=1200 --set evaluate_every=60" in runs.command_line(hundredth)
    # Without a schedule that must know its end, patience decides when a run ends.
    command = runs.command_line(cells.baseline(setup, "sst5", 0.01))
    assert "--set evaluate_every=40" in command
    assert "steps=" not in command
    assert "--set" not in runs.command_line(cells.baseline(setup._replace(size="cpu"), "sst5", 0.01))


@pytest.mark.parametrize("task", list(TASKS))
def test_the_published_gains_are_the_paper_s_own(task):
    """What the paper prints as relative reduction, from its own two columns."""
    printed = {"squad": 24.9, "snli": 5.8, "srl": 17.2, "coref": 9.8, "ner": 21.0, "sst5": 6.8}
    pair = report.TABLE_1[task]
    assert float(report.gain(*pair)[1].rstrip(" %")) == pytest.approx(printed[task], abs=0.15)


@pytest.mark.pictures
def test_learned_layers_are_drawn(setup):
    mixes = {"input": {"weights": [0.2, 0.5, 0.3], "gamma": 1.1}, "output": {"weights": [0.1, 0.3, 0.6], "gamma": 0.9}}
    finish(setup, cells.with_elmo(setup, "sst5"), [50.0], [50.0], mixes)
    text = text_of(setup)
    assert row(text, "SST-5, input")[1:] == ["0.20", "0.50", "0.30", "1.10"]
    assert (setup.to / "figure2.svg").read_text().startswith("<?xml")


def test_a_share_with_elmo_is_worth_so_much_data_to_the_baseline(setup):
    scores = {0.01: (10.0, 15.0), 0.03: (20.0, 30.0), 0.1: (30.0, 41.0), 0.3: (35.0, 45.0), 1.0: (40.0, 9.0)}
    for share, (before, after) in cells.figure_1(setup, "sst5").items():
        finish(setup, before, [0.0], [scores[share][0]])
        finish(setup, after, [0.0], [scores[share][1]])
    text = text_of(setup)
    # halfway from 1 to 3 % on a logarithmic axis; then a point of the baseline itself
    assert row(text, "1%", "10.0", "15.0")[3] == "1.73%"
    assert row(text, "3%", "20.0", "30.0")[3] == "10%"
    assert row(text, "10%", "30.0", "41.0")[3] == "> 100%"
    assert row(text, "100%", "40.0", "9.0")[3] == "< 1%"


def test_a_score_that_the_baseline_has_twice_needs_the_smaller_share():
    assert report.equal_share(20.0, {0.01: 10.0, 0.1: 30.0, 0.3: 15.0, 1.0: 40.0}) == "3.16%"
    assert report.equal_share(20.0, {0.01: 20.0, 0.1: 20.0}) == "1%"
    assert report.equal_share(20.0, {1.0: 20.0}) == "–"


@pytest.mark.pictures
def test_samples_are_drawn_where_both_lines_have_points(setup):
    for share, (before, after) in cells.figure_1(setup, "sst5").items():
        finish(setup, before, [40 * share], [40 * share])
        finish(setup, after, [50 * share], [50 * share])
    assert "figure1-sst5-data.svg" in text_of(setup)
    assert (setup.to / "figure1-sst5-data.svg").is_file()


def test_a_probe_s_rows_stand_beside_the_published_ones(setup):
    (setup.data / "wsd").mkdir()
    (setup.to / "runs").mkdir()
    rows = [
        {"probe": "wsd", "method": "first sense", "vectors": "", "F1": 65.19},
        {"probe": "wsd", "method": "sense averages", "vectors": "layer 1", "F1": 66.0},
    ]
    (setup.to / "runs" / "probe-wsd.json").write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    text = text_of(setup._replace(parts=("table5",)))
    assert row(text, "sense averages", "layer 1")[2] == "66.0"
    assert row(text, "biLM, layer 2")[1] == "69.0"


def cell(name, *command, chain="one", printed=True):
    return Cell(name, command, f"{name}.txt", chain, printed)


@pytest.mark.long
def test_cells_are_run_once_and_what_fails_is_told(tmp_path):
    told = []
    good, bad = cell("version", "--version"), cell("wrong", "embed", "--model", str(tmp_path / "absent"), "Hi .")
    first = runs.run([good, bad], tmp_path, 2, told.append)
    assert (tmp_path / "runs" / "version.txt").read_text().startswith("stelmo ")
    assert {entry.cell.name for entry in told} == {"version", "wrong"}
    (failed,) = [entry for entry in first if entry.failure]
    assert "absent" in failed.failure
    assert not (tmp_path / "runs" / "wrong.txt").exists()
    assert runs.spent(good, tmp_path).attempts == 1
    assert 0 < runs.spent(good, tmp_path).processor <= 2 * runs.spent(good, tmp_path).seconds
    again = runs.run([good, bad], tmp_path, 1, told.append)
    assert [entry.cell.name for entry in again] == ["wrong"]


@pytest.mark.skipif(os.name == "nt", reason="starts a shell script")
def test_a_log_that_ends_within_a_character_is_told_and_the_others_run(tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nprintf 'ended at \\303' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    both = [cell("one", "info"), cell("two", "info")]
    outcomes = runs.run(both, tmp_path, 1, lambda outcome: None)
    assert [outcome.failure for outcome in outcomes] == ["ended at \ufffd"] * 2
    script.write_text("#!/bin/sh\necho 'a second attempt' >&2\nexit 3\n")
    assert [outcome.failure for outcome in runs.run(both, tmp_path, 1, lambda outcome: None)] == [
        "ended at \ufffda second attempt"
    ] * 2


@pytest.mark.skipif(os.name == "nt", reason="starts a shell script")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_running_command_and_starts_no_other(number, tmp_path, monkeypatch):
    script, started = tmp_path / "python", tmp_path / "started"
    script.write_text(f"#!/bin/sh\necho $$ >> {started}\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    def send():
        while not started.is_file() or not started.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    sender, told = threading.Thread(target=send), []
    sender.start()
    assert runs.run([cell("one", "info"), cell("two", "info")], tmp_path, 1, told.append) is None
    sender.join()
    (process,) = map(int, started.read_text().split())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert told == []
    assert not list((tmp_path / "runs").iterdir())


def test_table_1_says_how_many_seeds_each_side_has(setup):
    setup = setup._replace(parts=("table1",))
    finish(setup, cells.baseline(setup, "sst5"), [40.0, 41.0, 42.0], [40.0, 41.0, 42.0])
    assert row(text_of(setup), "SST-5", "41.0 ± 1.0", "not run")[-1] == "3"
    finish(setup, cells.with_elmo(setup, "sst5"), [43.0], [44.0])
    assert row(text_of(setup), "SST-5", "41.0 ± 1.0", "44.0")[-1] == "3 / 1"


def test_a_cell_of_fewer_seeds_waits_for_the_others(setup):
    cell = cells.baseline(setup._replace(seeds=2), "sst5")
    assert runs.is_waiting(cell, setup.to)
    finish(setup, cell, [50.0], [50.0])
    assert runs.is_waiting(cell, setup.to)
    finish(setup, cell, [50.0, 51.0], [50.0, 51.0])
    assert not runs.is_waiting(cell, setup.to)
    assert not runs.is_waiting(cell._replace(seeds=1), setup.to)


@pytest.mark.parametrize(
    ("steps", "best", "waiting"),
    [(100, 10, True), (100, 5, False), (200, 20, False)],
    ids=["ended at an earlier limit", "stopped rising", "ended at the limit"],
)
def test_a_cell_whose_limit_was_raised_waits_unless_its_score_had_stopped_rising(setup, steps, best, waiting):
    cell = cells.baseline(setup, "sst5")._replace(seeds=1, steps=200, patience=5)
    finish(setup, cell, [50.0], [50.0])
    seed = setup.to / "runs" / cell.name / "seed-0"
    seed.mkdir()
    (seed / "result.json").write_text(json.dumps({"steps": steps, "evaluations": steps // 10, "best_evaluation": best}))
    assert runs.is_waiting(cell, setup.to) == waiting


@pytest.mark.parametrize(
    ("change", "named"), [({"size": "paper"}, "size is cpu"), ({"vectors": "a.txt"}, "vectors is")]
)
def test_a_report_is_of_one_model_and_one_size(setup, change, named):
    """A finished cell is taken as it is, so one of another model must not lie there."""
    runs.begin(setup, "0123")
    runs.begin(setup._replace(parts=("table7",), seeds=1), "0123")
    with pytest.raises(OutputError, match="bilm is 0123 there, 4567 here"):
        runs.begin(setup, "4567")
    with pytest.raises(OutputError, match=named):
        runs.begin(setup._replace(**change), "0123")


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"parts": ("table9",)}, ConfigError, "table9"),
        ({"tasks": ("coref",)}, DataError, "coref"),
        ({"ablated": ("poetry",)}, ConfigError, "poetry"),
        ({"size": "enormous"}, ConfigError, "enormous"),
        ({"parts": ("table2",), "tasks": ("ner",)}, ConfigError, "ner"),
        ({"vectors": "nowhere.txt"}, DataError, "nowhere.txt"),
        ({"vectors": "none"}, ConfigError, "would have no input"),
        ({"transformer": "nowhere"}, DataError, "nowhere"),
    ],
)
def test_a_wrong_choice_is_refused_before_anything_runs(setup, change, error, named):
    wrong = setup._replace(**change)
    with pytest.raises(error, match=named):
        cells.check_files(wrong)
        cells.cells(wrong)


def test_markdown_and_html_say_the_same(tmp_path):
    blocks = [
        Heading(2, "A <title>: more"),
        Text("Words & `code<`, **very strong** ones, 2 ** 3 ** 4, **< 1**."),
        Table(("a", "b"), (("x|y", Link("1", "cell-1")),)),
        Picture("p.svg", "a picture"),
        Commands((Command("cell-1", "seed 0; 3 s", "stelmo info '<a>'"),)),
    ]
    (tmp_path / "p.svg").write_text("<svg/>")
    marked, paged = document.markdown(blocks), document.page(blocks, "T", tmp_path)
    assert "## A <title>: more" in marked
    assert "| x\\|y | 1 |" in marked
    assert "![a picture](p.svg)" in marked
    assert "# cell-1: seed 0; 3 s\nstelmo info '<a>'\n" in marked
    assert '<h2 id="a-title-more">A &lt;title&gt;: more</h2>' in paged
    assert '<a href="#a-title-more">A &lt;title&gt;</a>' in paged
    assert (
        "Words &amp; <code>code&lt;</code>, <strong>very strong</strong> ones, 2 ** 3 ** 4, <strong>&lt; 1</strong>."
        in paged
    )
    assert '<td class="text">x|y</td><td><a href="#run-cell-1">1</a></td>' in paged
    assert '<div class="command" id="run-cell-1">' in paged
    assert "<pre>stelmo info &#x27;&lt;a&gt;&#x27;</pre>" in paged


def test_columns_of_text_are_aligned_left(tmp_path):
    table = Table(("word", "sentence", "score"), (("play", "a play .", "1.0"),), texts=(0, 1))
    assert "| --- | --- | ---: |" in document.markdown([table])
    assert '<td class="text">play</td><td class="text">a play .</td><td>1.0</td>' in document.page(
        [table], "T", tmp_path
    )


def test_the_page_stands_alone(tmp_path):
    (tmp_path / "p.svg").write_text("<svg/>")
    paged = document.page([Picture("p.svg", "a picture")], "T", tmp_path)
    (source,) = re.findall(r'src="([^"]+)"', paged)
    head, _, content = source.partition(",")
    assert head == "data:image/svg+xml;base64"
    assert base64.b64decode(content) == b"<svg/>"
    assert not re.search(r"https?://", paged)


def test_every_cell_has_its_command_seeds_and_time(setup):
    cell = cells.baseline(setup, "sst5")
    finish(setup, cell, [50.0, 51.0], [50.0, 51.0])
    assert runs.about(cell, setup.to) == "seeds 0, 1; time unknown"
    for seed, seconds in enumerate((70.5, 49.5)):
        result = setup.to / "runs" / cell.name / f"seed-{seed}" / "result.json"
        result.parent.mkdir(exist_ok=True)
        result.write_text(json.dumps({"seconds": seconds}))
    assert runs.about(cell, setup.to) == "seeds 0, 1; 2.0 min of training"
    (setup.to / "logs").mkdir()
    (setup.to / "logs" / f"{cell.name}.time.json").write_text('{"seconds": 90.0, "processor": 59.5, "attempts": 2}')
    assert runs.about(cell, setup.to) == "seeds 0, 1; 1.5 min, 60 s of processor time"
    assert runs.about(cells.with_elmo(setup, "sst5"), setup.to) == "not run"
    text_of(setup)
    paged = (setup.to / "report.html").read_text()
    links, commands = (
        set(re.findall(pattern, paged)) for pattern in (r'<td><a href="#(.*?)"', r'"command" id="(.*?)"')
    )
    assert f"run-{cell.name}" in links <= commands
    assert len(commands) == len(cells.cells(setup))


def test_durations_have_the_unit_that_suits_them():
    assert [runs.duration(seconds) for seconds in (0.4, 59.4, 90, 5400)] == ["0 s", "59 s", "1.5 min", "1.5 h"]

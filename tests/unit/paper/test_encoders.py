"""The comparison of encoders: equal budgets as commands, and the report on what was run."""

import json
from functools import partial

import corpora
import pytest
from commands import run
from unit.cli.test_probe import coarse_folder, write_pos, write_wsd

from stelmo import benchmark
from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.paper import cells, encoders, report
from stelmo.paper import run as runs
from stelmo.paper.cells import Cell, Setup
from stelmo.paper.document import Text
from stelmo.store.runs import Run

PRESETS = ("laptop", "laptop-transformer")
FIGURES = {"laptop": [80.0, 92.0, 90.0], "laptop-transformer": [80.0, 85.0, 88.0, 91.0]}


@pytest.fixture
def setup(tmp_path):
    for name in ("data", "corpus", "report/runs"):
        (tmp_path / name).mkdir(parents=True)
    return Setup(
        tmp_path / "data",
        tmp_path / "report",
        parts=("encoders",),
        corpus=tmp_path / "corpus",
        processor_time="30m",
        encoders=PRESETS,
    )


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def finish(setup):
    """As if every command had run."""
    for number, preset in enumerate(PRESETS):
        training, probing = cells.training(setup, preset), cells.probing(setup, preset)
        (setup.to / "runs" / training.name).mkdir()
        log = [
            {"step": 1, "tokens": 1000, "perplexity": 300.0 + number, "seconds": 5.0},
            {"step": 2, "tokens": 2000, "perplexity": 200.0 + number, "seconds": 10.0},
            {"step": 3, "tokens": 3000, "perplexity": 210.0 + number, "seconds": 15.0},
            {"step": 4, "tokens": 4000, "loss_forward": 1.0, "seconds": 20.0},
        ]
        lines(setup.to / "runs" / training.name / "log.jsonl", log)
        (setup.to / "runs" / training.result_file).write_text("done\n")
        rows = [
            {"probe": question.probe, "method": question.method, "vectors": vectors, question.figure: figure}
            for question in encoders.QUESTIONS
            for vectors, figure in [
                *((f"layer {n}", figure) for n, figure in enumerate(FIGURES[preset])),
                ("glove", 60.0),
            ]
        ]
        lines(
            setup.to / "runs" / probing.result_file,
            [*rows, {"probe": "wsd", "method": "first sense", "vectors": "", "F1": 65.2}],
        )
    speed = [
        {"model": "a", "parameters": 5_290_000, "no word known": 1000, "every word known": 2000, "one sentence": 300},
        {"model": "b", "parameters": 5_300_000, "no word known": 1500, "every word known": 2500, "one sentence": 600},
    ]
    lines(setup.to / "runs" / cells.embedding_speed(setup).result_file, speed)


def row(text, *starts):
    (line,) = [line for line in text.splitlines() if line.startswith("| " + " | ".join(starts) + " |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_encoder_has_the_same_text_budget_and_start(setup):
    setup = setup._replace(vectors="glove.txt", settings=("dropout=0",))
    commands = [cells.training(setup, preset).command for preset in PRESETS]
    ours, other = (
        [word for word in command if word != preset and f"encoder-{preset}" not in word]
        for command, preset in zip(commands, PRESETS, strict=True)
    )
    assert ours == other
    assert {"processor_time=30m", "dropout=0", "glove.txt", str(setup.corpus)} <= set(ours)


def test_static_vectors_of_the_tasks_are_compared_with_but_not_started_from(setup):
    (setup.data / "vectors" / "glove").mkdir(parents=True)
    (setup.data / "vectors" / "glove" / "words.txt").touch()
    assert "--vectors" not in cells.training(setup, "laptop").command
    assert "--vectors" in cells.probing(setup, "laptop").command


def test_the_speeds_are_measured_after_all_trainings(setup):
    *before, last = cells.cells(setup)
    assert last.last
    assert not any(cell.last for cell in before)
    assert [cell.name for cell in before] == [
        "encoder-laptop", "encoder-laptop-probes", "encoder-laptop-transformer", "encoder-laptop-transformer-probes",
    ]  # fmt: skip


def test_the_speeds_of_other_encoders_are_another_measurement(setup):
    finish(setup)
    more = setup._replace(encoders=(*PRESETS, "laptop-gated-cnn"))
    assert runs.is_finished(cells.embedding_speed(setup), setup.to)
    for other in (more, setup._replace(encoders=PRESETS[::-1]), setup._replace(encoders=PRESETS[1:])):
        assert not runs.is_finished(cells.embedding_speed(other), setup.to)
    report.write(more)
    text = (setup.to / "report.md").read_text()
    assert row(text, "laptop", "not run")[2] == "4,000"  # its training is still there


def test_cells_that_need_others_run_after_them(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(runs, "_run", lambda cell, to, stop: order.append(cell.name))
    early = [Cell(name, (), f"{name}.txt", chain=name) for name in ("x", "y", "z")]
    runs.run([Cell("late", (), "late.txt", chain="a", last=True), *early], tmp_path, 2, lambda outcome: None)
    assert sorted(order[:3]) == ["x", "y", "z"]
    assert order[3] == "late"


def test_without_a_corpus_the_part_is_refused(setup):
    with pytest.raises(ConfigError, match="--parts encoders requires --corpus FOLDER"):
        cells.cells(setup._replace(corpus=None))


def test_a_corpus_that_cannot_be_read_leaves_no_report_behind(setup, tmp_path):
    wrong = setup._replace(to=tmp_path / "new", corpus=tmp_path / "nowhere")
    with pytest.raises(DataError, match="nowhere: no such folder"):
        runs.begin(wrong, "fingerprint")
    assert not wrong.to.exists()


def test_encoders_are_run_when_asked_for_and_not_by_default(setup):
    assert "encoders" not in Setup(setup.data, setup.to).parts


def test_trainings_of_another_budget_are_not_mixed(setup, tmp_path):
    setup = setup._replace(corpus=corpora.make(tmp_path / "made", corpora.sentences(30)))
    runs.begin(setup, "0123")
    runs.begin(setup._replace(encoders=("tiny",)), "0123")  # another encoder may join
    with pytest.raises(OutputError, match="processor_time is 30m there, 60m here"):
        runs.begin(setup._replace(processor_time="60m"), "0123")
    with pytest.raises(OutputError, match="settings is"):
        runs.begin(setup._replace(settings=("dropout=0",)), "0123")


def test_what_was_not_run_says_so(setup):
    text = report.write(setup).read_text()
    assert row(text, "laptop", "not run", "not run")[1:] == ["not run"] * 8
    assert row(text, "laptop-transformer", "not run", "–")[1:] == ["not run", "–", "–", "–", "–"]
    assert not (setup.to / encoders.PICTURE).exists()


@pytest.mark.pictures
def test_the_report_has_costs_scores_by_layer_and_the_picture(setup):
    finish(setup)
    text = report.write(setup).read_text()
    # 4,000 tokens in 20 s of processor time; the best validation, not the last
    assert row(text, "laptop", "5.29 M")[2:] == [
        "4,000", "0.3 min", "200", "200.0", "1,000 (1.00×)", "2,000 (1.00×)", "300 (1.00×)",
    ]  # fmt: skip
    assert row(text, "laptop-transformer", "5.30 M")[5:] == ["201.0", "1,500 (1.50×)", "2,500 (1.25×)", "600 (2.00×)"]
    assert row(text, "laptop-transformer", "layer 3")[2:] == ["91.0"] * 4
    assert row(text, "static vectors", "glove")[2:] == ["60.0"] * 4
    assert "Best for parts of speech: laptop layer 1 of 2, laptop-transformer layer 3 of 3." in text
    assert row(text, "LSTM, 4096 cells, width 512", "2")[3] == "39.7"
    assert "Which layer knows what" in (setup.to / encoders.PICTURE).read_text()


def test_the_picture_follows_each_question_through_the_layers(setup):
    finish(setup)
    found = encoders.curves({preset: encoders.scores_of(setup, preset) for preset in PRESETS})
    assert list(found) == [question.title for question in encoders.QUESTIONS]
    assert found["parts of speech"]["laptop"] == [(0.0, 80.0), (1.0, 92.0), (2.0, 90.0)]
    assert encoders.curves({"laptop": None}) == {}


def test_unverified_figures_are_not_printed():
    """Of the published perplexities only that of the LSTM of two layers is confirmed."""
    assert [line[-1] for line in encoders.PUBLISHED] == ["39.7", "–", "–", "–"]


@pytest.mark.long
@pytest.mark.pictures
def test_three_encoders_are_trained_probed_and_compared(tmp_path, monkeypatch, capsys):
    """Every cell as a command, in this process: a process for each would take longer to start than to work."""
    for name, write in (("wsd", write_wsd), ("pos", write_pos), ("coarse", coarse_folder)):
        (tmp_path / "data" / name).mkdir(parents=True)
        write(tmp_path / "data" / name)
    (tmp_path / "report" / "runs").mkdir(parents=True)
    presets = ("tiny", "laptop-transformer", "laptop-gated-cnn")
    setup = Setup(
        tmp_path / "data",
        tmp_path / "report",
        parts=("encoders",),
        corpus=corpora.make(tmp_path / "corpus", corpora.sentences(60)),
        processor_time="0.2s",
        encoders=presets,
        settings=("batch=4", "unroll=8", "negatives=all"),
    )
    monkeypatch.setattr(benchmark, "compare", partial(benchmark.compare, sentences=3))
    for cell in cells.cells(setup):
        done = run(monkeypatch, capsys, *cell.command)
        assert done.code == 0, done.err
        (setup.to / "runs" / cell.result_file).write_text(done.out)
        assert runs.is_finished(cell, setup.to)
    text = report.write(setup).read_text().partition("## Commands")[0]
    assert "not run" not in text
    assert row(text, "laptop-gated-cnn", "layer 5")
    assert (setup.to / encoders.PICTURE).is_file()
    for preset in presets:
        assert Run(setup.to / "runs" / f"encoder-{preset}").log.entries()[-1]["seconds"] >= 0.2


@pytest.mark.parametrize(
    ("vectors", "start"),
    [
        (None, "random weights"),
        ("random", "random weights"),
        ("a.txt", "static vectors"),
        ("trained", "static vectors"),
    ],
)
def test_the_report_says_where_the_encoders_started(vectors, start, setup):
    setup = setup._replace(vectors=vectors)
    assert ("--vectors" in cells.training(setup, "laptop").command) == (start == "static vectors")
    text = next(block.text for block in encoders.report(setup) if isinstance(block, Text))
    assert f"from {start}" in text

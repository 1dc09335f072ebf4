"""`stelmo task`: train, say the score, answer on text; mistakes in one line."""

import json

import pytest
import tiny
from commands import run
from unit.tasks import samples

SMALL = [
    "--set",
    "size.projected=8",
    "--set",
    "size.hidden=6",
    "--set",
    "size.classifier=[[8, 0.0]]",
    "--set",
    "epochs=2",
]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text(samples.SST5)
    return folder


def test_a_task_is_trained_and_scored_with_several_seeds(data, tmp_path, monkeypatch, capsys):
    done = run(monkeypatch, capsys, "task", "sst5", "--data", data, "--to", tmp_path / "run", "--elmo", "none",
               "--seeds", 2, *SMALL)  # fmt: skip
    assert done.code == 0, done.err
    assert "accuracy test " in done.out
    assert "±" in done.out
    assert "(2 seeds)" in done.out
    assert "at random" in done.err
    assert json.loads((tmp_path / "run" / "results.json").read_text())["seeds"] == [0, 1]


def test_layers_learned_with_elmo_are_told(data, tmp_path, monkeypatch, capsys):
    model = tiny.folder(tmp_path / "model")
    options = ["--data", data, "--to", tmp_path / "run", "--model", model, "--elmo", "both", "--lambda", 1]
    done = run(monkeypatch, capsys, "task", "sst5", *options, *SMALL)
    assert done.code == 0, done.err
    assert "layers at the input: " in done.out
    assert "layers at the output: " in done.out
    assert (tmp_path / "run" / "layers" / "manifest.json").is_file()


def test_a_transformer_is_compared_in_the_same_network(bert, data, tmp_path, monkeypatch, capsys):
    options = ["--data", data, "--to", tmp_path / "run", "--transformer", bert, "--elmo", "both"]
    done = run(monkeypatch, capsys, "task", "sst5", *options, *SMALL)
    assert done.code == 0, done.err
    assert "layers at the input: 1.00, γ" in done.out
    note = json.loads((tmp_path / "run" / "seed-0" / "model" / "model.json").read_text())
    assert note["bilm"]["path"] == str(bert)
    (tmp_path / "new.txt").write_text("It shines .\n")
    done = run(monkeypatch, capsys, "task", "sst5", "--predict", tmp_path / "run", tmp_path / "new.txt")
    assert done.code == 2
    assert "token vectors of" in done.err
    assert "train one with ELMo" in done.err


@pytest.mark.parametrize("other", [["--model", "m"], ["--finetune"], ["--elmo", "none"]])
def test_a_transformer_does_not_go_with_a_bilm(other, data, tmp_path, monkeypatch, capsys):
    options = ["--data", data, "--to", tmp_path / "run", "--transformer", tmp_path]
    done = run(monkeypatch, capsys, "task", "sst5", *options, *other)
    assert done.code == 2
    assert "--transformer replaces" in done.err
    assert not (tmp_path / "run").exists()


def test_a_trained_task_answers_on_text(data, tmp_path, monkeypatch, capsys):
    run(monkeypatch, capsys, "task", "sst5", "--data", data, "--to", tmp_path / "run", "--elmo", "none", *SMALL)
    (tmp_path / "new.txt").write_text("It shines .\nHow dull !\n")
    done = run(monkeypatch, capsys, "task", "sst5", "--predict", tmp_path / "run", tmp_path / "new.txt")
    assert done.code == 0, done.err
    assert len(done.out.split()) == 2
    assert set(done.out.split()) <= set("01234")
    again = run(monkeypatch, capsys, "task", "sst5", "--predict", tmp_path / "run", tmp_path / "new.txt",
                "-o", tmp_path / "answers")  # fmt: skip
    assert again.out == f"{tmp_path / 'answers'}: 2 predictions\n"
    assert (tmp_path / "answers").read_text() == done.out


def test_flawed_examples_are_counted_where_asked(data, tmp_path, monkeypatch, capsys):
    (data / "train.txt").write_text(samples.SST5 + "(9 bad)\n")
    options = ["task", "sst5", "--data", data, "--to", tmp_path / "run", "--elmo", "none", *SMALL]
    refused = run(monkeypatch, capsys, *options)
    assert refused.code == 2
    assert "train.txt:4" in refused.err
    assert "--skip-bad" in refused.err
    assert not (tmp_path / "run").exists()
    done = run(monkeypatch, capsys, *options, "--skip-bad")
    assert done.code == 0
    assert "skipped 1 examples" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sst6", "--data", "d", "--to", "r"], "sst6"),
        (["sst5"], "--data DIR --to RUN"),
        (["sst5", "--predict", "r"], "--predict RUN FILE"),
        (["sst5", "--data", "absent", "--to", "r", "--elmo", "none"], "no such folder"),
        (["sst5", "--data", "d", "--to", "r", "--elmo", "above"], "placement"),
        (["sst5", "--data", "d", "--to", "r", "--size", "huge"], "cpu"),
        (["sst5", "--data", "d", "--to", "r", "--fraction", "2"], "--fraction 2"),
        (["sst5", "--predict", "absent", "file"], "no trained task"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, monkeypatch, capsys):
    done = run(monkeypatch, capsys, "task", *arguments)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1

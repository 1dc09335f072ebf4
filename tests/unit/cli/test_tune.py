"""`stelmo tune`: what it prints and writes, from HDF5 with and without softmax, and what it refuses."""

from functools import partial

import commands
import pytest
import tiny

from stelmo.formats import models

QUICK = ["--set", "batch=4", "--set", "lr=0.02", "--set", "epochs=3", "--set-softmax", "lr=0.02"]


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.tok").write_text("the river bank .\na bank by the river .\nthe quokka bank\n" * 20)
    tiny.folder(tmp_path / "published", "bilm")
    return partial(commands.run, monkeypatch, capsys)


@pytest.fixture
def tune(call):
    assert call("prepare", "text.tok", "--to", "corpus", "--heldout", 8, "--from", "tokens", "--processes", 1).code == 0
    return partial(call, "tune", "published", "--data", "corpus", "--to", "run")


def figures(out):
    """Stage → its three figures."""
    lines = [line.rsplit(maxsplit=3) for line in out.splitlines()[1:-1]]
    return {name.strip(): [float(figure.replace(",", "")) for figure in found] for name, *found in lines}


def test_hdf5_without_softmax_is_tuned_and_written_in_both_layouts(tune, tmp_path):
    (tmp_path / "published" / "softmax_weights.hdf5").unlink()
    done = tune("--hdf5", *QUICK)
    assert done.code == 0, done.err
    found = figures(done.out)
    assert list(found) == ["words by frequency", "softmax learned", "everything learned"]
    assert found["everything learned"][2] < found["softmax learned"][2]
    assert "run/model: best at step" in done.out.splitlines()[-1]
    ours, theirs = models.read(tmp_path / "run" / "model"), models.read(tmp_path / "run" / "hdf5")
    assert ours.fingerprint() == theirs.fingerprint()
    assert "hdf5: this format has no warm state" in done.err
    assert (tmp_path / "run" / "hdf5" / "softmax_weights.hdf5").is_file()


def test_with_its_softmax_a_model_needs_its_own_vocabulary(call, tune, tmp_path):
    refused = tune()
    assert refused.code == 2
    assert "--vocabulary" in refused.err
    assert "--new-softmax" in refused.err
    assert refused.err.count("\n") == 1
    own = ["--vocabulary", "published/vocab.txt", "--heldout", 8, "--from", "tokens"]
    assert call("prepare", "text.tok", "--to", "own", *own).code == 0
    done = call("tune", "published", "--data", "own", "--to", "run", *QUICK)
    assert done.code == 0, done.err
    assert list(figures(done.out)) == ["before", "after"]


def test_the_same_command_again_has_nothing_to_do(tune):
    first, again = (tune("--new-softmax", *QUICK) for _ in range(2))
    assert again.code == 0
    assert "nothing to do" in again.err
    assert again.out == first.out


def test_tuning_that_only_harms_leaves_the_model_as_it_was(tune, tmp_path):
    done = tune("--new-softmax", "--set", "batch=4", "--set", "lr=30", "--set", "clip=none", "--set-softmax", "lr=0.02")
    assert done.code == 0, done.err
    assert "so it is unchanged" in done.err
    assert figures(done.out)["everything learned"] == figures(done.out)["softmax learned"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "lstm.cells=3"], "architecture"),
        (["--set", "lr=fast"], "lr"),
        (["--set", "speed=1"], "no setting 'speed'"),
        (["--set-softmax", "lr"], "lr=0.002"),
        (["--data", "nowhere"], "nowhere"),
        (["--to", "published"], "not a training run"),
        (["--vectors", "foreign.txt"], "they know 0.0% of the running words"),
        (["--vectors", "nan.txt"], "the vector of 'bank' is not finite"),
        (["--vectors", "few.txt", "--set", "vectors.dimensions=3"], "vectors.dimensions is 3, but few.txt has 2"),
        (["--vectors", "missing.txt"], "missing.txt"),
        (["--set", "vectors.steps=3"], "these settings require --vectors"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments, message, tune, tmp_path):
    (tmp_path / "foreign.txt").write_text("der 1 2\ndie 3 4\n")
    (tmp_path / "nan.txt").write_text("the 1 2\nbank nan 2\n")
    (tmp_path / "few.txt").write_text("the 1 2\nbank 2 1\nriver 0 3\n")
    done = tune("--new-softmax", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_missing_model_is_named(call):
    done = call("tune", "nowhere", "--data", "corpus", "--to", "run")
    assert done.code == 2
    assert "nowhere: no such file" in done.err

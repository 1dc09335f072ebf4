"""A run folder: checkpoints whole or passed over, a log that can be cut, other settings refused."""

import json
import os
import subprocess
import sys

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from stelmo.errors import DataError, ModelError, OutputError
from stelmo.formats import models
from stelmo.store import runs
from stelmo.store.runs import LearnedMix, Mixes, Run

ABOUT = {"model": {"lstm": {"cells": 4, "filters": (1, 2)}}, "train": {"lr": 0.1, "threads": 2}, "corpus": "abc"}
TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(5), "c": torch.zeros(0, 3, dtype=torch.int64)}
MAY_DIFFER = frozenset({"train.threads"})


@pytest.fixture
def run(tmp_path):
    found = Run(tmp_path / "run")
    found.start(ABOUT, MAY_DIFFER)
    return found


@pytest.fixture
def said():
    return []


def test_a_checkpoint_comes_back_as_it_was(run):
    run.save(3, TENSORS, {"step": 3, "loss": 0.1 + 0.2}, keep=2)
    about, tensors = runs.read(run.newest(print))
    assert about == {"step": 3, "loss": 0.1 + 0.2}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_the_last_few_checkpoints_are_kept(run):
    for step in (1, 5, 10, 200):
        run.save(step, TENSORS, {}, keep=2)
    assert [int(path.stem) for path in run.checkpoints()] == [200, 10]


def flip_a_bit(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "empty": lambda path: path.write_bytes(b""),
    "a flipped bit in a tensor": lambda path: flip_a_bit(path, -30),
    "a flipped bit in the header": lambda path: flip_a_bit(path, 20),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_gives_way_to_the_one_before_and_it_is_said(damage, run, said):
    run.save(1, TENSORS, {}, keep=2)
    run.save(2, TENSORS, {}, keep=2)
    damage(run.checkpoints()[0])
    assert run.newest(said.append).stem == "000000001"
    assert "000000002.safetensors" in said[0]
    assert "going back to the previous checkpoint" in said[0]


def test_where_all_are_damaged_there_is_none(run, said):
    run.save(1, TENSORS, {}, keep=2)
    flip_a_bit(run.checkpoints()[0], -1)
    assert run.newest(said.append) is None


def test_a_damaged_checkpoint_does_not_take_the_place_of_a_later_one(run, said):
    run.save(1000, TENSORS, {}, keep=1)
    flip_a_bit(run.checkpoints()[0], -1)
    assert run.newest(said.append) is None
    run.save(50, TENSORS, {}, keep=1)
    assert run.newest(said.append).stem == "000000050"
    assert len(said) == 1


KILLED = """
import os, sys, torch
from pathlib import Path
from stelmo.store import runs
from safetensors import torch as library
save = library.save_file
library.save_file = lambda tensors, path: (Path(path).with_name(".tmpAbC123").write_bytes(b"half"), os._exit(9))
runs.Run(Path(sys.argv[1])).save(1, {"a": torch.zeros(3)}, {}, keep=1)
"""


def test_a_process_killed_while_it_saves_leaves_nothing_that_the_next_one_keeps(run):
    assert subprocess.run([sys.executable, "-c", KILLED, str(run.path)], check=False).returncode == 9
    assert any(run.path.rglob(".tmp*"))
    run.start(ABOUT, MAY_DIFFER)
    assert list((run.path / "checkpoints").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_checkpoint_has_the_permissions_of_any_new_file(run):
    run.save(1, TENSORS, {}, keep=1)
    (run.path / "other").touch()
    assert run.checkpoints()[0].stat().st_mode == (run.path / "other").stat().st_mode


def test_a_flip_anywhere_behind_the_header_is_noticed(run):
    run.save(1, TENSORS, {"step": 1}, keep=2)
    path = run.checkpoints()[0]
    whole = path.read_bytes()
    for place in range(8 + int.from_bytes(whole[:8], "little"), len(whole)):
        path.write_bytes(whole)
        flip_a_bit(path, place)
        with pytest.raises(ModelError):
            runs.read(path)


def test_the_same_settings_find_the_run_again_and_leave_it_as_it_is(run):
    run.save(1, TENSORS, {"step": 1}, keep=2)
    before = run.settings_file.read_bytes()
    again = Run(run.path)
    again.start(ABOUT, MAY_DIFFER)
    assert runs.read(again.newest(print)).about == {"step": 1}
    assert run.settings_file.read_bytes() == before


def test_a_free_setting_may_differ_and_the_newest_value_is_noted(run):
    run.start({**ABOUT, "train": {"lr": 0.1, "threads": 1}}, MAY_DIFFER)
    assert runs.read_settings(run.settings_file)["train"] == {"lr": 0.1, "threads": 1}


def test_other_settings_are_refused_by_name(run):
    with pytest.raises(OutputError, match=r"corpus is abc there, xyz here; train.lr is 0.1 there, 0.2 here"):
        run.start({**ABOUT, "train": {"lr": 0.2, "threads": 2}, "corpus": "xyz"}, MAY_DIFFER)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(OutputError, match="exists and is not a training run"):
        Run(tmp_path).start(ABOUT, MAY_DIFFER)
    with pytest.raises(OutputError, match="exists and is not a training run"):
        Run(tmp_path / "holiday.jpg").start(ABOUT, MAY_DIFFER)
    with pytest.raises(OutputError, match="exists and is not a training run"), Run(tmp_path).held():
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_folder_in_no_folder_is_refused(tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        Run(tmp_path / "no" / "such" / "run").start(ABOUT, MAY_DIFFER)


@pytest.mark.parametrize("content", ["{", "[]", '{"stelmo": 99}'])
def test_a_run_that_cannot_be_understood_is_refused(content, run):
    (run.path / "run.json").write_text(content)
    with pytest.raises(OutputError, match=r"run\.json.*choose another folder"):
        run.start(ABOUT, MAY_DIFFER)


def test_drafts_of_a_killed_process_are_swept_away(run):
    (run.path / ".model.x.partial").mkdir()
    (run.path / "checkpoints" / ".1.x.partial.safetensors").touch()
    run.start(ABOUT, MAY_DIFFER)
    assert sorted(path.name for path in run.path.rglob("*")) == ["checkpoints", "run.json"]


def test_one_process_holds_a_run(run):
    with run.held(), pytest.raises(OutputError, match=f"process {os.getpid()} is training"), Run(run.path).held():
        pass
    with run.held():
        pass


def test_the_log_is_cut_behind_a_step(run):
    for step in (1, 2, 3):
        run.log.add({"step": step, "loss": step / 10})
    run.log.cut(2)
    assert run.log.entries() == [{"step": 1, "loss": 0.1}, {"step": 2, "loss": 0.2}]


def test_a_torn_line_of_the_log_is_passed_over(run):
    run.log.add({"step": 1})
    with run.log.path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert run.log.entries() == [{"step": 1}]
    run.log.cut(1)
    run.log.add({"step": 2})
    assert [json.loads(line)["step"] for line in run.log.path.read_text().splitlines()] == [1, 2]


def test_a_run_is_described_and_has_no_model_before_a_validation(tmp_path):
    run = Run(tmp_path / "run")
    run.start({"train": {"lr": 0.5}}, frozenset())
    assert ("reached", "nothing logged yet") in runs.describe(run.path)
    with pytest.raises(ModelError, match="without a model yet"):
        models.read(run.path)
    run.log.add({"step": 7, "tokens": 1400, "seconds": 120.0, "perplexity": 33.0})
    run.log.add({"step": 9, "tokens": 1800, "seconds": 180.0, "perplexity": 34.0})
    lines = dict(runs.describe(run.path))
    assert lines["reached"] == "step 9, 1,800 tokens, 3 minutes"
    assert lines["perplexity"].startswith("33.00 at step 7")
    assert "train.lr 0.5" in lines["settings"]


def test_a_run_is_loaded_as_the_model_of_its_best_validation(tmp_path):
    run = Run(tmp_path / "run")
    run.start({}, frozenset())
    tiny.model().save(run.path / "model")
    assert models.read(run.path).fingerprint() == models.read(run.path / "model").fingerprint()


# mixes.json

GOOD = {"stelmo": 1, "task": "ner", "outputs": [{"placement": "input", "weights": [0.2, 0.5, 0.3], "gamma": 1.02}]}
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@st.composite
def outputs(draw):
    raw = draw(st.lists(st.floats(0.01, 1), min_size=1, max_size=4))
    return LearnedMix(
        placement=draw(names), weights=[share / sum(raw) for share in raw], gamma=draw(st.floats(-10, 10))
    )


@given(names, st.lists(outputs(), min_size=1, max_size=3))
def test_what_is_written_is_read(tmp_path_factory, task, found):
    folder = tmp_path_factory.mktemp("run")
    runs.write_mixes(folder, task, found)
    assert runs.read_mixes(folder) == runs.read_mixes(folder / "mixes.json") == Mixes(task=task, outputs=tuple(found))


def test_the_file_is_as_documented(tmp_path):
    runs.write_mixes(tmp_path, "ner", [LearnedMix(placement="input", weights=(0.2, 0.5, 0.3), gamma=1.02)])
    assert json.loads((tmp_path / "mixes.json").read_bytes()) == GOOD


def changed(**fields):
    return json.dumps(GOOD | fields)


def with_output(**fields):
    return changed(outputs=[GOOD["outputs"][0] | fields])


WRONG = {
    "no JSON": ("{", "not JSON that can be read"),
    "too deep": ("[" * 100_000, "not JSON that can be read"),
    "no UTF-8": (b"\xff", "not JSON that can be read"),
    "a list": ("[1]", "format version None"),
    "another version": (changed(stelmo=2), "format version 2"),
    "no outputs": (changed(outputs=[]), "outputs"),
    "a field too many": (changed(more=1), "more"),
    "shares that do not sum to 1": (with_output(weights=[0.5, 0.2]), "sum to 0.7"),
    "a negative share": (with_output(weights=[-0.5, 1.5]), "greater than or equal to 0"),
    "no number": (with_output(gamma=float("nan")), "finite"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_another_file_is_refused(text, message, tmp_path):
    (tmp_path / "mixes.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message) as refused:
        runs.read_mixes(tmp_path)
    assert str(tmp_path / "mixes.json") in str(refused.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        runs.read_mixes(tmp_path)

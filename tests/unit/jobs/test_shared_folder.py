"""Blocks in a folder that many workers share: what is kept, what is computed again, and how finely."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny

from stelmo.errors import DataError, ModelError, OutputError
from stelmo.jobs import blocks, run, shared_folder
from stelmo.settings import OutputSettings
from stelmo.text.formats import Sentence

LINES = ["The bank .", "", "a/b river", "The bank .", "über 日本 bank"] * 5
SENTENCES = [Sentence(line.split(), "corpus.txt", number) for number, line in enumerate(LINES, 1)]
SETTINGS = OutputSettings(block_tokens=12)


@pytest.fixture
def folder(model, tmp_path):
    return blocks.working_folder(tmp_path / "v.parquet", blocks.run_settings(model, SETTINGS), overwrite=False)


def fill(folder, model, sentences=SENTENCES):
    return shared_folder.fill(folder, blocks.cut(model, sentences, SETTINGS))


def worker(folder, model, about=None):
    return shared_folder.Worker(folder, model, SETTINGS, about or blocks.run_settings(model, SETTINGS))


def rows(path):
    return pq.read_table(path).to_pylist()


def test_workers_together_write_the_rows_of_one_run(folder, model, tmp_path):
    filled = fill(folder, model)
    several = [worker(folder, tiny.model()) for _ in range(2)]
    for number in reversed(filled.unfinished):
        several[number % 2].compute(number)
    shared_folder.finish(folder, filled.blocks, tmp_path / "v.parquet")
    run.embed_to_file(model, SENTENCES, tmp_path / "whole.parquet", SETTINGS)
    assert rows(tmp_path / "v.parquet") == rows(tmp_path / "whole.parquet")
    assert {file.suffix for file in (tmp_path / "v.parquet").iterdir()} == {".parquet"}
    assert not folder.exists()


def test_finished_blocks_of_the_same_text_are_kept(folder, model):
    first = fill(folder, model)
    tokens = [worker(folder, model).compute(number).tokens for number in (0, 2)]
    second = fill(folder, model)
    assert second.unfinished == [number for number in first.unfinished if number not in (0, 2)]
    assert second.finished_tokens == sum(tokens)


def test_a_changed_text_is_computed_again_from_where_it_changed(folder, model):
    filled = fill(folder, model)
    for number in filled.unfinished:
        worker(folder, model).compute(number)
    changed = [*SENTENCES[:-1], Sentence(["other"], "corpus.txt", 25)]
    assert fill(folder, model, changed).unfinished == [filled.blocks - 1]
    inserted = [Sentence([], "corpus.txt", 0), *SENTENCES]  # every later sentence has another number
    assert fill(folder, model, inserted).unfinished == list(range(filled.blocks))


def test_blocks_of_a_longer_text_do_not_stay(folder, model, tmp_path):
    for number in fill(folder, model).unfinished:
        worker(folder, model).compute(number)
    filled = fill(folder, model, SENTENCES[:3])
    for number in filled.unfinished:
        worker(folder, model).compute(number)
    shared_folder.finish(folder, filled.blocks, tmp_path / "v.parquet")
    assert len(rows(tmp_path / "v.parquet")) == 3


@pytest.mark.parametrize(("deaths", "pieces"), [(0, 1), (1, 1), (2, 4), (3, 4)])
def test_a_block_that_keeps_ending_its_worker_is_cut_finer(deaths, pieces, folder, model):
    fill(folder, model)
    (folder / "000001.tries").write_text("somewhere 1\n" * deaths)
    done = worker(folder, model).compute(1)
    assert (done.tries, done.pieces) == (deaths + 1, pieces)  # the block has 4 sentences: no finer than that


def test_a_block_that_no_worker_survives_is_given_up_with_its_place(folder, model):
    fill(folder, model)
    (folder / "000001.tries").write_text("somewhere 1\n" * shared_folder.MOST_TRIES)
    with pytest.raises(OutputError, match=r"begins at corpus\.txt:5 ended its worker 6 times"):
        worker(folder, model).compute(1)


def test_the_same_command_tries_a_block_afresh(folder, model):
    fill(folder, model)
    (folder / "000001.tries").write_text("somewhere 1\n" * shared_folder.MOST_TRIES)
    fill(folder, model)
    assert worker(folder, model).compute(1).tries == 1


def failing_above(model, tokens, problem):
    original = model.run

    def run_(sentences, *rest, **options):
        if sum(map(len, sentences)) > tokens:
            raise problem
        return original(sentences, *rest, **options)

    model.run = run_


@pytest.mark.parametrize(
    "problem", [MemoryError(), RuntimeError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate")]
)
def test_where_memory_runs_out_smaller_pieces_give_the_same_rows(problem, folder, model):
    fill(folder, model)
    worker(folder, tiny.model()).compute(0)
    whole = rows(folder / "000000.parquet")
    failing_above(model, 5, problem)
    done = worker(folder, model).compute(0)
    assert done.pieces == len(whole)
    for one, other in zip(rows(folder / "000000.parquet"), whole, strict=True):
        assert one["tokens"] == other["tokens"]
        np.testing.assert_allclose(one["vectors"], other["vectors"], atol=1e-5)


def test_a_sentence_that_fits_in_no_memory_is_named(folder, model):
    fill(folder, model)
    failing_above(model, 0, MemoryError())
    with pytest.raises(DataError, match=r"corpus\.txt:1: a sentence of 3 tokens"):
        worker(folder, model).compute(0)


def test_any_other_failure_is_not_taken_for_memory(folder, model):
    fill(folder, model)
    failing_above(model, 0, RuntimeError("shapes"))
    with pytest.raises(RuntimeError, match="shapes"):
        worker(folder, model).compute(0)


def test_a_worker_with_another_model_is_refused(folder, model):
    with pytest.raises(ModelError, match="another model"):
        worker(folder, tiny.model(tiny.WORD_CONFIG), blocks.run_settings(model, SETTINGS))


def test_a_worker_that_does_not_see_the_folder_says_so(model, tmp_path):
    with pytest.raises(OutputError, match="must share"):
        worker(tmp_path / "elsewhere", model).compute(0)


def test_a_missing_block_is_not_passed_over(folder, model, tmp_path):
    filled = fill(folder, model)
    with pytest.raises(OutputError, match=r"000000\.parquet is missing"):
        shared_folder.finish(folder, filled.blocks, tmp_path / "v.parquet")


def test_no_sentence_is_refused(folder, model):
    with pytest.raises(DataError, match="no sentence"):
        fill(folder, model, [])


def test_the_output_is_named_as_parquet_and_nothing_foreign_is_overwritten(tmp_path):
    with pytest.raises(OutputError, match="folder of Parquet"):
        shared_folder.refuse_output(tmp_path / "v.hdf5", False)
    (tmp_path / "v.parquet").mkdir()
    (tmp_path / "v.parquet" / "notes.txt").write_text("precious")
    with pytest.raises(OutputError, match="exists"):
        shared_folder.refuse_output(tmp_path / "v.parquet", False)
    with pytest.raises(OutputError, match=r"delete notes\.txt"):
        shared_folder.refuse_output(tmp_path / "v.parquet", True)


def test_tries_name_machine_and_process(folder, model):
    fill(folder, model)
    worker(folder, model).compute(0)
    assert len((folder / "000000.tries").read_text().split()) == 2
    assert json.loads((folder / "000000.json").read_bytes())[0] == 0

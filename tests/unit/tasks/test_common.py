"""What holds for every task: its files are read, gold is perfect, predictions come back as they were written."""

import gzip

import pytest
from unit.tasks import more_samples, samples

from stelmo.errors import DataError, OutputError
from stelmo.tasks import reading
from stelmo.tasks.reading import Skipped

TASKS = [*samples.TASKS, *more_samples.TASKS]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def scored(task, predictions, examples) -> float:
    """The headline figure: the first."""
    return next(iter(task.score.score(predictions, examples).values()))


@every_task
def test_a_sample_is_read(task, tmp_path):
    examples = task.data.read(task.write(tmp_path))
    assert len(examples) == task.examples
    assert all(example.where.startswith(str(tmp_path / task.file)) for example in examples)


@every_task
def test_a_compressed_sample_is_read_alike(task, tmp_path):
    path = task.write(tmp_path)
    examples = [example._replace(where="") for example in task.data.read(path)]
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert [example._replace(where="") for example in task.data.read(path)] == examples


@every_task
def test_a_sample_without_flaws_has_none_counted(task, tmp_path):
    skipped = Skipped()
    path = task.write(tmp_path)
    assert task.data.read(path, skipped) == task.data.read(path)
    assert len(skipped) == 0


@every_task
def test_gold_scored_against_gold_is_perfect(task, tmp_path):
    examples = task.data.read(task.write(tmp_path))
    assert scored(task, [task.data.gold(example) for example in examples], examples) == 100.0


@every_task
def test_a_mistake_costs_something(task, tmp_path):
    examples = task.data.read(task.write(tmp_path))
    assert scored(task, [task.wrong(example) for example in examples], examples) < 100.0


@every_task
def test_predictions_written_and_read_back_score_the_same(task, tmp_path):
    examples = task.data.read(task.write(tmp_path))
    predictions = [task.wrong(example) for example in examples]
    task.data.write(tmp_path / "predictions", examples, predictions)
    again = task.data.read_predictions(tmp_path / "predictions", examples)
    assert again == predictions
    assert task.score.score(again, examples) == task.score.score(predictions, examples)


@every_task
def test_predictions_that_cannot_be_written_leave_nothing(task, tmp_path):
    examples = task.data.read(task.write(tmp_path))
    with pytest.raises(OutputError, match="no folder"):
        task.data.write(tmp_path / "absent" / "predictions", examples, [task.data.gold(e) for e in examples])


@every_task
@pytest.mark.parametrize("text", ["", "\n\n"], ids=["empty", "blank"])
def test_a_file_without_examples_is_refused(task, tmp_path, text):
    (tmp_path / task.file).write_text(text)
    with pytest.raises(DataError, match=str(tmp_path / task.file)):
        task.data.read(tmp_path / task.file)


@every_task
def test_an_absent_file_is_refused(task, tmp_path):
    with pytest.raises(DataError, match="No such file"):
        task.data.read(tmp_path / task.file)


@every_task
def test_the_sample_is_found_in_its_folder(task, tmp_path):
    path = task.write(tmp_path)
    assert reading.find(tmp_path, task.data.FILES) == {"train": path}


@every_task
def test_a_folder_without_training_data_is_refused(task, tmp_path):
    with pytest.raises(DataError, match="there is no train file; looked for"):
        reading.find(tmp_path, task.data.FILES)

"""Static vectors of a task: out of a file, trained, by chance, none; and what is said of them."""

import pytest
import torch

from stelmo.errors import DataError
from stelmo.tasks import vectors

TRAIN = [["the", "cat", "sat"], ["The", "cat", "ran"]] * 10
OTHERS = [["a", "dog"]]


def made(source, tuned=True):
    said: list[str] = []
    return vectors.table(str(source), TRAIN, OTHERS, tuned, said.append), " ".join(said)


def test_a_file_gives_the_words_of_all_splits(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\ncat 3 4\ndog 5 6\nelsewhere 7 8\n")
    table, said = made(path, tuned=False)
    assert set(table.words) == {"the", "cat", "dog"}
    assert table([["dog", "The"]])[0].tolist() == [[5.0, 6.0], [1.0, 2.0]]
    assert "4 of the data's 7 words" in said  # the, The, cat and dog


def test_chance_is_the_same_at_each_run_and_said_plainly():
    (first, said), (second, _) = made("random"), made("random")
    assert torch.equal(first.vectors_VD, second.vectors_VD)
    assert set(first.words) == {"the", "The", "cat", "sat", "ran"}
    assert "by chance" in said


def test_vectors_trained_on_the_text_are_the_same_at_each_run():
    pytest.importorskip("gensim", reason="gensim is not installed: the extra `baselines` has it")
    (first, said), (second, _) = made("trained"), made("trained")
    assert torch.equal(first.vectors_VD, second.vectors_VD)
    assert "the task's own text" in said


def test_none_is_no_table():
    assert made("none")[0] is None


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="absent"):
        made(tmp_path / "absent.txt")

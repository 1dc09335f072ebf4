import numpy as np
import pytest
from shared import DATA, needs_data
from unit.probes.toys import contextual, of, static

from stelmo.errors import DataError
from stelmo.probes import coarse, run
from stelmo.probes.embedding import Occurrence

FILES = {
    "classes_map.txt": '{"0": "bank_shore", "1": "bank_house"}',
    "train.data.txt": "1\tmoney bank\n0\tbank river\n0\tbank river x\n",
    "train.gold.txt": "1\n0\n0\n",
    "test.data.txt": "2\tmoney x bank\n1\triver bank x x\n",
    "test.gold.txt": "1\n0\n",
}


def folder(path, **changed):
    (path / "bank").mkdir()
    for name, text in FILES.items():
        (path / "bank" / name).write_text(changed.get(name.split(".txt")[0].replace(".", "_"), text))
    return path


def test_uses_are_read_with_their_class(tmp_path):
    (word,) = coarse.read(folder(tmp_path))
    assert [(example.occurrence, example.label) for example in word.test] == [
        (Occurrence(("money", "x", "bank"), 2, 3), "1"),
        (Occurrence(("river", "bank", "x", "x"), 1, 2), "0"),
    ]
    assert (word.name, len(word.train)) == ("bank", 3)


def test_doubled_and_no_break_spaces_do_not_shift_the_place(tmp_path):
    (word,) = coarse.read(folder(tmp_path, test_data="2\tmoney  x bank\n3\t7\u00a01/2 river bank\n"))
    assert [example.occurrence.tokens[example.occurrence.start] for example in word.test] == ["bank", "bank"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_gold": "1\n"}, r"test\.gold\.txt: 1 classes; expected 2, one for each occurrence"),
        ({"test_gold": "1\n7\n"}, r"test\.gold\.txt:2: class '7'; expected one of 0, 1"),
        ({"test_data": "", "test_gold": ""}, r"test\.data\.txt: no occurrences; expected one per line"),
        ({"test_data": "bank\nx\n"}, r"test\.data\.txt:1: 'bank'; expected a position, a tab and the tokens"),
        ({"test_data": "0\tbank\n1\tbank\n"}, r"test\.data\.txt:2: position 1; the sentence has words 0 to 0"),
        ({"classes_map": "{"}, r"classes_map\.txt: not a JSON value"),
        ({"classes_map": "[]"}, r"classes_map\.txt: '\[\]'; expected an object from class to name"),
    ],
)
def test_flawed_files_are_refused(tmp_path, changed, message):
    with pytest.raises(DataError, match=message):
        coarse.read(folder(tmp_path, **changed))


def test_a_folder_without_words_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no WORD/train\.data\.txt in it"):
        coarse.read(tmp_path)


def test_context_tells_the_classes_apart(tmp_path):
    results = run.coarse(folder(tmp_path), [of(contextual)])
    assert {row.method: row.figures["mean"] for row in results} == {
        "nearest example": 100.0,
        "class mean": 100.0,
        "most frequent": 50.0,
    }


def test_without_context_every_method_gives_the_most_frequent_class(tmp_path):
    results = run.coarse(folder(tmp_path), [of(static)])
    assert {row.method for row in results} == set(coarse.METHODS)
    assert all(row.figures == {"mean": 50.0, "all uses": 50.0, "bank": 50.0} for row in results)


def test_all_uses_count_alike_in_one_figure_and_all_nouns_in_the_other():
    one = coarse.Example(Occurrence(("bank",), 0, 1), "0", "")
    nouns = [coarse.Noun("few", (one,), (one,)), coarse.Noun("many", (one,), (one,) * 3)]
    scores = {"few": dict.fromkeys(coarse.METHODS, 0.0), "many": dict.fromkeys(coarse.METHODS, 100.0)}
    figures = coarse.by_method(nouns, scores)["nearest example"]
    assert figures == {"mean": 50.0, "all uses": 75.0, "few": 0.0, "many": 100.0}


@pytest.mark.parametrize("seed", range(8))
def test_rounding_does_not_choose_between_equal_directions(seed):
    vector_D = np.random.default_rng(seed).normal(size=50).astype(np.float32)
    train_ND = np.stack([vector_D * np.float32(scale) for scale in (1, 3, 0.7, 5, 1.1)])
    labels = ["rare", "frequent", "frequent", "rare", "frequent"]
    assert coarse.nearest_example(train_ND, labels, vector_D[None]) == ["frequent"]
    assert coarse.class_mean(train_ND, labels, vector_D[None]) == ["frequent"]


def test_the_nearest_example_and_the_nearest_mean_may_differ():
    degrees = {"a": [0, 80], "b": [50, 60]}  # means near 40 and 55: 78 is next to an example of a and to the mean of b
    points = [(angle, label) for label, angles in degrees.items() for angle in angles]
    train_ND = np.array([[np.cos(np.radians(angle)), np.sin(np.radians(angle))] for angle, _ in points], np.float32)
    test_MD = np.array([[np.cos(np.radians(78)), np.sin(np.radians(78))]], np.float32)
    labels = [label for _, label in points]
    assert coarse.nearest_example(train_ND, labels, test_MD) == ["a"]
    assert coarse.class_mean(train_ND, labels, test_MD) == ["b"]


@needs_data
def test_every_real_place_holds_its_word():
    words = coarse.read(DATA / "polysemy" / "coarsewsd20")
    assert (len(words), sum(len(w.train) for w in words), sum(len(w.test) for w in words)) == (20, 23370, 10196)
    examples = [(word.name, example.occurrence) for word in words for example in (*word.train, *word.test)]
    assert all(use.tokens[use.start] == name for name, use in examples)

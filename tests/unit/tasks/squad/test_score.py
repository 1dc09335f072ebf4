import pytest

from stelmo.tasks.squad.data import Answer, Example, Passage
from stelmo.tasks.squad.score import normalised, overlap, score

PASSAGE = Passage("Yes", ("Yes",), (0,), (3,))


def question(*answers: str) -> Example:
    return Example("q", PASSAGE, ("Why", "?"), tuple(Answer(text, 0, 0) for text in answers), "file: question q")


def figures(prediction: str, *answers: str) -> tuple[float, float]:
    found = score([prediction], [question(*answers)])
    return found["f1"], found["exact match"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The Old  Bridge", ["old", "bridge"]),
        ("an apple, a pear", ["apple", "pear"]),
        ("theatre and another", ["theatre", "and", "another"]),  # articles are whole words
        ("U.S.A.", ["usa"]),
        ("state-of-the-art", ["stateoftheart"]),  # punctuation goes first, and leaves no gap
        ("the “Rhine”", ["“rhine”"]),  # only ASCII punctuation counts
        ("$1,000", ["1000"]),
        ("The", []),
    ],
)
def test_case_punctuation_articles_and_spaces_do_not_count(answer, expected):
    assert normalised(answer) == expected


def test_the_headline_comes_first():
    assert next(iter(score(["x"], [question("x")]))) == "f1"


def test_an_answer_that_differs_only_in_form_is_right():
    assert figures("THE old bridge.", "old Bridge") == (100.0, 100.0)


def test_f1_counts_the_words_in_common():
    # found: {old, stone, bridge}; gold: {bridge, stone}; shared 2: P = 2/3, R = 2/2, F1 = 2·(2/3)·1 / (5/3) = 4/5
    assert figures("the old stone bridge", "Bridge, stone") == (pytest.approx(80.0), 0.0)


def test_a_word_said_twice_is_shared_only_as_often_as_in_both():
    # found: {new, new, york}; gold: {new, york}: shared 2; P = 2/3, R = 1
    assert overlap(["new", "new", "york"], ["new", "york"]) == pytest.approx(0.8)


def test_the_best_gold_answer_counts_for_each_figure():
    assert figures("two bridges", "bridges", "two bridges", "three") == (100.0, 100.0)


def test_nothing_in_common_is_zero():
    assert figures("river", "bridge") == (0.0, 0.0)
    assert figures("", "bridge") == (0.0, 0.0)


def test_an_answer_without_words_matches_exactly_but_shares_none():
    assert figures("the", "a") == (0.0, 100.0)


def test_figures_are_means_over_questions():
    # F1: (1 + 4/5 + 0) / 3; exact: (1 + 0 + 0) / 3
    found = score(["rain", "new new york", "sun"], [question("rain"), question("new york"), question("snow")])
    assert found == {"f1": pytest.approx(60.0), "exact match": pytest.approx(100 / 3)}

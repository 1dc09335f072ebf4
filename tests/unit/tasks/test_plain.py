"""Text that nobody has labelled: which lines somebody has tokenised, and where they are."""

import pytest

from stelmo.tasks.plain import most, sentences, words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("It works .", ("It", "works", ".")),
        ("Mr. Ng , of the U.S. , do n't ask", ("Mr.", "Ng", ",", "of", "the", "U.S.", ",", "do", "n't", "ask")),
        ("It works, mostly.", ("It", "works", ",", "mostly", ".")),
        ("We don't.", ("We", "do", "n't", ".")),
        ("no stop at all", ("no", "stop", "at", "all")),
        ("One. Two more.", ("One", ".", "Two", "more", ".")),
    ],
)
def test_a_line_is_tokenised_unless_somebody_has_done_so(line, expected):
    assert words(line) == expected


def test_every_line_that_has_words_is_a_sentence_with_its_place(tmp_path):
    (tmp_path / "f").write_text("\nOne.\n \t\nTwo .\n")
    assert list(sentences(tmp_path / "f")) == [(("One", "."), f"{tmp_path}/f:2"), (("Two", "."), f"{tmp_path}/f:4")]


@pytest.mark.parametrize(("answers", "expected"), [([], False), ([1, 0], False), ([1, 0, 1], True), ([1], True)])
def test_most_is_more_than_half(answers, expected):
    assert most(map(bool, answers)) is expected

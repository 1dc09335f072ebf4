"""Words and their numbers."""

import pytest

from stelmo.errors import DataError
from stelmo.text.vocabulary import Vocabulary


def test_words_are_numbered_by_their_lines():
    words = Vocabulary.of(["<S>", "</S>", "<UNK>", "the"])
    assert [words.id(word) for word in words] == [0, 1, 2, 3]
    assert words.id("zebra") == 2
    assert "zebra" not in words


def test_the_line_of_some_published_files_that_is_no_word_is_passed_over():
    assert list(Vocabulary.of(["a", "!!!MAXTERMID", "b"])) == ["a", "b"]


def test_a_word_twice_is_refused_with_its_line():
    with pytest.raises(DataError, match=r"v\.txt:3: 'a'"):
        Vocabulary.of(["a", "b", "a"], "v.txt")


def test_an_unknown_word_without_unk_is_refused():
    with pytest.raises(DataError, match="no line <UNK>"):
        Vocabulary.of(["a"]).id("b")

"""Words and their numbers."""

import pytest

from stelmo.errors import DataError, ModelError
from stelmo.text import vocabulary
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


def test_what_was_written_is_read(tmp_path):
    words = Vocabulary(("<S>", "über", "a\u2028b", "日本"))
    vocabulary.write_vocabulary(words, tmp_path / "vocab.txt")
    assert vocabulary.read_vocabulary(tmp_path / "vocab.txt") == words


@pytest.mark.parametrize(("limit", "why"), [("MOST_BYTES", "more than 3 bytes"), ("MOST_WORDS", "more than 3 lines")])
def test_a_file_larger_than_any_vocabulary_is_refused(tmp_path, monkeypatch, limit, why):
    (tmp_path / "vocab.txt").write_text("a\nb\nc\nd\n")
    monkeypatch.setattr(vocabulary, limit, 3)
    with pytest.raises(ModelError, match=why):
        vocabulary.read_vocabulary(tmp_path / "vocab.txt")

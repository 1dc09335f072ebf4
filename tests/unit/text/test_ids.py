"""Words and their numbers in a vocabulary; words → ids by what the model reads: bytes, word numbers, code points."""

import pickle

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from stelmo.config import CodePointConvolution, CodePointInput, ModelConfig, WordTable
from stelmo.errors import DataError, ModelError
from stelmo.text import chars, ids
from stelmo.text.ids import ALPHABET_MARKERS, WORD_MARKERS, Alphabet, Vocabulary, encode_code_points, word_ids

WORDS = ["<S>", "bank", "zebra", "x" * 70, ""]
VOCABULARY = Vocabulary((*WORD_MARKERS, "bank"))
ALPHABET = Alphabet((*ALPHABET_MARKERS, *"bank"))


def code_points(words, characters):
    table = WordTable(rows=len(VOCABULARY), width=3) if words else None
    cnn = CodePointConvolution(embedding=2, filters=((1, 2),), rows=len(ALPHABET)) if characters else None
    return ModelConfig(input=CodePointInput(word_table=table, convolution=cnn, max_characters=20), lstm=tiny.LSTM)


def test_a_model_of_bytes_reads_character_ids():
    np.testing.assert_array_equal(word_ids(tiny.CONFIG, None)(WORDS), chars.encode_words(WORDS))


def test_a_model_of_word_ids_reads_numbers_of_the_vocabulary():
    found = word_ids(tiny.WORD_CONFIG, Vocabulary(tiny.WORDS))
    assert found(WORDS).tolist() == [0, 4, 2, 2, 2]
    assert found([]).dtype == np.int64


def test_a_model_of_word_ids_needs_a_vocabulary():
    with pytest.raises(ModelError, match="vocabulary"):
        word_ids(tiny.WORD_CONFIG, None)


@pytest.mark.parametrize(("words", "characters", "width"), [(True, True, 21), (True, False, 1), (False, True, 20)])
def test_a_model_of_code_points_reads_what_its_configuration_says(words, characters, width):
    found = word_ids(code_points(words, characters), VOCABULARY, ALPHABET)(WORDS)
    table, symbols = VOCABULARY if words else None, ALPHABET if characters else None
    assert found.shape == (5, width)
    np.testing.assert_array_equal(found, encode_code_points(WORDS, table, symbols, 20))


@pytest.mark.parametrize("config", [tiny.CONFIG, tiny.WORD_CONFIG, code_points(True, True)], ids=lambda c: c.input.kind)
def test_the_function_can_be_pickled(config):
    found = word_ids(config, Vocabulary((*tiny.WORDS, *WORD_MARKERS)), ALPHABET)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found))(WORDS), found(WORDS))


SYMBOLS = ("t", "h", "é", "\u3000", "\n", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
T, H, E, SPACE, LINE, BOS, EOS, OOV, PAD, BOW, EOW = range(11)
SMALL_ALPHABET = Alphabet(SYMBOLS)
NUMBERED = Vocabulary(("<oov>", "<bos>", "<eos>", "<pad>", "th", "thhhh"))


@pytest.mark.parametrize(
    ("word", "row"),
    [
        ("th", [EOW, T, H, BOW, PAD, PAD, PAD]),
        ("é", [EOW, E, BOW, PAD, PAD, PAD, PAD]),
        ("e\u0301", [EOW, OOV, OOV, BOW, PAD, PAD, PAD]),
        ("T", [EOW, OOV, BOW, PAD, PAD, PAD, PAD]),
        ("\u3000\n", [EOW, SPACE, LINE, BOW, PAD, PAD, PAD]),
        ("", [EOW, BOW, PAD, PAD, PAD, PAD, PAD]),
        ("thththt", [EOW, T, H, T, H, T, BOW]),
        ("😀\ud800", [EOW, OOV, OOV, BOW, PAD, PAD, PAD]),
        ("<bos>", [EOW, BOS, BOW, PAD, PAD, PAD, PAD]),
        ("<eos>", [EOW, EOS, BOW, PAD, PAD, PAD, PAD]),
        ("<S>", [EOW, BOS, BOW, PAD, PAD, PAD, PAD]),
        ("</S>", [EOW, EOS, BOW, PAD, PAD, PAD, PAD]),
        ("<pad>", [EOW, OOV, OOV, OOV, OOV, OOV, BOW]),
    ],
)
def test_a_row_has_the_markers_the_wrong_way_round_and_counts_code_points(word, row):
    assert encode_code_points([word], None, SMALL_ALPHABET, 7).tolist() == [row]


@pytest.mark.parametrize(
    ("word", "number"),
    [("th", 4), ("Th", 0), ("", 0), ("<S>", 1), ("</S>", 2), ("<bos>", 1), ("<eos>", 2), ("<oov>", 0), ("<pad>", 3)],
)
def test_a_word_is_numbered_by_the_vocabulary_or_is_unknown(word, number):
    assert encode_code_points([word], NUMBERED, None, 7).tolist() == [[number]]


def test_a_long_word_is_cut_before_it_is_looked_up():
    assert encode_code_points(["thhhhhhhh"], NUMBERED, SMALL_ALPHABET, 7).tolist() == [[5, EOW, T, H, H, H, H, BOW]]


def test_a_sentence_marker_is_never_cut_but_a_word_written_like_one_is():
    assert encode_code_points(["<S>"], NUMBERED, SMALL_ALPHABET, 4).tolist() == [[1, EOW, BOS, BOW, PAD]]
    assert encode_code_points(["<bos>"], NUMBERED, SMALL_ALPHABET, 4).tolist() == [[0, EOW, OOV, OOV, BOW]]


@given(st.lists(st.text()), st.integers(3, 60))
def test_every_text_gives_rows_of_one_width_with_known_ids(words, width):
    ids = encode_code_points(words, NUMBERED, SMALL_ALPHABET, width)
    assert ids.shape == (len(words), 1 + width)
    assert ids.dtype == np.int64
    assert ((ids[:, 0] >= 0) & (ids[:, 0] < len(NUMBERED))).all()
    assert ((ids[:, 1:] >= 0) & (ids[:, 1:] < len(SMALL_ALPHABET))).all()


@pytest.mark.parametrize("lost", SYMBOLS[5:])
def test_an_alphabet_needs_its_markers(lost):
    with pytest.raises(ModelError, match=f"letters: no {lost};"):
        Alphabet(tuple(symbol for symbol in SYMBOLS if symbol != lost), "letters")


def test_an_alphabet_has_each_symbol_once():
    with pytest.raises(ModelError, match="'t' occurs twice"):
        Alphabet(("t", *SYMBOLS))


# The vocabulary


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
    ids.write_vocabulary(words, tmp_path / "vocab.txt")
    assert ids.read_vocabulary(tmp_path / "vocab.txt") == words


@pytest.mark.parametrize(("limit", "why"), [("MOST_BYTES", "more than 3 bytes"), ("MOST_WORDS", "more than 3 lines")])
def test_a_file_larger_than_any_vocabulary_is_refused(tmp_path, monkeypatch, limit, why):
    (tmp_path / "vocab.txt").write_text("a\nb\nc\nd\n")
    monkeypatch.setattr(ids, limit, 3)
    with pytest.raises(ModelError, match=why):
        ids.read_vocabulary(tmp_path / "vocab.txt")

"""A word's ids in a model of code points: its number, then its row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.errors import ModelError
from stelmo.text.codepoints import Alphabet, encode_words
from stelmo.text.vocabulary import Vocabulary

SYMBOLS = ("t", "h", "é", "\u3000", "\n", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
T, H, E, SPACE, LINE, BOS, EOS, OOV, PAD, BOW, EOW = range(11)
ALPHABET = Alphabet(SYMBOLS)
WORDS = Vocabulary(("<oov>", "<bos>", "<eos>", "<pad>", "th", "thhhh"))


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
    assert encode_words([word], None, ALPHABET, 7).tolist() == [row]


@pytest.mark.parametrize(
    ("word", "number"),
    [("th", 4), ("Th", 0), ("", 0), ("<S>", 1), ("</S>", 2), ("<bos>", 1), ("<eos>", 2), ("<oov>", 0), ("<pad>", 3)],
)
def test_a_word_is_numbered_by_the_vocabulary_or_is_unknown(word, number):
    assert encode_words([word], WORDS, None, 7).tolist() == [[number]]


def test_a_long_word_is_cut_before_it_is_looked_up():
    assert encode_words(["thhhhhhhh"], WORDS, ALPHABET, 7).tolist() == [[5, EOW, T, H, H, H, H, BOW]]


def test_a_sentence_marker_is_never_cut_but_a_word_written_like_one_is():
    assert encode_words(["<S>"], WORDS, ALPHABET, 4).tolist() == [[1, EOW, BOS, BOW, PAD]]
    assert encode_words(["<bos>"], WORDS, ALPHABET, 4).tolist() == [[0, EOW, OOV, OOV, BOW]]


@given(st.lists(st.text()), st.integers(3, 60))
def test_every_text_gives_rows_of_one_width_with_known_ids(words, width):
    ids = encode_words(words, WORDS, ALPHABET, width)
    assert ids.shape == (len(words), 1 + width)
    assert ids.dtype == np.int64
    assert ((ids[:, 0] >= 0) & (ids[:, 0] < len(WORDS))).all()
    assert ((ids[:, 1:] >= 0) & (ids[:, 1:] < len(ALPHABET))).all()


@pytest.mark.parametrize("lost", SYMBOLS[5:])
def test_an_alphabet_needs_its_markers(lost):
    with pytest.raises(ModelError, match=f"letters: no {lost};"):
        Alphabet(tuple(symbol for symbol in SYMBOLS if symbol != lost), "letters")


def test_an_alphabet_has_each_symbol_once():
    with pytest.raises(ModelError, match="'t' is there twice"):
        Alphabet(("t", *SYMBOLS))

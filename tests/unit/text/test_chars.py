"""The id table, by the examples of the published description and by its properties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stelmo.text import chars

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


def raw(token: str, width: int) -> list[int]:
    """The numbering of the training software, which has no id for "no token here"."""
    return [number - 1 for number in chars.encode(token, width)]


def test_the_published_examples():
    assert raw("th", 5) == [258, 116, 104, 259, 260]
    assert raw("thhhhh", 5) == [258, 116, 104, 104, 259]
    assert raw("\u0100t", 5) == [258, 196, 128, 116, 259]
    assert raw("<S>", 5) == [258, 256, 259, 260, 260]
    assert chars.encode("<S>")[:5] == [259, 257, 260, 261, 261]
    assert chars.encode("</S>")[:4] == [259, 258, 260, 261]


def test_markers_are_case_sensitive_and_unk_is_read_as_characters():
    assert chars.encode("<s>")[1] == ord("<") + 1
    assert chars.encode("<UNK>")[1:6] == [ord(letter) + 1 for letter in "<UNK>"]


def test_an_empty_token_has_its_two_word_markers():
    assert raw("", 5) == [258, 259, 260, 260, 260]


def test_the_cut_falls_at_byte_48_even_inside_a_character():
    assert raw("a" * 47 + "é", 50)[47:50] == [ord("a"), 0xC3, 259]


def test_lone_surrogates_are_dropped_before_the_cut():
    assert chars.encode("\ud800" * 60 + "ab") == chars.encode("ab")


def test_a_word_of_200000_characters_is_a_row_like_any_other():
    assert chars.encode("x" * 200_000) == chars.encode("x" * 48)


@given(ANY_TEXT, st.integers(3, 60))
def test_a_row_is_markers_around_the_first_bytes_and_padding(token, width):
    row = chars.encode(token, width)
    end = row.index(260)
    assert len(row) == width
    assert row[0] == 259
    assert set(row[end + 1 :]) <= {261}
    assert all(1 <= number <= 258 for number in row[1:end])


@given(ANY_TEXT.filter(lambda token: token not in ("<S>", "</S>")))
def test_the_bytes_can_be_read_back(token):
    row = chars.encode(token)
    assert bytes(number - 1 for number in row[1 : row.index(260)]) == token.encode("utf-8", "ignore")[:48]


@given(st.lists(st.lists(ANY_TEXT, max_size=4), max_size=4))
def test_sentences_are_padded_with_rows_of_zeros(sentences):
    ids = chars.encode_sentences(sentences)
    assert ids.shape == (len(sentences), max(map(len, sentences), default=0), 50)
    for row, tokens in zip(ids, sentences, strict=True):
        np.testing.assert_array_equal(row[: len(tokens)], chars.encode_words(tokens))
        assert not row[len(tokens) :].any()

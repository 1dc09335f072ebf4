"""One token → its row of character ids. The only file that knows the id table; knows no model.

   0         no token here (padding of a short sentence)
   1 .. 256  the UTF-8 bytes 0 .. 255
 257, 258    begin, end of sentence
 259, 260    begin, end of word
 261         no character here (padding of a short word)

"Characters" are bytes: a Cyrillic letter takes two ids, a Devanagari letter three.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROWS = 262
BEGIN_SENTENCE, END_SENTENCE = "<S>", "</S>"
_BEGIN_WORD, _END_WORD, _NO_CHARACTER = 259, 260, 261
_MARKERS = {BEGIN_SENTENCE: 257, END_SENTENCE: 258}


def encode(token: str, width: int = 50) -> list[int]:
    """The ids of one token: begin of word, at most width − 2 bytes, end of word, padding.

    The cut counts bytes and may fall inside a character: the published models were trained that way.
    """
    # Lone surrogates have no UTF-8 form; the original drops them.
    text = token.encode("utf-8", "ignore")[: width - 2]
    ids = [_MARKERS[token]] if token in _MARKERS else [byte + 1 for byte in text]
    return [_BEGIN_WORD, *ids, _END_WORD] + [_NO_CHARACTER] * (width - 2 - len(ids))


def encode_words(words: Sequence[str], width: int = 50) -> NDArray[np.int64]:
    """Words → (U, width)."""
    return np.array([encode(word, width) for word in words], np.int64).reshape(len(words), width)


def encode_sentences(sentences: Sequence[Sequence[str]], width: int = 50) -> NDArray[np.int64]:
    """Sentences → (B, longest, width), without sentence markers; rows past a sentence's end are zero."""
    longest = max(map(len, sentences), default=0)
    ids = np.zeros((len(sentences), longest, width), np.int64)
    for row, tokens in enumerate(sentences):
        ids[row, : len(tokens)] = encode_words(tokens, width)
    return ids

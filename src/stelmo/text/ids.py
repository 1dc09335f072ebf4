"""Words → the ids that a model's input layer reads. The only file that knows which kind of model reads which ids.

U words. A model that reads bytes gets (U, C) character ids; one that reads word ids gets (U,); one that reads code
points gets (U, K): the number of the word, the ids of its characters, or both, as its configuration says.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stelmo.config import CodePointInput, ModelConfig, WordInput
from stelmo.errors import ModelError
from stelmo.text import chars, codepoints
from stelmo.text.codepoints import Alphabet
from stelmo.text.vocabulary import Vocabulary

Ids = NDArray[np.int64]
WordIds = Callable[[Sequence[str]], Ids]


def word_ids(config: ModelConfig, vocabulary: Vocabulary | None, alphabet: Alphabet | None = None) -> WordIds:
    """The function from words to ids for this model. It can be pickled."""
    reads = config.input
    if isinstance(reads, CodePointInput):
        words = vocabulary if reads.word_table is not None else None
        symbols = alphabet if reads.convolution is not None else None
        return partial(codepoints.encode_words, vocabulary=words, alphabet=symbols, width=reads.max_characters)
    if not isinstance(reads, WordInput):
        return partial(chars.encode_words, width=reads.max_characters)
    if vocabulary is None:
        raise ModelError("a model that reads word ids needs its vocabulary; none was given")
    return partial(_numbers, vocabulary)


def _numbers(vocabulary: Vocabulary, words: Sequence[str]) -> Ids:
    return np.array([vocabulary.id(word) for word in words], np.int64)

"""A window of types → the distinct words, where they stand, and the targets as vocabulary ids."""

import numpy as np
import pytest
import tiny

from stelmo.config import CodePointConvolution, CodePointInput, ModelConfig, WordInput, WordTable
from stelmo.corpus.windows import Window
from stelmo.errors import ModelError
from stelmo.text import chars
from stelmo.text.ids import ALPHABET_MARKERS, WORD_MARKERS, Alphabet, encode_code_points
from stelmo.text.vocabulary import Vocabulary
from stelmo.train.batches import Batches, word_ids

TYPES = ["<S>", "</S>", "the", "bank", "über", "zebra", "x" * 70]
TARGETS = np.array([0, 1, 3, 4, 8, 2, 2], np.int32)


class Types:
    """Counts how often a word is asked for."""

    def __init__(self):
        self.asked = []

    def __len__(self):
        return len(TYPES)

    def bytes_of(self, types):
        self.asked += list(types)
        return [TYPES[number].encode() for number in types]


PLACES = np.array([[[0, 1], [1, 2]], [[3, 2], [2, 1]]])
WINDOW = Window(np.array([[[0, 2], [2, 6]], [[1, 5], [5, 2]]]), np.array([[[2, 6], [6, 1]], [[5, 2], [2, 0]]]), PLACES)


def test_a_batch_holds_each_word_once_and_says_where_it_stands():
    batch = Batches(word_ids(tiny.CONFIG, None), Types(), TARGETS)(WINDOW)
    expected = chars.encode_words([TYPES[number] for number in WINDOW.inputs_2TB.ravel()])
    assert batch.ids_U.shape == (5, 50)
    assert np.array_equal(batch.ids_U[batch.index_2TB].numpy().reshape(-1, 50), expected)
    assert np.array_equal(batch.targets_2TB.numpy(), TARGETS[WINDOW.targets_2TB])


def test_a_word_is_encoded_when_it_is_first_met_and_never_again():
    types = Types()
    batches = Batches(word_ids(tiny.CONFIG, None), types, TARGETS)
    first, again = batches(WINDOW), batches(WINDOW)
    assert np.array_equal(first.ids_U, again.ids_U)
    assert sorted(types.asked) == [0, 1, 2, 5, 6]


def test_a_model_of_word_ids_reads_numbers_of_the_vocabulary():
    vocabulary = Vocabulary(tiny.WORDS)
    batch = Batches(word_ids(tiny.WORD_CONFIG, vocabulary), Types(), TARGETS)(WINDOW)
    assert batch.ids_U[batch.index_2TB].tolist() == TARGETS[WINDOW.inputs_2TB].tolist()


def test_a_model_of_word_ids_needs_a_vocabulary():
    with pytest.raises(ModelError, match="vocabulary"):
        word_ids(ModelConfig(input=WordInput(words=10), lstm=tiny.LSTM), None)


def test_a_model_of_code_points_reads_both():
    alphabet = Alphabet((*ALPHABET_MARKERS, *"thebank"))
    vocabulary = Vocabulary((*WORD_MARKERS, "the"))
    reads = CodePointInput(
        word_table=WordTable(rows=4, width=3),
        convolution=CodePointConvolution(embedding=4, filters=((2, 5),), rows=len(alphabet)),
    )
    batch = Batches(word_ids(ModelConfig(input=reads, lstm=tiny.LSTM), vocabulary, alphabet), Types(), TARGETS)(WINDOW)
    expected = encode_code_points(["<S>", "</S>", "the", "zebra", "x" * 70], vocabulary, alphabet)
    assert np.array_equal(batch.ids_U, expected)

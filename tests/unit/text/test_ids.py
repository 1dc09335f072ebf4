"""Words → the ids of each kind of model, as the encoders of `text` make them; what is missing is refused."""

import pickle

import numpy as np
import pytest
import tiny

from stelmo.config import CodePointConvolution, CodePointInput, ModelConfig, WordTable
from stelmo.errors import ModelError
from stelmo.text import chars, codepoints
from stelmo.text.codepoints import Alphabet
from stelmo.text.ids import word_ids
from stelmo.text.vocabulary import Vocabulary

WORDS = ["<S>", "bank", "zebra", "x" * 70, ""]
VOCABULARY = Vocabulary((*codepoints.WORD_MARKERS, "bank"))
ALPHABET = Alphabet((*codepoints.ALPHABET_MARKERS, *"bank"))


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
    np.testing.assert_array_equal(found, codepoints.encode_words(WORDS, table, symbols, 20))


@pytest.mark.parametrize("config", [tiny.CONFIG, tiny.WORD_CONFIG, code_points(True, True)], ids=lambda c: c.input.kind)
def test_the_function_can_be_pickled(config):
    found = word_ids(config, Vocabulary((*tiny.WORDS, *codepoints.WORD_MARKERS)), ALPHABET)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found))(WORDS), found(WORDS))

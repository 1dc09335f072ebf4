"""Neighbours without context are those of a plain cosine over one vector a word."""

import numpy as np
import pytest
import tiny

from stelmo.embed.model import Model
from stelmo.errors import ConfigError
from stelmo.explore import static

GLOVE = "bank 1 0 0\nriver 0.9 0.1 0\nmoney 0.5 0.5 0\nthe 0 0 1\nzero 0 0 0\n"


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(GLOVE)
    return path


def test_neighbours_of_a_file_are_by_cosine_without_the_word_itself(glove):
    found = static.of_file(glove).neighbours("bank", 10)
    assert [word for word, _ in found] == ["river", "money", "the", "zero"]
    np.testing.assert_allclose([score for _, score in found], [0.9 / np.sqrt(0.82), np.sqrt(0.5), 0, 0], atol=1e-6)


def test_as_many_as_asked_for(glove):
    assert len(static.of_file(glove).neighbours("bank", 2)) == 2


def test_a_word_is_looked_up_in_lower_case_where_its_own_case_is_missing(glove):
    assert static.of_file(glove).neighbours("River", 2)[0][0] == "river"


def test_an_unknown_word_has_no_neighbours(glove):
    assert static.of_file(glove).neighbours("unheard-of", 3) == []


def test_neighbours_of_a_model_are_by_its_layer_0_over_the_words_of_its_vocabulary():
    model = tiny.model()
    words = [word for word in tiny.WORDS if any(map(str.isalpha, word))]
    layers = model.layers([[word] for word in [*words, "banks"]])
    *vectors, query_D = (layers_LTD[0, 0] / np.linalg.norm(layers_LTD[0, 0]) for layers_LTD in layers)
    expected = {word: float(vector_D @ query_D) for word, vector_D in zip(words, vectors, strict=True)}
    found = static.of_model(model).neighbours("banks", 99)  # read by its characters: no word of the vocabulary
    assert [word for word, _ in found] == sorted(words, key=lambda word: -expected[word])
    np.testing.assert_allclose([score for _, score in found], [expected[word] for word, _ in found], atol=1e-5)


def test_a_model_without_a_vocabulary_is_refused():
    with pytest.raises(ConfigError, match="no vocabulary, so it has no static neighbours"):
        static.of_model(Model(tiny.saved(vocabulary=None)))

"""One vector for each word: the vocabulary's token layer, and means over a corpus against the slow way."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
import tiny

import stelmo
from stelmo.errors import ConfigError, DataError, ModelError, OutputError
from stelmo.jobs import words
from stelmo.settings import WordSettings
from stelmo.store import static
from stelmo.text.formats import Sentence
from stelmo.text.ids import Vocabulary

LINES = ["the river bank .", "", "the bank", "the über bank .", "New\xa0York ."]
SENTENCES = [Sentence(line.split(" ") if line else [], "corpus", 1) for line in LINES]


def means(model, layer):
    found = defaultdict(list)
    for sentence, vectors_TD in zip(SENTENCES, model.embed([s.tokens for s in SENTENCES], layer), strict=True):
        for word, vector_D in zip(sentence.tokens, vectors_TD, strict=True):
            found[word].append(vector_D)
    return {word: np.mean(vectors, 0) for word, vectors in found.items()}


@pytest.mark.parametrize("layer", ["mean", "top", 0, 1])
def test_a_words_vector_is_the_mean_over_its_places(model, tmp_path, layer):
    done = words.write_averages(model, SENTENCES, tmp_path / "w.vec", WordSettings(layer=layer))
    found = static.read(tmp_path / "w.vec")
    assert done == words.Written(words=5, width=12, unwritable=1)
    assert found.words == ["the", "bank", ".", "river", "über"]  # the commonest first, then the first met
    expected = means(model, layer)
    np.testing.assert_allclose(found.vectors_VD, [expected[word] for word in found.words], rtol=1e-5, atol=1e-6)


def test_layer_0_over_a_corpus_is_the_vocabularys_twice_over(model, tmp_path):
    words.write_averages(model, SENTENCES, tmp_path / "corpus.bin", WordSettings(layer=0))
    words.write_vocabulary(model, tmp_path / "vocabulary.bin")
    corpus, vocabulary = static.read(tmp_path / "corpus.bin"), static.read(tmp_path / "vocabulary.bin")
    for word in ("the", "bank", "über"):
        half = vocabulary.of([word])[0]
        np.testing.assert_allclose(corpus.of([word])[0], np.concatenate([half, half]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("together", [1, 3, 4096])
def test_a_vocabulary_keeps_its_order_without_the_marks(tmp_path, monkeypatch, together):
    monkeypatch.setattr(words, "WORDS_AT_ONCE", together)
    model = tiny.model()
    assert words.write_vocabulary(model, tmp_path / "w.txt") == words.Written(words=8, width=6)
    found = static.read(tmp_path / "w.txt")
    assert found.words == list(tiny.WORDS[2:])
    np.testing.assert_allclose(found.vectors_VD, model.token_vectors(tiny.WORDS[2:]), rtol=1e-5, atol=1e-6)


def test_a_word_that_a_vocabulary_repeats_is_written_once(tmp_path):
    model = stelmo.Model(tiny.saved(vocabulary=Vocabulary((*tiny.WORDS, "the", "bank"))))
    assert words.write_vocabulary(model, tmp_path / "w.vec") == words.Written(words=8, width=6)
    assert static.read(tmp_path / "w.vec").words == list(tiny.WORDS[2:])


def test_rare_words_are_left_out_and_counted(tmp_path):
    done = words.write_averages(tiny.model(), SENTENCES, tmp_path / "w.vec", WordSettings(min_count=3))
    assert static.read(tmp_path / "w.vec").words == ["the", "bank", "."]
    assert done == words.Written(words=3, width=12, rare=3)


def test_memory_is_bounded_and_what_has_no_room_is_counted(tmp_path):
    settings = WordSettings(max_words=2)
    done = words.write_averages(tiny.model(), SENTENCES, tmp_path / "w.vec", settings)
    assert static.read(tmp_path / "w.vec").words == ["the", "river"]
    assert done.late == sum(map(len, (s.tokens for s in SENTENCES))) - 3 - 1


def test_the_corpus_is_read_once_as_it_comes(tmp_path):
    endless = itertools.chain(iter(SENTENCES * 300))
    told = []
    words.write_averages(tiny.model(), endless, tmp_path / "w.vec", advance=told.append)
    assert sum(told) == 300 * sum(len(s.tokens) for s in SENTENCES)


def test_nothing_is_written_where_no_word_is_left(tmp_path):
    for sentences, settings, message in (
        ([], None, "the corpus contains no word"),
        (SENTENCES[1:2], None, "the corpus contains no word"),
        (SENTENCES, WordSettings(min_count=9), r"none of \d words occurs 9 times"),
    ):
        with pytest.raises(DataError, match=message):
            words.write_averages(tiny.model(), sentences, tmp_path / "w.vec", settings)
    assert not list(tmp_path.iterdir())


def test_mistakes_are_refused_before_any_work(tmp_path):
    unread = iter(SENTENCES)
    with pytest.raises(OutputError, match="words are written to"):
        words.write_averages(tiny.model(), unread, tmp_path / "w.hdf5")
    with pytest.raises(ConfigError, match="layer: 3 is not one of"):
        words.write_averages(tiny.model(), unread, tmp_path / "w.vec", WordSettings(layer=3))
    assert next(unread) is SENTENCES[0]
    nameless = words.Model(tiny.saved(vocabulary=None, read_softmax=None))
    with pytest.raises(ModelError, match="the model has no vocabulary"):
        words.write_vocabulary(nameless, tmp_path / "w.vec")

"""bilm-tf's batchers and dumps, and its recipe of cached token embeddings (usage_token.py)."""

import h5py
import numpy as np
import oracle
import pytest

import stelmo
from stelmo.compat.bilm import (
    Batcher,
    TokenBatcher,
    UnicodeCharsVocabulary,
    Vocabulary,
    dump_bilm_embeddings,
    dump_token_embeddings,
)
from stelmo.errors import DataError

OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
SENTENCES = [["the", "river"], ["bank"]]
# As the recipe writes it: the words of its own text and both markers in any order, no <UNK>, no end of the last line.
WORDS = ["river", "</S>", "the", "<S>", "bank"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    oracle.write(tmp_path, OPTIONS, ARRAYS)
    (tmp_path / "vocab_small.txt").write_text("\n".join(WORDS))
    (tmp_path / "text.txt").write_text("the river\nbank\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_batchers_number_characters_and_words_with_both_markers(files):
    ids = Batcher("vocab_small.txt", 50).batch_sentences(SENTENCES)
    assert ids.shape == (2, 4, 50)
    assert ids[:, :, 1].tolist() == [[257, ord("t") + 1, ord("r") + 1, 258], [257, ord("b") + 1, 258, 0]]
    assert TokenBatcher("vocab_small.txt").batch_sentences(SENTENCES).tolist() == [[4, 3, 1, 2], [4, 5, 2, 0]]


def test_a_vocabulary_numbers_words_between_the_markers(files):
    (files / "all.txt").write_text("<S>\n</S>\n<UNK>\nthe\n.\n")
    vocabulary = Vocabulary("all.txt", validate_file=True)
    assert (vocabulary.size, vocabulary.bos, vocabulary.eos, vocabulary.unk) == (5, 0, 1, 2)
    assert vocabulary.encode("the quokka .").tolist() == [0, 3, 2, 4, 1]
    assert vocabulary.encode([".", "quokka", "the"], reverse=True, split=False).tolist() == [1, 4, 2, 3, 0]
    assert vocabulary.decode([3, 4]) == "the ."
    assert vocabulary.word_to_id(vocabulary.id_to_word(3)) == 3


def test_a_vocabulary_without_the_unknown_word_is_refused_only_if_that_is_asked(files):
    assert Vocabulary("vocab_small.txt").unk == -1
    with pytest.raises(ValueError, match=r"vocab_small\.txt: a line of <S>, </S>, <UNK> is missing"):
        Vocabulary("vocab_small.txt", validate_file=True)
    (files / "words.txt").write_text("the\nriver\n")
    with pytest.raises(ValueError, match=r"words\.txt: no line <S>"):
        TokenBatcher("words.txt")


def test_a_vocabulary_of_characters_counts_them_from_zero(files):
    vocabulary = UnicodeCharsVocabulary("vocab_small.txt", 5)
    assert vocabulary.word_to_char_ids("th").tolist() == [258, 116, 104, 259, 260]
    assert vocabulary.word_to_char_ids("Āttt").tolist() == [258, 196, 128, 116, 259]
    rows = vocabulary.encode_chars("th Ā")
    assert rows[:, 1].tolist() == [256, 116, 196, 257]
    np.testing.assert_array_equal(vocabulary.encode_chars("Ā th", reverse=True), rows[::-1])
    np.testing.assert_array_equal(vocabulary.word_char_ids[vocabulary.bos], vocabulary.bos_chars)
    np.testing.assert_array_equal(Batcher(None, 5).batch_sentences([["th", "Ā"]])[0], 1 + rows)


@pytest.mark.parametrize("stateful", [False, True])
def test_a_text_is_dumped_line_by_line(files, stateful):
    arguments = ("vocab_small.txt", "text.txt", "options.json", "weights.hdf5", "dump.hdf5")
    dump_bilm_embeddings(*arguments, stateful=stateful)
    batches = [[tokens] for tokens in SENTENCES]
    carried = [batch[0] for batch in oracle.carry(OPTIONS, ARRAYS, batches)[0]]
    expected = carried if stateful else [oracle.layers(OPTIONS, ARRAYS, tokens) for tokens in SENTENCES]
    with h5py.File("dump.hdf5") as file:
        assert set(file) == {"0", "1"}
        for number, layers in enumerate(expected):
            np.testing.assert_allclose(file[str(number)][...], layers, atol=1e-5)


def test_cached_token_embeddings_of_a_vocabulary_without_unknown_word_give_the_same_vectors(files):
    dump_token_embeddings("vocab_small.txt", "options.json", "weights.hdf5", "cache.hdf5")
    with h5py.File("cache.hdf5") as file:
        assert file["embedding"].shape == (5, 4)
    model = stelmo.load("weights.hdf5", vocabulary="vocab_small.txt", token_embeddings="cache.hdf5")
    for found, tokens in zip(model.layers(SENTENCES), SENTENCES, strict=True):
        np.testing.assert_allclose(found, oracle.layers(OPTIONS, ARRAYS, tokens), atol=1e-5)
    with pytest.raises(DataError, match="no line <UNK>"):
        model.layers([["quokka"]])

"""The functions of bilm-tf that work without a TensorFlow graph, over any model in the published layout.

    from bilm import Batcher, TokenBatcher, dump_bilm_embeddings   ┐
    from bilm.data import Vocabulary, UnicodeCharsVocabulary       ┴►  from stelmo.compat.bilm import …

`BidirectionalLanguageModel` and `weight_layers` build a graph; `stelmo.load` and `stelmo.Elmo` take their place.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.compat import File, loaded, sentences_of
from stelmo.compat.elmo_embedder import ElmoEmbedder
from stelmo.errors import ConfigError
from stelmo.store import atomic, vectors
from stelmo.text import chars
from stelmo.text.formats import Sentence
from stelmo.text.ids import UNKNOWN, read_vocabulary

IMPORTS = {
    "bilm": ("Batcher", "TokenBatcher", "dump_bilm_embeddings", "dump_token_embeddings"),
    "bilm.data": ("Vocabulary", "UnicodeCharsVocabulary", "Batcher", "TokenBatcher"),
    "bilm.model": ("dump_bilm_embeddings", "dump_token_embeddings"),
}
ABSENT = {
    "bilm.BidirectionalLanguageModel": "builds a TensorFlow graph; `stelmo.load`",
    "bilm.weight_layers": "builds a TensorFlow graph; `stelmo.Elmo`",
    "bilm.training.train": "the command `stelmo pretrain`",
    "bilm.training.test": "the command `stelmo perplexity`",
    "bilm.training.dump_weights": "the command `stelmo convert --format bilm`",
}

Array = NDArray[Any]


class Vocabulary:
    """The words of a file, one per line ↔ their numbers, from 0; `bos`, `eos`, `unk` are −1 where missing."""

    def __init__(self, filename: str | Path, validate_file: bool = False) -> None:
        self._words = read_vocabulary(Path(filename))
        markers = (chars.BEGIN_SENTENCE, chars.END_SENTENCE, UNKNOWN)
        self.bos, self.eos, self.unk = (self._words.id(word) if word in self._words else -1 for word in markers)
        if validate_file and -1 in (self.bos, self.eos, self.unk):
            raise ConfigError(f"{filename}: a line of {', '.join(markers)} is missing; expected all of them")

    @property
    def size(self) -> int:
        return len(self._words)

    def word_to_id(self, word: str) -> int:
        """The word's number, or that of <UNK>."""
        return self._words.id(word)

    def id_to_word(self, cur_id: int) -> str:
        return self._words.words[cur_id]

    def decode(self, cur_ids: Sequence[int]) -> str:
        return " ".join(map(self.id_to_word, cur_ids))

    def encode(self, sentence: str | Sequence[str], reverse: bool = False, split: bool = True) -> Array:
        """The numbers of the words between those of <S> and </S>, which change places with `reverse`."""
        ids = [self.word_to_id(word) for word in _split(sentence, split)]
        first, last = (self.eos, self.bos) if reverse else (self.bos, self.eos)
        return np.array([first, *ids, last], np.int32)


class UnicodeCharsVocabulary(Vocabulary):
    """The same with the characters of words, numbered from 0: without the 1 that `Batcher` adds for padding."""

    bos_char, eos_char, bow_char, eow_char, pad_char = 256, 257, 258, 259, 260

    def __init__(self, filename: str | Path, max_word_length: int, **settings: Any) -> None:
        super().__init__(filename, **settings)
        self.max_word_length = max_word_length
        self.bos_chars, self.eos_chars = map(self.word_to_char_ids, (chars.BEGIN_SENTENCE, chars.END_SENTENCE))

    @property
    def word_char_ids(self) -> Array:
        """(size, max_word_length), all words of the file."""
        return (chars.encode_words(self._words.words, self.max_word_length) - 1).astype(np.int32)

    def word_to_char_ids(self, word: str) -> Array:
        return np.array(chars.encode(word, self.max_word_length), np.int32) - 1

    def encode_chars(self, sentence: str | Sequence[str], reverse: bool = False, split: bool = True) -> Array:
        """(T + 2, max_word_length) with <S> and </S>, which change places with `reverse`."""
        rows = [self.word_to_char_ids(word) for word in _split(sentence, split)]
        first, last = (self.eos_chars, self.bos_chars) if reverse else (self.bos_chars, self.eos_chars)
        return np.vstack([first, *rows, last])


def _split(sentence: str | Sequence[str], split: bool) -> Sequence[str]:
    return sentence.split() if split and isinstance(sentence, str) else sentence


class Batcher:
    """Lists of tokens → character ids, <S> and </S> included. The vocabulary is not needed, and not read."""

    def __init__(self, lm_vocab_file: File, max_token_length: int) -> None:
        self._max_token_length = max_token_length

    def batch_sentences(self, sentences: Sequence[Sequence[str]]) -> Array:
        """(N, longest + 2, max_token_length), zeros past a sentence's end."""
        marked = [[chars.BEGIN_SENTENCE, *tokens, chars.END_SENTENCE] for tokens in sentences_of(sentences)]
        return chars.encode_sentences(marked, self._max_token_length)


class TokenBatcher:
    """Lists of tokens → word ids, <S> and </S> included, for a model that reads a cache of token embeddings."""

    def __init__(self, lm_vocab_file: str | Path) -> None:
        self._vocabulary = Vocabulary(lm_vocab_file)
        if -1 in (self._vocabulary.bos, self._vocabulary.eos):
            raise ConfigError(f"{lm_vocab_file}: no line <S>, or no line </S>; sentences begin and end with them")

    def batch_sentences(self, sentences: Sequence[Sequence[str]]) -> Array:
        """(N, longest + 2): 1 + the line of the word in the vocabulary, zeros past a sentence's end."""
        rows = [1 + self._vocabulary.encode(tokens, split=False) for tokens in sentences_of(sentences)]
        ids = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
        for row, found in zip(ids, rows, strict=True):
            row[: len(found)] = found
        return ids


def dump_bilm_embeddings(
    vocab_file: File,
    dataset_file: str | Path,
    options_file: File,
    weight_file: File,
    outfile: str | Path,
    *,
    stateful: bool = False,
) -> None:
    """A file of one tokenised sentence per line → HDF5, all layers (L+1, T, 2P) of line N in dataset "N".

    Every sentence starts from zeros; `stateful=True` carries the LSTM state from line to line, as the original does.
    """
    embedder = ElmoEmbedder(options_file, weight_file, stateful=stateful)
    text = Path(dataset_file).open(encoding="utf-8")  # noqa: SIM115 (closed by embed_file)
    embedder.embed_file(text, outfile, batch_size=1 if stateful else 64, forget_sentences=True)


def dump_token_embeddings(vocab_file: str | Path, options_file: File, weight_file: File, outfile: str | Path) -> None:
    """A vocabulary → HDF5: the token layer of every word, in the order of its lines, in the dataset "embedding"."""
    model = loaded(weight_file, options_file)
    words = read_vocabulary(Path(vocab_file)).words
    shape = vectors.Shape(model.config.projection, None, True, "float32")
    about = {"forget_sentences": True, "use_sentence_keys": True}
    with (
        atomic.new_file(Path(outfile), overwrite=True) as draft,
        vectors.writing(draft, vectors.Hdf5Writer, shape, about) as file,
    ):
        file.add(0, Sentence(["embedding"], "", 1), model.token_vectors(words))

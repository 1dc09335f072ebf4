"""The functions of bilm-tf that work without a TensorFlow graph, over any model in the published layout.

    from bilm import Batcher, TokenBatcher, dump_bilm_embeddings   →   from stelmo.compat.bilm import …

`BidirectionalLanguageModel` and `weight_layers` build a graph; `stelmo.load` and `stelmo.Elmo` take their place.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.compat.elmo_embedder import ElmoEmbedder
from stelmo.compat.inputs import File, loaded, sentences_of
from stelmo.store import atomic, vectors
from stelmo.text import chars
from stelmo.text.formats import Sentence
from stelmo.text.vocabulary import read_vocabulary

IMPORTS = {"bilm": ("Batcher", "TokenBatcher", "dump_bilm_embeddings", "dump_token_embeddings")}

Array = NDArray[Any]


class Batcher:
    """Lists of tokens → character ids, <S> and </S> included. The vocabulary is not needed, and not read."""

    def __init__(self, lm_vocab_file: File, max_token_length: int) -> None:
        self._max_token_length = max_token_length

    def batch_sentences(self, sentences: Sequence[Sequence[str]]) -> Array:
        """(N, longest + 2, max_token_length), zeros past a sentence's end."""
        return chars.encode_sentences(_marked(sentences), self._max_token_length)


class TokenBatcher:
    """Lists of tokens → word ids, <S> and </S> included, for a model that reads a cache of token embeddings."""

    def __init__(self, lm_vocab_file: str | Path) -> None:
        self._vocabulary = read_vocabulary(Path(lm_vocab_file))

    def batch_sentences(self, sentences: Sequence[Sequence[str]]) -> Array:
        """(N, longest + 2): 1 + the line of the word in the vocabulary, zeros past a sentence's end."""
        marked = _marked(sentences)
        ids = np.zeros((len(marked), max(map(len, marked), default=0)), np.int64)
        for row, tokens in zip(ids, marked, strict=True):
            row[: len(tokens)] = [1 + self._vocabulary.id(token) for token in tokens]
        return ids


def _marked(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[chars.BEGIN_SENTENCE, *tokens, chars.END_SENTENCE] for tokens in sentences_of(sentences)]


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

"""`simple_elmo.ElmoModel` over any model stelmo loads. Knows no format.

    from simple_elmo import ElmoModel   →   from stelmo.compat.simple_elmo import ElmoModel

What differs from the original, each for the better:

  vectors        the same for a sentence whatever batch or call it comes in; float32
  averages       over a sentence's own words; the original counts the padding up to the longest sentence, too
  substitutes    from the whole context; the original forgets the LSTM state from word to word and so sees one
                 neighbour, needs at least a batch of sentences, and returns the last versions' candidates unsorted
  261 or 262     n_characters may say either
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.compat.padded import padded
from stelmo.config import StatePolicy, choose
from stelmo.embed.load import load
from stelmo.embed.model import Model, Reduce, all_layers, mean_of_tokens, picking
from stelmo.engine.inputs import checked
from stelmo.errors import ConfigError, DataError
from stelmo.lm import probabilities as lm
from stelmo.text.vocabulary import Vocabulary

Array = NDArray[Any]
Texts = Sequence[str | Sequence[str]]
LAYERS = ("average", "top", "all")


class ElmoModel:
    """Call `load` first. `warmup=True` starts every sentence in the model's warm state, False from zeros."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self.batch_size = 0

    def load(
        self, directory: str | Path, max_batch_size: int = 32, limit: int = 100, full: bool = False, **settings: Any
    ) -> None:
        """A folder or file of a model. `full` asks for the softmax at once, which substitutes need.

        `limit` and `max_batch_size` are kept for their names: a word is encoded once in any case, and sentences
        are computed together by their number of tokens.
        """
        self._model = load(directory, batch_rows=max_batch_size, **settings)
        if full:
            _ = self._model.softmax  # read now, or refused now
        self.batch_size = max_batch_size

    @property
    def model(self) -> Model:
        """The stelmo model behind it."""
        if self._model is None:
            raise ConfigError("ElmoModel: no model is loaded; call load(path) first")
        return self._model

    @property
    def vector_size(self) -> int:
        return self.model.config.width

    @property
    def n_layers(self) -> int:
        return self.model.config.depth

    @property
    def vocab(self) -> Vocabulary | None:
        return self.model.vocabulary

    def get_elmo_vectors(
        self, texts: Texts, warmup: bool = True, layers: str = "average", session: None = None
    ) -> Array:
        """(N, longest, 2P), zeros past a sentence's end; layers "top" the same, "all" (N, L+1, longest, 2P)."""
        return padded(self._run(texts, warmup, self._pick(layers), session))

    def get_elmo_vector_average(
        self, texts: Texts, warmup: bool = True, layers: str = "average", session: None = None
    ) -> Array:
        """(N, 2P), or (N, L+1, 2P) for "all": the mean over each sentence's own words, scaled to length 1."""
        pick = self._pick(layers)
        vectors = self._run(texts, warmup, lambda layers_LTD: mean_of_tokens(pick(layers_LTD)), session)
        if not vectors:
            raise DataError("no sentences; expected at least one")
        return np.stack([vector / max(np.linalg.norm(vector), np.finfo(vector.dtype).tiny) for vector in vectors])

    def get_elmo_substitutes(
        self, raw_sentences: Texts, topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """What each direction expects in the place of every word: for each sentence, for each word

            {"word": …, "forward": {"candidates": ids, "candidate_words": …, "logp": …}, "backward": {…}}

        with the topn best first and natural logarithms to four places. A word outside the vocabulary is "<UNK>".
        """
        sentences = _sentences(raw_sentences)
        found = lm.candidates(self.model, self.model.softmax, sentences, topn, markers=not nodelimiters)
        words = self.vocab
        assert words is not None, "candidates() has refused a model without words"
        return [_described(tokens, *both, words) for tokens, both in zip(sentences, found, strict=True)]

    def _run(self, texts: Texts, warmup: bool, reduce: Reduce, session: None) -> list[Array]:
        if session is not None:
            raise ConfigError("session: no TensorFlow is involved; leave the argument out")
        policy: StatePolicy = "warm" if warmup else "fresh"
        return self.model.run(_sentences(texts), reduce, policy)[0]

    def _pick(self, layers: str) -> Reduce:
        choose("layers", layers, LAYERS)
        if layers == "all":
            return all_layers
        return picking("mean" if layers == "average" else "top", self.n_layers)


def _sentences(texts: Texts) -> list[Sequence[str]]:
    """A string is split at white space; the original would take its letters for words."""
    if isinstance(texts, str):
        raise DataError("a string; expected a list of sentences: [text]")
    return checked(text.split() if isinstance(text, str) else text for text in texts)


def _described(
    tokens: Sequence[str], forward: lm.Candidates, backward: lm.Candidates, words: Vocabulary
) -> list[dict[str, Any]]:
    return [
        {
            "word": words.words[words.id(token)],
            "forward": _direction(forward, place, words),
            "backward": _direction(backward, place, words),
        }
        for place, token in enumerate(tokens)
    ]


def _direction(found: lm.Candidates, place: int, words: Vocabulary) -> dict[str, list[Any]]:
    ids = found.ids[place].tolist()
    return {
        "candidates": ids,
        "candidate_words": [words.words[number] for number in ids],
        "logp": np.round(found.log_probs[place].astype(float), 4).tolist(),
    }

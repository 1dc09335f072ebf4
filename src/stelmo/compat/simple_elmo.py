"""`simple_elmo.ElmoModel` over any model that stelmo loads.

  from simple_elmo import ElmoModel   →   from stelmo.compat.simple_elmo import ElmoModel

state          every sentence starts from zeros, and has the same vectors in any batch and call. The original runs the
               first batch twice (`warmup`) and carries the state from batch to batch: `load(…, stateful=True)`
averages       over a sentence's own words; the original counts the padding up to the longest sentence, too
substitutes    from the whole context, best first; the original forgets the LSTM state from word to word
261 or 262     n_characters can be either
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.compat import loaded, padded
from stelmo.compat.bilm import Batcher
from stelmo.config import CharInput, choose
from stelmo.embed.model import Model, Reduce, all_layers, mean_of_tokens, picking
from stelmo.engine.engine import checked
from stelmo.errors import ConfigError, DataError
from stelmo.lm import probabilities as lm
from stelmo.text.ids import Vocabulary

IMPORTS = {"simple_elmo": ("ElmoModel",)}
ABSENT = {
    "simple_elmo.Batcher": "`stelmo.compat.bilm.Batcher`, or `model.batcher`",
    "simple_elmo.BidirectionalLanguageModel": "builds a TensorFlow graph; `stelmo.load`",
    "simple_elmo.weight_layers": "builds a TensorFlow graph; `stelmo.Elmo`",
    "simple_elmo.divide_chunks": "not needed: `get_elmo_vectors` forms the batches",
    "simple_elmo.ElmoModel.warmup": "not needed: `load(…, stateful=True)` warms up as the original does",
}

Array = NDArray[Any]
Texts = Sequence[str | Sequence[str]]
LAYERS = ("average", "top", "all")


class ElmoModel:
    """Call `load` first."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self.batch_size, self.stateful, self.layers = 0, False, "average"

    def load(
        self,
        directory: str | Path,
        max_batch_size: int = 32,
        limit: int = 100,
        full: bool = False,
        *,
        top: bool = False,
        stateful: bool = False,
        **settings: Any,
    ) -> str:
        """Load a model folder or file. `full` reads the softmax, which substitutes need, at once. `top`, of the first
        releases, makes the top layer the default in place of the average.

        `stateful` gives the original's numbers: the first batch of `max_batch_size` sentences is run twice if
        `warmup`, and the LSTM state is carried from batch to batch. `limit` is accepted and not needed: each distinct
        word is encoded only once.
        """
        self._model = loaded(directory, batch_rows=max_batch_size, **settings)
        if full:
            _ = self._model.softmax  # read, or refused, now
        self.batch_size, self.stateful, self.layers = max_batch_size, stateful, "top" if top else "average"
        return "The model is now loaded."

    @property
    def model(self) -> Model:
        """The stelmo model inside."""
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
    def max_chars(self) -> int:
        reads = self.model.config.input
        return reads.max_characters if isinstance(reads, CharInput) else 0

    @property
    def batcher(self) -> Batcher:
        return Batcher(None, self.max_chars)

    @property
    def vocab(self) -> Vocabulary | None:
        return self.model.vocabulary

    def get_elmo_vectors(
        self, texts: Texts, warmup: bool = True, layers: str | None = None, session: None = None
    ) -> Array:
        """(N, longest, 2P), zeros past a sentence's end, for layers "average" or "top"; "all" (N, L+1, longest, 2P)."""
        return padded(self._run(texts, warmup, self._pick(layers), session))

    def get_elmo_vector_average(
        self, texts: Texts, warmup: bool = True, layers: str | None = None, session: None = None
    ) -> Array:
        """(N, 2P), or (N, L+1, 2P) for "all": the mean over each sentence's own words, scaled to length 1."""
        pick = self._pick(layers)
        vectors = self._run(texts, warmup, lambda layers_LTD: mean_of_tokens(pick(layers_LTD)), session)
        if not vectors:
            raise DataError("no sentences; expected at least one")
        return np.stack([vector / max(np.linalg.norm(vector), np.finfo(vector.dtype).tiny) for vector in vectors])

    def get_elmo_substitutes(self, data: Texts, topn: int = 3, nodelimiters: bool = True) -> list[list[dict[str, Any]]]:
        """What each direction expects in the place of every word: for each sentence, for each word

            {"word": …, "forward": {"candidates": ids, "candidate_words": …, "logp": …}, "backward": {…}}

        with the topn best first. `logp` are natural logarithms of probabilities, rounded to four places; a word outside
        the vocabulary is "<UNK>".
        """
        sentences = _sentences(data)
        found = lm.candidates(self.model, self.model.softmax, sentences, topn, markers=not nodelimiters)
        words = self.vocab
        assert words is not None, "candidates() has refused a model without words"
        return [
            [
                {
                    "word": words.words[words.id(token)],
                    "forward": _direction(forward, place, words),
                    "backward": _direction(backward, place, words),
                }
                for place, token in enumerate(tokens)
            ]
            for tokens, (forward, backward) in zip(sentences, found, strict=True)
        ]

    def _run(self, texts: Texts, warmup: bool, reduce: Reduce, session: None) -> list[Array]:
        if session is not None:
            raise ConfigError("session: TensorFlow is not used; leave the argument out")
        sentences = _sentences(texts)
        if not self.stateful:
            return self.model.run(sentences, reduce)[0]
        state = self.model.carry(sentences[: self.batch_size])[1] if warmup else None
        return self.model.run(sentences, reduce, "carry", state)[0]

    def _pick(self, layers: str | None) -> Reduce:
        layers = self.layers if layers is None else layers
        choose("layers", layers, LAYERS)
        if layers == "all":
            return all_layers
        return picking("mean" if layers == "average" else "top", self.n_layers)


def _sentences(texts: Texts) -> list[Sequence[str]]:
    """A string is split at white space; the original would take its characters for words."""
    if isinstance(texts, str):
        raise DataError("a string; expected a list of sentences: [text]")
    return checked(text.split() if isinstance(text, str) else text for text in texts)


def _direction(found: lm.Candidates, place: int, words: Vocabulary) -> dict[str, list[Any]]:
    """What one direction expects in one place."""
    ids = found.ids[place].tolist()
    return {
        "candidates": ids,
        "candidate_words": [words.words[number] for number in ids],
        "logp": np.round(found.log_probs[place].astype(float), 4).tolist(),
    }

"""spaCy's docs → the same docs with ELMo's vectors.   T tokens, D width.

`doc.tensor` has a row for each token, zeros for white space; hooks take the vectors of tokens, spans and docs from it.
spaCy's tokens are used as they are. Where sentence boundaries are set, each sentence is read by itself; otherwise the
whole doc is one sentence.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stelmo.config import parse
from stelmo.embed.load import SharedModel, absolute_name, shared
from stelmo.embed.model import Array, picking
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.formats import models
from stelmo.integrations import SAVED
from stelmo.settings import Layer, LoadSettings

try:
    from spacy.attrs import IS_SPACE, ORTH
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token
except ImportError:
    raise ConfigError("the pipeline component requires spaCy; pip install 'stelmo[spacy]'") from None

LOAD = LoadSettings()
ABOUT, WEIGHTS = "stelmo.json", "model"  # in the component's folder


class Vectors:
    """The component `stelmo`. The model is loaded with the first doc; components with equal models share it.

    The arguments are those that the configuration sets. They win over a file, which fills in what is None or unset.
    """

    def __init__(self, model: str | None, layer: Any, settings: LoadSettings) -> None:
        self._named, self._model = model, absolute_name(model)
        self._layer, self._settings = layer, settings
        self._fingerprint: str | None = None  # of the saved model, if the component was read from a file

    def __call__(self, doc: Doc) -> Doc:
        self._set([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        remaining = iter(stream)
        while docs := list(islice(remaining, batch_size)):
            self._set(docs)
            yield from docs

    def _set(self, docs: list[Doc]) -> None:
        found = self._shared()
        pieces = [list(_sentences(doc)) for doc in docs]
        words = [sentence.words for sentences in pieces for sentence in sentences]
        layer: Layer = "mean" if self._layer is None else self._layer
        vectors = iter(found.run(words, picking(layer, found.model.config.depth)))
        for doc, sentences in zip(docs, pieces, strict=True):
            tensor_TD: Any = np.zeros((len(doc), found.model.config.width), np.float32)
            for sentence in sentences:
                tensor_TD[sentence.places] = next(vectors)
            doc.tensor = tensor_TD
            for hooks in (doc.user_hooks, doc.user_span_hooks):
                hooks |= {"vector": _mean, "has_vector": _has_words, "similarity": _similarity}
            doc.user_token_hooks |= {"vector": _row, "has_vector": _is_word, "similarity": _similarity}

    def _shared(self) -> SharedModel:
        return shared(self._model, self._settings, self._fingerprint)

    # Files. A folder has the weights, so that the pipeline can be moved; bytes have the model's name.

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        about = {
            "model": self._model,
            "named": self._named,
            "layer": self._layer,
            "fingerprint": self._shared().fingerprint,
            "settings": self._settings.model_dump(include=SAVED, exclude_unset=True),
        }
        return json.dumps(about).encode()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "Vectors":
        self._read(data, None)
        return self

    def _read(self, data: bytes, weights: Path | None) -> None:
        """`weights` are the model beside the data. Another model that the configuration names is used instead."""
        try:
            about = json.loads(data)
            model, layer, self._fingerprint = about["model"], about["layer"], about["fingerprint"]
            settings = {name: about["settings"][name] for name in SAVED & about["settings"].keys()}
            named = about.get("named", self._named)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError("the pipeline's component stelmo is damaged; save the pipeline again") from None
        if self._named in (None, named):
            self._named, self._model = named, model if weights is None else absolute_name(weights)
        self._layer = layer if self._layer is None else self._layer
        asked = settings | self._settings.model_dump(exclude_unset=True)
        before, after = (parse(LoadSettings, values, "stelmo", ConfigError) for values in (settings, asked))
        if before.precision != after.precision and "float64" in (before.precision, after.precision):
            raise ConfigError(
                f"stelmo: precision {after.precision}, but the pipeline was saved with {before.precision}, and a "
                "fingerprint is not the same in float64; leave precision out, or make the pipeline again"
            )
        self._settings = after

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """The bundled model is not copied, nor any if "model" is excluded."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ABOUT).write_bytes(self.to_bytes())
        if self._model is not None and WEIGHTS not in exclude:
            saved = replace(self._shared().model.saved(), read_softmax=None)  # vectors need no softmax
            models.write(saved, folder / WEIGHTS, overwrite=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "Vectors":
        folder = Path(path)
        if not (folder / ABOUT).is_file():
            raise ModelError(f"{folder}: no {ABOUT}; expected what the component stelmo saved")
        weights = folder / WEIGHTS
        self._read((folder / ABOUT).read_bytes(), weights if weights.is_dir() else None)
        return self


def make(
    nlp: Language,
    name: str,
    model: str | None,
    layer: Any,
    state: str | None,
    precision: str | None,
    device: str,
    threads: int | None,
) -> Vectors:
    """What `nlp.add_pipe("stelmo", config={…})` calls."""
    given = {"state": state, "precision": precision, "device": device, "threads": threads}
    asked = {setting: value for setting, value in given.items() if value is not None}
    return Vectors(model, layer, parse(LoadSettings, asked, name, ConfigError))


Language.factory(
    "stelmo",
    assigns=["doc.tensor", "doc.user_hooks", "doc.user_span_hooks", "doc.user_token_hooks"],
    default_config={
        "model": None,
        "layer": None,
        "state": None,
        "precision": None,
        "device": LOAD.device,
        "threads": LOAD.threads,
    },
    func=make,
)


class _Sentence(NamedTuple):
    places: Any  # of its words in the doc
    words: list[str]


def _sentences(doc: Doc) -> Iterator[_Sentence]:
    """spaCy has white-space tokens, which are not words; a sentence of nothing else is skipped.

    Read as arrays: creating an object for each token takes a tenth as long as the vectors.
    """
    names, spaces = doc.to_array([ORTH, IS_SPACE]).T
    text, (places,) = doc.vocab.strings, np.nonzero(spaces == 0)
    ends = [sentence.end for sentence in doc.sents] if doc.has_annotation("SENT_START") else [len(doc)]
    for part in np.split(places, np.searchsorted(places, ends)):
        if len(part):
            yield _Sentence(part, [text[name] for name in names[part].tolist()])


# Hooks: plain functions of what is in the doc, so that a doc can be copied and pickled.


def _row(token: Token) -> Array:
    tensor_TD: Any = token.doc.tensor
    row_D: Array = tensor_TD[token.i]
    return row_D


def _mean(found: Doc | Span) -> Array:
    """The mean over the words; zeros if there are none."""
    words = [place for place, token in enumerate(found) if not token.is_space]
    tensor_TD: Any = found.tensor
    mean_D: Array = tensor_TD[words].sum(0) / np.float32(max(1, len(words)))
    return mean_D


def _is_word(token: Token) -> bool:
    return not token.is_space


def _has_words(found: Doc | Span) -> bool:
    return any(map(_is_word, found))


def _similarity(one: Any, other: Any) -> float:
    """The cosine; 0 if one of them has no words."""
    a_D, b_D = one.vector, other.vector
    if a_D.shape != b_D.shape:
        raise DataError(
            f"similarity: vectors of {len(a_D)} and {len(b_D)} dimensions; both must come through the same pipeline"
        )
    norms = float(np.linalg.norm(a_D) * np.linalg.norm(b_D))
    return float(a_D @ b_D) / norms if norms else 0.0

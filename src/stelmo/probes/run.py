"""A probe's data folder and sources of vectors → rows of figures. Knows no screen.

Every source is asked once for the vectors of a text, whatever it has of layers. The controls are rows like the others:
layer 0 and static vectors, which see no context, and methods that look at no vectors at all.

K kinds of vectors, N uses or words, D width.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from stelmo.config import choose
from stelmo.errors import ConfigError
from stelmo.probes import coarse as coarse_probe
from stelmo.probes import pos as pos_probe
from stelmo.probes import pos_data, wsd_data
from stelmo.probes import scws as scws_probe
from stelmo.probes import wic as wic_probe
from stelmo.probes import wsd as wsd_probe
from stelmo.probes.uses import Use, vectors
from stelmo.probes.vectors import Advance, Source, watched
from stelmo.probes.wsd_data import Instance, Lemma

HEADLINES = {
    "wsd": ("F1", f"without {wsd_data.DEVELOPMENT}"),
    "pos": ("accuracy", "unknown words"),
    "wic": ("accuracy",),
    "coarse": ("mean",),
    "scws": ("spearman",),
}

_Item = TypeVar("_Item")


class Row(NamedTuple):
    """`vectors` names a layer or a file; it is empty for a method that looks at none."""

    method: str
    vectors: str
    figures: dict[str, float]


def silent(tokens: int, share: float) -> None:
    """For who wants no progress."""


def spread(items: Sequence[_Item], limit: int | None) -> list[_Item]:
    """At most `limit` of them, evenly over all: the first ones would be of one document."""
    if limit is not None and limit < 1:
        raise ConfigError(f"limit: {limit}; expected 1 or more")
    if limit is None or limit >= len(items):
        return list(items)
    return [items[round(place)] for place in np.linspace(0, len(items) - 1, limit)]


def _tokens(uses: Iterable[Use]) -> int:
    return sum(len(use.tokens) for use in uses)


# Word senses in running text


def wsd(folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = silent) -> list[Row]:
    """Senses of Raganato's sets by the uses of SemCor, of which at most `limit` sentences are read."""
    first = wsd_data.read_first_senses(wsd_data.find_index(folder))
    train, test = (
        [sentence for sentence in wsd_data.stream(wsd_data.find(folder, name)) if sentence.instances]
        for name in (wsd_data.TRAINING, wsd_data.ALL)
    )
    train = spread(train, limit)
    gold = [instance for sentence in test for instance in sentence.instances]
    rows = [Row("first sense", "", wsd_probe.score(wsd_probe.first_sense(gold, first), gold))]
    for source in watched(sources, sum(len(sentence.tokens) for sentence in (*train, *test)), advance):
        rows += _wsd_rows(source, train, test, first)
    return _by_method(rows)


def _wsd_rows(
    source: Source,
    train: Sequence[wsd_data.Sentence],
    test: Sequence[wsd_data.Sentence],
    first: dict[Lemma, str],
) -> Iterator[Row]:
    memories = [(wsd_probe.Averages(), wsd_probe.Examples()) for _ in source.names]
    for instance, vector_KD in wsd_probe.tagged(train, source.embed):
        for memory, vector_D in zip(memories, vector_KD, strict=True):
            wsd_probe.learn([(instance, vector_D)], *memory)
    uses = list(wsd_probe.tagged(test, source.embed))
    for kind, (name, (averages, examples)) in enumerate(zip(source.names, memories, strict=True)):
        yield from _wsd_methods(name, averages, examples, [(use, vector_KD[kind]) for use, vector_KD in uses], first)


def _wsd_methods(
    name: str,
    averages: wsd_probe.Averages,
    examples: wsd_probe.Examples,
    uses: Sequence[wsd_probe.Tagged],
    first: dict[Lemma, str],
) -> Iterator[Row]:
    """The paper's method, and two that are given what the paper's was not: a prior, and every single use."""
    development = [tagged for tagged in uses if wsd_probe.is_development(tagged[0])]
    weight = wsd_probe.tune(averages, development, first)
    k = wsd_probe.tune_k(examples, development, first)
    choices = {
        "sense averages": averages.nearest,
        "averages and prior": averages.with_prior(weight),
        "k nearest examples": examples.of(k),
    }
    chosen: dict[str, dict[str, float]] = {"averages and prior": {"weight": weight}, "k nearest examples": {"k": k}}
    gold: list[Instance] = [instance for instance, _ in uses]
    for method, answers in wsd_probe.answer(uses, choices, first).items():
        yield Row(method, name, wsd_probe.score(answers, gold) | chosen.get(method, {}))


# Parts of speech


def pos(
    folder: Path,
    sources: Sequence[Source],
    *,
    tags: str = "upos",
    limit: int | None = None,
    seed: int = 0,
    advance: Advance = silent,
) -> list[Row]:
    """Tags of a treebank's test part by a linear classifier; at most about `limit` words of training are read."""
    choose("tags", tags, tuple(pos_data.COLUMN))
    train, dev, test = (pos_data.read(path, tags) for path in pos_data.find(folder).values())
    train = _words(train, limit)
    classes = pos_probe.classes_of(train)
    gold_N, unknown_N = pos_probe.labels(test, classes), pos_probe.is_unknown(train, test)

    def figures(predicted_N: pos_probe.Numbers) -> dict[str, float]:
        unknown = pos_probe.accuracy(predicted_N[unknown_N], gold_N[unknown_N])
        return {"accuracy": pos_probe.accuracy(predicted_N, gold_N), "unknown words": unknown}

    rows = [Row("most frequent tag", "", figures(pos_probe.most_frequent(train, test, classes)))]
    for source in watched(sources, sum(len(sentence.tokens) for sentence in (*train, *dev, *test)), advance):
        parts = [pos_probe.embedded(part, classes, source.embed) for part in (train, dev, test)]
        for kind, name in enumerate(source.names):
            (train_ND, train_N), (dev_ND, dev_N), (test_ND, _) = ((x_NKD[:, kind], y_N) for x_NKD, y_N in parts)
            classifier = pos_probe.fit(train_ND, train_N, dev_ND, dev_N, seed)
            rows.append(Row("linear classifier", name, figures(classifier.predict(test_ND))))
    return rows


def _words(sentences: Sequence[pos_data.Sentence], limit: int | None) -> list[pos_data.Sentence]:
    """Sentences, evenly over all, with about so many words together."""
    count = sum(len(sentence.tokens) for sentence in sentences)
    return spread(sentences, None if limit is None else max(1, len(sentences) * limit // count))


# Pairs of uses


def wic(folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = silent) -> list[Row]:
    """Same sense or not, on the dev pairs, by the threshold of the training pairs; at most `limit` of each are read."""
    files = wic_probe.find(folder)
    tuning, test = (spread(wic_probe.read(files[split]), limit) for split in ("train", "dev"))
    rows = [Row("most frequent", "", {"accuracy": wic_probe.most_frequent(tuning, test)})]
    total = _tokens(use for pair in (*tuning, *test) for use in (pair.first, pair.second))
    for source in watched(sources, total, advance):
        tuning_NK, test_NK = (wic_probe.similarities(pairs, source.embed) for pairs in (tuning, test))
        for kind, name in enumerate(source.names):
            figures = wic_probe.score(tuning, tuning_NK[:, kind], test, test_NK[:, kind])
            rows.append(Row("cosine threshold", name, figures))
    return rows


def scws(folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = silent) -> list[Row]:
    """100 ρ of cosines with people's ratings, over at most `limit` pairs."""
    pairs = spread(scws_probe.read(folder / "ratings.txt" if folder.is_dir() else folder), limit)
    rows: list[Row] = []
    for source in watched(sources, _tokens(use for pair in pairs for use in (pair.first, pair.second)), advance):
        cosine_NK = scws_probe.similarities(pairs, source.embed)
        for kind, name in enumerate(source.names):
            rows.append(Row("cosine", name, scws_probe.score(pairs, cosine_NK[:, kind])))
    return rows


# Twenty nouns


def coarse(
    folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = silent
) -> list[Row]:
    """Classes of ambiguous nouns; at most `limit` training and `limit` test uses of each are read."""
    words = [
        coarse_probe.Word(name, tuple(spread(train, limit)), tuple(spread(test, limit)))
        for name, train, test in coarse_probe.read(folder)
    ]
    total = _tokens(example.use for word in words for example in (*word.train, *word.test))
    rows: list[Row] = []
    for source in watched(sources, total, advance):
        for name, by_word in zip(source.names, _coarse_figures(words, source), strict=True):
            rows += [Row(method, name, figures) for method, figures in coarse_probe.by_method(by_word).items()]
    return _by_method([row._replace(vectors="") if row.method == "most frequent" else row for row in rows])


def _coarse_figures(words: Sequence[coarse_probe.Word], source: Source) -> list[dict[str, dict[str, float]]]:
    """For every kind: word → method → figure."""
    found: list[dict[str, dict[str, float]]] = [{} for _ in source.names]
    for word in words:
        parts = [vectors([e.use for e in part], source.embed) for part in (word.train, word.test)]
        for kind, by_word in enumerate(found):
            by_word[word.name] = coarse_probe.score(word, *(x_NKD[:, kind] for x_NKD in parts))
    return found


def _by_method(rows: Sequence[Row]) -> list[Row]:
    """Rows of a method together, each once: one that looks at no vectors is the same for every source."""
    methods = dict.fromkeys(row.method for row in sorted(rows, key=lambda row: row.vectors != ""))
    unique = {(row.method, row.vectors): row for row in rows}
    return [row for method in methods for row in unique.values() if row.method == method]

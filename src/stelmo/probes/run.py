"""A probe's data folder and sources of vectors → rows of scores. Knows no screen.

Each source embeds a text once for all its layers. The controls are rows like the others: layer 0 and static vectors,
which see no context, and methods that use no vectors at all.

K kinds of vectors, N occurrences or words, D width.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from stelmo.config import choose
from stelmo.errors import ConfigError
from stelmo.probes import coarse as coarse_probe
from stelmo.probes import pos as pos_probe
from stelmo.probes import wic as wic_probe
from stelmo.probes import wsd as wsd_probe
from stelmo.probes import wsd_data
from stelmo.probes.embedding import Advance, Occurrence, Source, occurrence_vectors, pair_cosines, with_progress
from stelmo.probes.wsd_data import Lemma

HEADLINES = {
    "wsd": ("F1", f"without {wsd_data.DEVELOPMENT}"),
    "pos": ("accuracy", "unknown words"),
    "wic": ("accuracy",),
    "coarse": ("mean", "all uses"),
    "scws": ("spearman",),
}

_Item = TypeVar("_Item")


class Row(NamedTuple):
    """`vectors` names a layer or a file; it is empty for a method that uses none."""

    method: str
    vectors: str
    figures: dict[str, float]


def no_progress(tokens: int, share: float) -> None:
    """The default callback."""


def evenly(items: Sequence[_Item], limit: int | None) -> list[_Item]:
    """At most `limit` items, evenly spaced: the first ones would all be from one document."""
    if limit is not None and limit < 1:
        raise ConfigError(f"limit: {limit}; expected 1 or more")
    if limit is None or limit >= len(items):
        return list(items)
    return [items[round(place)] for place in np.linspace(0, len(items) - 1, limit)]


def _tokens(occurrences: Iterable[Occurrence]) -> int:
    return sum(len(occurrence.tokens) for occurrence in occurrences)


# Word senses in running text


def wsd(
    folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = no_progress
) -> list[Row]:
    """Senses of Raganato's sets, learned from at most `limit` sentences of SemCor."""
    first = wsd_data.read_first_senses(wsd_data.find_index(folder))
    train, test = (
        [sentence for sentence in wsd_data.stream(wsd_data.find(folder, name)) if sentence.instances]
        for name in (wsd_data.TRAINING, wsd_data.ALL)
    )
    train = evenly(train, limit)
    gold = [instance for sentence in test for instance in sentence.instances]
    rows = [Row("first sense", "", wsd_probe.score(wsd_probe.first_sense(gold, first), gold))]
    for source in with_progress(sources, sum(len(sentence.tokens) for sentence in (*train, *test)), advance):
        rows += _wsd_rows(source, train, test, first)
    return by_method(rows)


def _wsd_rows(
    source: Source,
    train: Sequence[wsd_data.AnnotatedSentence],
    test: Sequence[wsd_data.AnnotatedSentence],
    first: dict[Lemma, str],
) -> Iterator[Row]:
    """The paper's method, and two that use more than it does: a prior, and every single training instance."""
    memories = [(wsd_probe.Averages(), wsd_probe.Examples()) for _ in source.names]
    for instance, vector_KD in wsd_probe.tagged(train, source.embed):
        for memory, vector_D in zip(memories, vector_KD, strict=True):
            wsd_probe.learn([(instance, vector_D)], *memory)
    tested_KD = list(wsd_probe.tagged(test, source.embed))
    gold = [instance for instance, _ in tested_KD]
    for kind, (name, (averages, examples)) in enumerate(zip(source.names, memories, strict=True)):
        tested = [(instance, vector_KD[kind]) for instance, vector_KD in tested_KD]
        development = [tagged for tagged in tested if wsd_probe.is_development(tagged[0])]
        weight = wsd_probe.tune(averages, development, first)
        k = wsd_probe.tune_k(examples, development, first)
        choices = {
            "sense averages": averages.nearest,
            "averages and prior": averages.with_prior(weight),
            "k nearest examples": examples.of(k),
        }
        chosen: dict[str, dict[str, float]] = {"averages and prior": {"weight": weight}, "k nearest examples": {"k": k}}
        for method, answers in wsd_probe.answer(tested, choices, first).items():
            yield Row(method, name, wsd_probe.score(answers, gold) | chosen.get(method, {}))


# Parts of speech


def pos(
    folder: Path,
    sources: Sequence[Source],
    *,
    tags: str = "upos",
    limit: int | None = None,
    seed: int = 0,
    advance: Advance = no_progress,
) -> list[Row]:
    """Tags of a treebank's test set by a linear classifier, trained on at most about `limit` words."""
    choose("tags", tags, tuple(pos_probe.COLUMN))
    train, dev, test = (pos_probe.read(path, tags) for path in pos_probe.find(folder).values())
    if limit is not None:  # in words; sentences are evenly spaced
        words = sum(len(sentence.tokens) for sentence in train)
        train = evenly(train, max(1, len(train) * limit // words) if limit > 0 else limit)
    classes = pos_probe.classes_of(train)
    gold_N, unknown_N = pos_probe.labels(test, classes), pos_probe.is_unknown(train, test)

    def figures(predicted_N: pos_probe.Numbers) -> dict[str, float]:
        unknown = pos_probe.accuracy(predicted_N[unknown_N], gold_N[unknown_N])
        return {"accuracy": pos_probe.accuracy(predicted_N, gold_N), "unknown words": unknown}

    rows = [Row("most frequent tag", "", figures(pos_probe.most_frequent(train, test, classes)))]
    for source in with_progress(sources, sum(len(sentence.tokens) for sentence in (*train, *dev, *test)), advance):
        splits = [pos_probe.embed_words(split, classes, source.embed) for split in (train, dev, test)]
        for kind, name in enumerate(source.names):
            (train_ND, train_N), (dev_ND, dev_N), (test_ND, _) = ((x_NKD[:, kind], y_N) for x_NKD, y_N in splits)
            classifier = pos_probe.fit(train_ND, train_N, dev_ND, dev_N, seed)
            rows.append(Row("linear classifier", name, figures(classifier.predict(test_ND))))
    return rows


# Pairs of occurrences


def wic(
    folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = no_progress
) -> list[Row]:
    """Same sense or not, on the dev pairs, by a threshold set on the training pairs; at most `limit` pairs of each."""
    files = wic_probe.find(folder)
    tuning, test = (evenly(wic_probe.read(files[split]), limit) for split in ("train", "dev"))
    rows = [Row("most frequent", "", {"accuracy": wic_probe.most_frequent(tuning, test)})]
    total = _tokens(one for pair in (*tuning, *test) for one in (pair.first, pair.second))
    for source in with_progress(sources, total, advance):
        tuning_NK, test_NK = (
            pair_cosines([(pair.first, pair.second) for pair in pairs], source.embed) for pairs in (tuning, test)
        )
        for kind, name in enumerate(source.names):
            figures = wic_probe.score(tuning, tuning_NK[:, kind], test, test_NK[:, kind])
            rows.append(Row("cosine threshold", name, figures))
    return rows


def scws(
    folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = no_progress
) -> list[Row]:
    """100 ρ of cosines with human ratings, over at most `limit` pairs."""
    pairs = evenly(wic_probe.read_ratings(folder / "ratings.txt" if folder.is_dir() else folder), limit)
    rows: list[Row] = []
    for source in with_progress(sources, _tokens(one for pair in pairs for one in (pair.first, pair.second)), advance):
        cosine_NK = pair_cosines([(pair.first, pair.second) for pair in pairs], source.embed)
        for kind, name in enumerate(source.names):
            rows.append(Row("cosine", name, wic_probe.score_ratings(pairs, cosine_NK[:, kind])))
    return rows


# Twenty nouns


def coarse(
    folder: Path, sources: Sequence[Source], *, limit: int | None = None, advance: Advance = no_progress
) -> list[Row]:
    """Classes of ambiguous nouns; at most `limit` training and `limit` test occurrences of each."""
    nouns = [
        coarse_probe.Noun(name, tuple(evenly(train, limit)), tuple(evenly(test, limit)))
        for name, train, test in coarse_probe.read(folder)
    ]
    total = _tokens(example.occurrence for noun in nouns for example in (*noun.train, *noun.test))
    rows: list[Row] = []
    for source in with_progress(sources, total, advance):
        scores: list[dict[str, dict[str, float]]] = [{} for _ in source.names]  # noun → method → score
        for noun in nouns:
            splits = [
                occurrence_vectors([example.occurrence for example in split], source.embed)
                for split in (noun.train, noun.test)
            ]
            for kind, by_noun in enumerate(scores):
                by_noun[noun.name] = coarse_probe.score(noun, *(x_NKD[:, kind] for x_NKD in splits))
        for name, by_noun in zip(source.names, scores, strict=True):
            rows += [Row(method, name, figures) for method, figures in coarse_probe.by_method(nouns, by_noun).items()]
    return by_method([row._replace(vectors="") if row.method == "most frequent" else row for row in rows])


def by_method(rows: Sequence[Row]) -> list[Row]:
    """Rows grouped by method, without duplicates: a method that uses no vectors is the same for every source."""
    methods = dict.fromkeys(row.method for row in sorted(rows, key=lambda row: row.vectors != ""))
    unique = {(row.method, row.vectors): row for row in rows}
    return [row for method in methods for row in unique.values() if row.method == method]

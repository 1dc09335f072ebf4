"""Clusters → MUC, B³, CEAFφ4 and their mean F1, as the official scorer (v8.01) counts them. Knows no files.

With the key's clusters k, the response's r, and n_kr = |k ∩ r|, where mentions match by their exact bounds:

             shared                             of the key     of the response
  mention    Σ n_kr                             Σ |k|          Σ |r|
  MUC        Σ (n_kr - 1) over n_kr > 0         Σ (|k| - 1)    Σ (|r| - 1)        Vilain et al. 1995
  B³         Σ n_kr² / |k|;  Σ n_kr² / |r|      Σ |k|          Σ |r|              Bagga and Baldwin 1998
  CEAFφ4     max over one-to-one alignments     clusters       clusters           Luo 2005
             of Σ 2 n_kr / (|k| + |r|)

Sums run over all documents before dividing; 0 out of 0 is 0. Clusters of one mention are counted as the files have
them: they have no link for MUC, but are clusters for B³ and CEAF. OntoNotes does not annotate them, so a system scored
on it should not predict any; LitBank annotates them. A repeated mention counts only in its first cluster.
"""

from collections import Counter
from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from stelmo.tasks.coref.data import Clusters, Example, disjoint
from stelmo.tasks.task import Floats, ratio


class Shares(NamedTuple):
    """The numerators and denominators of recall and precision; the scores are percentages."""

    recalled: float = 0.0
    of_key: float = 0.0
    confirmed: float = 0.0
    of_response: float = 0.0

    def plus(self, other: "Shares") -> "Shares":
        return Shares(*map(add, self, other))

    @property
    def recall(self) -> float:
        return 100.0 * self.recalled / self.of_key if self.of_key else 0.0

    @property
    def precision(self) -> float:
        return 100.0 * self.confirmed / self.of_response if self.of_response else 0.0

    @property
    def f1(self) -> float:
        both = self.recall + self.precision
        return 2.0 * self.recall * self.precision / both if both else 0.0


class Overlap(NamedTuple):
    """The overlap of two clusterings of a document: n_kr where it is not 0, and the sizes of the clusters."""

    shared: Counter[tuple[int, int]]
    key: list[int]
    response: list[int]


def score(predictions: Sequence[Clusters], examples: Sequence[Example]) -> dict[str, float]:
    """The mean F1 of MUC, B³ and CEAFφ4 first, then each of them, and the mentions regardless of clusters."""
    totals = {name: Shares() for name in METRICS}
    for prediction, example in zip(predictions, examples, strict=True):
        overlap = compare(example.clusters, prediction)
        totals = {name: totals[name].plus(metric(overlap)) for name, metric in METRICS.items()}
    figures = {"f1": sum(totals[name].f1 for name in AVERAGED) / 3}
    for name, shares in totals.items():
        figures |= {f"{name} f1": shares.f1, f"{name} precision": shares.precision, f"{name} recall": shares.recall}
    return figures


def count(prediction: Clusters, example: Example) -> tuple[float, ...]:
    """The numerators and denominators of MUC, B³ and CEAFφ4, one after another."""
    overlap = compare(example.clusters, prediction)
    return tuple(number for name in AVERAGED for number in METRICS[name](overlap))


def mean_f1(counts_K: Floats) -> Floats:
    """Such counts, summed over documents → the mean F1 of the three; leading axes are kept."""
    shares = counts_K.reshape(*counts_K.shape[:-1], len(AVERAGED), 4)
    recall, precision = ratio(shares[..., :2]), ratio(shares[..., 2:])
    both = recall + precision
    f1: Floats = 2 * np.divide(recall * precision, both, out=np.zeros_like(both), where=both != 0)
    mean: Floats = f1.mean(-1)
    return mean


def compare(key: Clusters, response: Clusters) -> Overlap:
    key, response = disjoint(key), disjoint(response)
    cluster_of = {mention: number for number, cluster in enumerate(key) for mention in cluster}
    shared = Counter(
        (cluster_of[mention], number)
        for number, cluster in enumerate(response)
        for mention in cluster
        if mention in cluster_of
    )
    return Overlap(shared, [len(cluster) for cluster in key], [len(cluster) for cluster in response])


def mentions(overlap: Overlap) -> Shares:
    found = overlap.shared.total()
    return Shares(found, sum(overlap.key), found, sum(overlap.response))


def muc(overlap: Overlap) -> Shares:
    """A cluster of m mentions has m - 1 links; those within k ∩ r are found by both sides."""
    links = sum(n - 1 for n in overlap.shared.values())
    return Shares(links, _links(overlap.key), links, _links(overlap.response))


def _links(sizes: list[int]) -> int:
    return sum(sizes) - len(sizes)


def b_cubed(overlap: Overlap) -> Shares:
    """For each mention, the share of its key (response) cluster that is also in its response (key) cluster."""
    shared, key, response = overlap
    recalled = sum(n * n / key[k] for (k, _), n in shared.items())
    confirmed = sum(n * n / response[r] for (_, r), n in shared.items())
    return Shares(recalled, sum(key), confirmed, sum(response))


def ceaf(overlap: Overlap) -> Shares:
    """The best alignment of the clusters one to one, by φ4(k, r) = 2|k ∩ r| / (|k| + |r|)."""
    shared, key, response = overlap
    similarity_KR = np.zeros((len(key), len(response)))
    for (k, r), n in shared.items():
        similarity_KR[k, r] = 2 * n / (key[k] + response[r])
    best = float(similarity_KR[linear_sum_assignment(similarity_KR, maximize=True)].sum())
    return Shares(best, len(key), best, len(response))


AVERAGED = ("muc", "b3", "ceaf")
METRICS = {"muc": muc, "b3": b_cubed, "ceaf": ceaf, "mention": mentions}

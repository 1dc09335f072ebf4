"""Vectors of a word's uses → groups of meanings, and the words that distinguish them. Knows no model and no files.

N uses, D width, K groups, A axes.

Groups are found by k-means on unit vectors, along the axes of greatest variance. Their number is the most stable one:
groups of random halves of the uses, extended to all uses, agree best with the groups of all uses (adjusted Rand index).
It is 1 unless the uses separate better than chance, that is, clearly better than points of a Gaussian with the same
variances in as many groups. Meanings separate best by the vectors of `contexts.py`.

A group is labelled with nearby words. A word's score is its log-odds in the group against the other groups, with all
uses as the prior, in standard deviations (Monroe et al. 2008, "Fightin' Words", eq. 16 to 22). A word counts once per
use.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from stelmo.errors import ConfigError
from stelmo.explore.index import Use, is_word
from stelmo.explore.mixing import squared_distances, units

Array = NDArray[Any]
Groups = NDArray[np.int64]

MOST = 6  # groups, if their number is not given
HALVES = 10  # random halves whose groups are compared with those of all uses
AXES = 8  # the variance along further axes is mostly noise
TRIALS = 4  # runs of k-means; the tightest is kept
ROUNDS = 50
GAUSSIANS = 8  # random samples that the uses must separate better than
CLEARLY = 2.33  # standard deviations of the samples' silhouettes above their mean: a chance of 1 in 100
ENOUGH = 500  # uses from which the number of groups is chosen
FEWEST = 6  # uses: fewer are always one group
NOISE = 1e-5  # a spread this small is rounding error
NEAR = 8  # tokens on each side
PRIOR = 10.0  # total weight of the prior, in words

_FUNCTION_WORDS = """
    a about after all also although an and another any are as at be became because been before being between both but
    by can could did do does during each either for from had has have he her here him his how however i if in into is it
    its itself just may me might more most much must my n't no nor not of off on one only or other our out over own s
    same several she should since so some such than that the their them then there these they this those though through
    thus to too two under until up upon us very was we were what when where whether which while who whom whose why will
    with within without would you your 's"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())  # English; they reflect grammar more than meaning


def clusters(vectors_ND: Array, k: int | None = None, seed: int = 0) -> Groups:
    """(N,): the group of each use, 0 the largest; deterministic for the same vectors and seed.

    `k` is the largest number of groups; by default it is estimated, and may be 1. Equal vectors share a group.
    """
    if k is not None and k < 1:
        raise ConfigError(f"clusters: {k} groups; expected at least 1, or None to estimate the number")
    rng = np.random.default_rng(seed)
    axes_NA = axes(units(np.asarray(vectors_ND, np.float32)))
    count = _number_of_groups(axes_NA, rng) if k is None else min(k, len(np.unique(axes_NA, axis=0)))
    if count < 2:
        return np.zeros(len(axes_NA), np.int64)
    # Number the groups by size, ties by their first use.
    names, firsts, inverse_N, sizes = np.unique(
        kmeans(axes_NA, count, rng), return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(len(names), np.int64)
    rank[np.lexsort((firsts, -sizes))] = np.arange(len(names))
    return rank[inverse_N]


def axes(units_ND: Array) -> Array:
    """(N, A): the uses along the directions of greatest variance; no columns if they are all equal."""
    if not len(units_ND):
        return units_ND
    left_NR, spread_R, _ = np.linalg.svd((units_ND - units_ND.mean(0)).astype(np.float64), full_matrices=False)
    axes = min(AXES, int((spread_R > NOISE * np.sqrt(len(units_ND))).sum()))
    axes_NA: Array = np.round(left_NR[:, :axes] * spread_R[:axes], 6)  # equal vectors stay equal
    return axes_NA


def _number_of_groups(axes_NA: Array, rng: Generator) -> int:
    """The most stable number; 1 if Gaussian samples separate as well."""
    if len(axes_NA) > ENOUGH:
        axes_NA = axes_NA[rng.choice(len(axes_NA), ENOUGH, replace=False)]
    most = min(MOST, len(np.unique(axes_NA, axis=0)), len(axes_NA) // 2)
    if most < 2 or len(axes_NA) < FEWEST:
        return 1
    count = max(range(2, most + 1), key=lambda count: stability(axes_NA, count, rng))
    samples = (rng.normal(size=axes_NA.shape) * axes_NA.std(0) for _ in range(GAUSSIANS))
    chance = [_separation(sample_NA, count, rng) for sample_NA in samples]
    return count if _separation(axes_NA, count, rng) > np.mean(chance) + CLEARLY * np.std(chance, ddof=1) else 1


def stability(points_NA: Array, count: int, rng: Generator) -> float:
    """How well groups of random halves agree with those of all points: 1 completely, 0 as by chance.

    To compare them, every point is put into the group of the half's nearest centre.
    """
    groups_N, found = kmeans(points_NA, count, rng), []
    for _ in range(HALVES):
        half_MA = points_NA[rng.choice(len(points_NA), len(points_NA) // 2, replace=False)]
        groups_M = _run(half_MA, min(count, len(np.unique(half_MA, axis=0))), rng)[0]
        centres_KA = np.stack([half_MA[groups_M == group].mean(0) for group in np.unique(groups_M)])
        found.append(agreement(groups_N, _nearest_centre(points_NA, centres_KA)[0]))
    return float(np.mean(found))


def agreement(first_N: Groups, second_N: Groups) -> float:
    """The adjusted Rand index (Hubert & Arabie 1985): 1 for the same groups, 0 as by chance."""
    sizes_KK = np.zeros((first_N.max() + 1, second_N.max() + 1))
    np.add.at(sizes_KK, (first_N, second_N), 1)
    both, first, second, all_ = (
        float((sizes * (sizes - 1) / 2).sum())
        for sizes in (sizes_KK, sizes_KK.sum(1), sizes_KK.sum(0), np.array(len(first_N)))
    )
    chance, most = first * second / all_, (first + second) / 2
    return 1.0 if most == chance else (both - chance) / (most - chance)


def _separation(points_NA: Array, count: int, rng: Generator) -> float:
    return silhouette(np.sqrt(squared_distances(points_NA)), kmeans(points_NA, count, rng))


def kmeans(points_NA: Array, count: int, rng: Generator) -> Groups:
    """The tightest of several runs."""
    runs = [_run(points_NA, count, rng) for _ in range(TRIALS)]
    return min(runs, key=lambda run: run[1])[0]


def _run(points_NA: Array, count: int, rng: Generator) -> tuple[Groups, float]:
    """Groups, and the sum of squared distances of the points from their centres."""
    centres_KA = np.stack(list(_first_centres(points_NA, count, rng)))
    groups_N = np.full(len(points_NA), -1)
    for _ in range(ROUNDS):
        before_N = groups_N
        groups_N, squares_N = _nearest_centre(points_NA, centres_KA)
        if (before_N == groups_N).all():
            break
        member_KN = np.eye(count)[:, groups_N]
        sizes_K1 = member_KN.sum(1, keepdims=True)
        # A centre without points stays where it is.
        centres_KA = np.where(sizes_K1 > 0, member_KN @ points_NA / np.maximum(1, sizes_K1), centres_KA)
    return groups_N, float(squares_N.sum())


def _nearest_centre(points_NA: Array, centres_KA: Array) -> tuple[Groups, Array]:
    """The number of each point's nearest centre, and the squared distance, less the point's own square."""
    squares_NK = (centres_KA**2).sum(1) - 2 * points_NA @ centres_KA.T
    return squares_NK.argmin(1), squares_NK.min(1)


def _first_centres(points_NA: Array, count: int, rng: Generator) -> Iterator[Array]:
    """Points far from those before them (k-means++, Arthur & Vassilvitskii 2007)."""
    centre_A = points_NA[rng.integers(len(points_NA))]
    yield centre_A
    squares_N = np.full(len(points_NA), np.inf)
    for _ in range(count - 1):
        squares_N = np.minimum(squares_N, ((points_NA - centre_A) ** 2).sum(1))
        centre_A = points_NA[rng.choice(len(points_NA), p=squares_N / squares_N.sum())]
        yield centre_A


def silhouette(distances_NN: Array, groups_N: Groups) -> float:
    """How much nearer points are to their own group than to the next, -1 to 1 (Rousseeuw 1987); single points: 0."""
    names, inverse_N = np.unique(groups_N, return_inverse=True)
    if len(names) < 2:
        return -1.0
    member_NK = np.eye(len(names))[inverse_N]
    sizes_K, sums_NK = member_NK.sum(0), distances_NN @ member_NK
    rows = np.arange(len(groups_N))
    own_N = sums_NK[rows, inverse_N] / np.maximum(1, sizes_K[inverse_N] - 1)
    next_N = np.where(member_NK > 0, np.inf, sums_NK / sizes_K).min(1)
    scale_N = np.maximum(own_N, next_N)
    scores_N = np.divide(next_N - own_N, scale_N, out=np.zeros_like(own_N), where=scale_N > 0)
    return float(np.where(sizes_K[inverse_N] > 1, scores_N, 0).mean())


def central(vectors_ND: Array, groups_N: Groups, count: int = 5) -> list[list[int]]:
    """For each group the places of the uses nearest to its centre by cosine, nearest first; ties by place."""
    units_ND, found = units(np.asarray(vectors_ND, np.float32)), list[list[int]]()
    for group in range(int(groups_N.max(initial=-1)) + 1):
        places = np.flatnonzero(groups_N == group)
        cosines = units_ND[places] @ units(units_ND[places].mean(0))
        found.append(places[np.argsort(-cosines.round(6), kind="stable")[:count]].tolist())
    return found


def labels(uses: Sequence[Use], assignment: Iterable[int] | NDArray[Any], count: int = 3) -> list[list[str]]:
    """For each group its most distinctive words, best first; empty if there are none, as for a single group."""
    groups = [int(group) for group in assignment]
    nearby = [Counter[str]() for _ in range(max(groups, default=-1) + 1)]
    for use, group in zip(uses, groups, strict=True):
        first, last = max(0, use.position - NEAR), use.position + 1 + NEAR
        tokens = use.tokens[first : use.position] + use.tokens[use.position + 1 : last]
        words = {token.lower() for token in tokens if is_word(token)}
        nearby[group].update(words - FUNCTION_WORDS - {use.word.lower()})
    everywhere = sum(nearby, Counter[str]())
    return [_distinctive(own, everywhere, count) for own in nearby]


def _distinctive(own: Counter[str], everywhere: Counter[str], count: int) -> list[str]:
    """Words overrepresented in the group, by their log-odds; ties in alphabetical order."""
    if own == everywhere:
        return []
    all_inside, all_outside = own.total() + PRIOR, everywhere.total() - own.total() + PRIOR
    scores = {}
    for word in own:
        prior = PRIOR * everywhere[word] / everywhere.total()
        inside, outside = own[word] + prior, everywhere[word] - own[word] + prior
        odds = math.log(inside / (all_inside - inside)) - math.log(outside / (all_outside - outside))
        scores[word] = odds / math.sqrt(1 / inside + 1 / outside)
    best = sorted(scores, key=lambda word: (-scores[word], word))
    return [word for word in best if scores[word] > 0][:count]

"""Groups of uses against gold senses (CoarseWSD-20), by layer and by method. Groups never see the senses.

python bench/sense_groups.py FOLDER [MODEL] [LAYERS.npz]     at most 300 uses of a word; layers are kept in LAYERS.npz

 before      k-means on 16 axes; the number of groups by silhouette
 stable      `explore.clusters`: k-means on 8 axes; the number of groups by stability
 k-means, ward, mixture      as many groups as there are senses, on the same 8 axes
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, v_measure_score
from sklearn.mixture import GaussianMixture

import stelmo
from stelmo.explore import clusters, contexts
from stelmo.explore.index import Use
from stelmo.explore.mixing import squared_distances, units
from stelmo.probes import coarse
from stelmo.probes.run import evenly

USES = 300


def read(folder: str) -> dict[str, tuple[list[Use], list[str]]]:
    """Word → its uses and their senses."""
    found = {}
    for noun in coarse.read(Path(folder)):
        examples = evenly(noun.train + noun.test, USES)
        uses = [Use(n, tuple(e.occurrence.tokens), e.occurrence.start) for n, e in enumerate(examples)]
        found[noun.name] = uses, [example.label for example in examples]
    return found


def layers_of(model, uses: list[Use]) -> np.ndarray:
    """(N, L+1, D)."""
    computed = model.layers([use.tokens for use in uses])
    return np.stack([layers_LTD[:, use.position] for use, layers_LTD in zip(uses, computed, strict=True)])


def before(vectors_ND: np.ndarray) -> np.ndarray:
    """The smallest number of groups whose silhouette is within 0.03 of the best; 1 if Gaussian samples do as well."""
    rng = np.random.default_rng(0)
    axes_NA = axes(vectors_ND, 16)

    def scores(points_NA: np.ndarray) -> dict[int, float]:
        distances_NN = np.sqrt(squared_distances(points_NA))
        tried = range(2, min(8, len(np.unique(points_NA, axis=0))) + 1)
        return {k: clusters.silhouette(distances_NN, clusters.kmeans(points_NA, k, rng)) for k in tried}

    found = scores(axes_NA)
    best = max(found.values(), default=-1.0)
    samples = (rng.normal(size=axes_NA.shape) * axes_NA.std(0) for _ in range(5))
    if not found or any(max(scores(sample_NA).values()) >= best for sample_NA in samples):
        return np.zeros(len(vectors_ND), np.int64)
    return clusters.kmeans(axes_NA, min(k for k, score in found.items() if score >= best - 0.03), rng)


def axes(vectors_ND: np.ndarray, count: int) -> np.ndarray:
    units_ND = units(vectors_ND.astype(np.float32)).astype(np.float64)
    left_NR, spread_R, _ = np.linalg.svd(units_ND - units_ND.mean(0), full_matrices=False)
    return np.round(left_NR[:, :count] * spread_R[:count], 6)


def as_many_as_senses(vectors_ND: np.ndarray, senses: int) -> dict[str, np.ndarray]:
    if len(np.unique(axes_NA := axes(vectors_ND, 8), axis=0)) < senses:  # layer 0
        axes_NA = axes_NA + np.random.default_rng(0).normal(size=axes_NA.shape)
    return {
        "k-means": clusters.kmeans(axes_NA, senses, np.random.default_rng(0)),
        "ward": AgglomerativeClustering(senses).fit_predict(axes_NA) if senses > 1 else np.zeros(len(axes_NA), int),
        "mixture": GaussianMixture(senses, covariance_type="diag", random_state=0, n_init=3).fit_predict(axes_NA),
    }


def purity(groups: np.ndarray, gold: list[str]) -> float:
    senses = np.unique(gold, return_inverse=True)[1]
    return sum(np.bincount(senses[groups == group]).max() for group in np.unique(groups)) / len(gold)


def main(folder: str, name: str | None = None, kept: str | None = None) -> None:
    model, words = stelmo.load(name or None), read(folder)
    if kept and Path(kept).exists():
        layers = dict(np.load(kept))
    else:
        layers = {word: layers_of(model, uses) for word, (uses, _) in words.items()}
        if kept:
            np.savez(kept, **layers)
    around, figures = contexts.of_model(model), defaultdict(list)
    for word, (uses, gold) in words.items():
        kinds = {f"layer {layer}": layers[word][:, layer] for layer in range(model.config.depth)}
        kinds |= {"mean of layers": layers[word].mean(1)} | ({"contexts": around.vectors(uses)} if around else {})
        for kind, vectors_ND in kinds.items():
            found = {"before": before(vectors_ND), "stable": clusters.clusters(vectors_ND)}
            for method, groups in (found | as_many_as_senses(vectors_ND, len(set(gold)))).items():
                row = v_measure_score(gold, groups), purity(groups, gold), adjusted_rand_score(gold, groups)
                figures[kind, method].append((*row, len(set(groups.tolist()))))
    print("| vectors | method | V-measure | purity | adjusted Rand | groups |\n|---|---|---|---|---|---|")
    for (kind, method), rows in figures.items():
        v, pure, rand, count = np.mean(rows, 0)
        print(f"| {kind} | {method} | {v:.3f} | {pure:.3f} | {rand:.3f} | {count:.1f} |")
    shown = [f"{word} {row[0]:.2f}" for word, row in zip(words, figures["contexts", "stable"], strict=False)]
    print("contexts, stable, by word:", ", ".join(shown))


if __name__ == "__main__":
    main(*sys.argv[1:])

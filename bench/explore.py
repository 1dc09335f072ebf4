"""How long the page's slow parts take: flat maps of a word's uses, and searches in a large index. Random numbers serve.

python bench/explore.py [USES]        a query over USES uses (100,000), by numpy and, where installed, by faiss
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import stelmo
from stelmo.explore import index, maps, mixing, search
from stelmo.store import uses as store

WIDTH, DEPTH, BLOCK = 256, 3, 10_000


def seconds(call):
    started = time.perf_counter()
    found = call()
    return time.perf_counter() - started, found


def tell_maps() -> None:
    """The uses of "bank" in the text that comes with stelmo, by each way of flattening."""
    opened = index.open_bundled(stelmo.load())
    vectors_ND = mixing.mixed(opened.layers(opened.ids_of("bank")), mixing.of_layer("top", opened.depth))
    for method in ("pca", "tsne"):
        took, points_N2 = seconds(lambda method=method: maps.flatten(vectors_ND, method))
        trust = maps.trustworthiness(vectors_ND, points_N2)
        print(f"{method} of {len(vectors_ND)} uses: {took:.2f} s, trustworthiness {trust:.3f}")


def random_index(folder: Path, count: int) -> index.Index:
    rng = np.random.default_rng(0)
    store.prepare(folder, store.Manifest(model="random", settings={}, depth=DEPTH, width=WIDTH))
    with store.writing(folder) as writer:
        for first in range(0, count, BLOCK):
            block = [store.Sentence((f"word{first + place}",), (0,)) for place in range(min(BLOCK, count - first))]
            writer.add(block, rng.standard_normal((len(block), DEPTH, WIDTH)).astype(np.float16))
    return index.open(folder)


def tell_search(count: int) -> None:
    with tempfile.TemporaryDirectory() as room:
        opened = random_index(Path(room) / "uses", count)
        query_D = np.random.default_rng(1).standard_normal(WIDTH).astype(np.float32)
        for layer in ("top", "mean"):
            mix = mixing.of_layer(layer, DEPTH)
            for name, least in (("numpy", count + 1), ("faiss", 0)):
                search.FAISS_FROM = least
                first, _ = seconds(lambda mix=mix: search.nearest(opened, query_D, mix, 10))
                again, _ = seconds(lambda mix=mix: search.nearest(opened, query_D, mix, 10))
                print(f"{name}, {layer}: {again:.2f} s a query among {count:,} uses; the first {first:.2f} s")


if __name__ == "__main__":
    tell_maps()
    tell_search(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

"""Ambiguous nouns (CoarseWSD-20) told apart by the nearest training use, by layer. Run: senses.py FOLDER [MODEL]"""

import sys
from pathlib import Path

import numpy as np

import stelmo
from stelmo.probes import coarse
from stelmo.probes.embedding import occurrence_vectors


def main(folder: str, name: str | None = None) -> None:
    model = stelmo.load(name)
    words = coarse.read(Path(folder))

    def embed(sentences: list[tuple[str, ...]]) -> list[np.ndarray]:
        return [layers_LTD.swapaxes(0, 1) for layers_LTD in model.layers(sentences)]

    right = np.zeros(model.config.depth)
    frequent = 0.0
    for word in words:
        train_NLD, test_NLD = (
            occurrence_vectors([e.occurrence for e in part], embed) for part in (word.train, word.test)
        )
        labels, gold = [e.label for e in word.train], [e.label for e in word.test]
        for layer in range(model.config.depth):
            answers = coarse.nearest_example(train_NLD[:, layer], labels, test_NLD[:, layer])
            right[layer] += np.mean([answer == label for answer, label in zip(answers, gold, strict=True)])
        most = max(set(labels), key=labels.count)
        frequent += np.mean([most == label for label in gold])
    print("| layer | accuracy, mean over the words |\n|---|---|")
    for layer, sum_ in enumerate(right):
        print(f"| {layer} | {100 * sum_ / len(words):.1f} |")
    print(f"| most frequent sense | {100 * frequent / len(words):.1f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])

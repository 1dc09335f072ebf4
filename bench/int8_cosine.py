"""Vectors in 8 bits against those in 32: cosine of every token, layer by layer. Run: int8_cosine.py MODEL TEXT [LINES]

TEXT has a tokenised paragraph a line; the first LINES (200) of more than three tokens are read.
"""

import sys
from pathlib import Path

import numpy as np

import stelmo


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def main(model: str, text: str, lines: str = "200") -> None:
    with Path(text).open(encoding="utf-8") as file:
        sentences = [words for line in file if len(words := line.split()) > 3][: int(lines)]
    wide = stelmo.load(model).layers(sentences)
    narrow = stelmo.load(model, precision="int8").layers(sentences)
    print(f"{sum(map(len, sentences)):,} tokens\n\n| layer | mean cosine | smallest |\n|---|---|---|")
    for layer in range(len(wide[0])):
        found = np.concatenate([cosines(a[layer], b[layer]) for a, b in zip(wide, narrow, strict=True)])
        print(f"| {layer} | {found.mean():.5f} | {found.min():.5f} |")
    mean = np.concatenate([cosines(a.mean(0), b.mean(0)) for a, b in zip(wide, narrow, strict=True)])
    print(f"| mean of the layers | {mean.mean():.5f} | {mean.min():.5f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])

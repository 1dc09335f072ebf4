"""Small corpora for tests of training."""

import dataclasses
import random
from pathlib import Path

from stelmo.corpus import folder as shards
from stelmo.corpus.folder import Corpus
from stelmo.corpus.prepare import prepare
from stelmo.settings import PrepareSettings

FOUR = (
    "the river runs past the old bank",
    "a bank keeps the money of the town",
    "we sat on the bank and saw a river",
    "money runs out in the old town",
)


def sentences(count: int, seed: int = 0) -> list[str]:
    """Words by Zipf's law, each likely to be followed by its neighbour, so that there is something to learn."""
    chance = random.Random(seed)
    lines = []
    for _ in range(count):
        word, line = 0, []
        for _ in range(chance.randint(2, 12)):
            word = int(60 ** chance.random()) - 1 if chance.random() < 0.5 else (word + 1) % 60
            line.append(f"w{word}")
        lines.append(" ".join(line))
    return lines


def make(folder: Path, lines: list[str], heldout: int = 10) -> Path:
    """A corpus folder, as `stelmo prepare` makes it."""
    text = folder.with_suffix(".tok")
    text.write_text("".join(f"{line}\n" for line in lines))
    prepare([text], folder, PrepareSettings(format="tokens", heldout=heldout))
    return folder


def validated_on_itself(folder: Path) -> Corpus:
    """A corpus that is held out, too: for learning it by heart."""
    corpus = shards.read(folder)
    return dataclasses.replace(corpus, heldout=corpus.train)

"""Eight frames, and a small role tagger."""

import torch
from unit.tasks.networks import reader

from stelmo.tasks.srl.data import Example
from stelmo.tasks.srl.model import Net, Size, inventory

SMALL = Size(predicate=3, hidden=12, layers=3, dropout=0.0)


def example(text):
    """ "Kim/B-ARG0 left/B-V" """
    pairs = [word.rpartition("/")[::2] if "/" in word else (word, "O") for word in text.split()]
    words, tags = zip(*pairs, strict=True)
    return Example(words, tags.index("B-V"), "", tags, "f:1")


EIGHT = [
    example(text)
    for text in (
        "Kim/B-ARG0 said/B-V we/B-ARG1 won/I-ARG1",
        "Kim said we/B-ARG0 won/B-V",
        "Rain/B-ARG1 fell/B-V",
        "Go/B-V",
        "the/B-ARG0 bank/I-ARG0 by/I-ARG0 the/I-ARG0 river/I-ARG0 closed/B-V today/B-ARGM-TMP .",
        "the/B-ARG1 bank/I-ARG1 by the river was closed/B-V",
        "who/B-R-ARG0 sold/B-V what/B-ARG1 to/B-ARG2 them/I-ARG2 ?",
        "he gave/B-V up/B-C-V",
    )
]


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    words = sorted({word.lower() for one in EIGHT for word in one.words} - {"today"})
    return Net(reader(words, placement), inventory(examples, size), size)

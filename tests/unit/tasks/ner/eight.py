"""Eight sentences with entities, and a small tagger."""

import torch
from unit.tasks.networks import reader

from stelmo.tasks.ner.data import Example
from stelmo.tasks.ner.model import Net, Size, inventory

SMALL = Size(character_embedding=4, filters=((2, 6), (3, 6)), hidden=(12, 8), dropout=0.0)


def example(text):
    """ "Oslo/B-LOC is" """
    pairs = [word.rpartition("/")[::2] if "/" in word else (word, "O") for word in text.split()]
    return Example(tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs), "f:1")


EIGHT = [
    example(text)
    for text in (
        "Berta/B-PER Quell/I-PER left Oslo/B-LOC Bergen/B-LOC .",
        "Acme/B-ORG",
        "Nothing here",
        "the bank of Rome/B-LOC",
        "Bank/B-ORG of/I-ORG the/I-ORG North/I-ORG",
        "Kim/B-PER van/I-PER der/I-PER Berg/I-PER met Ada/B-PER",
        "river über 日本/B-LOC",
        "( a ) .",
    )
]


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    words = ("the", "bank", "river", ".", "left", "oslo")
    return Net(reader(words, placement), inventory(examples, size), size)

"""Eight pairs, and a small ESIM."""

import torch
from unit.tasks.networks import reader

from stelmo.tasks.snli.data import LABELS, Example
from stelmo.tasks.snli.model import Net, Size, inventory

SMALL = Size(hidden=12, dropout=0.0, attention_dropout=0.0)

EIGHT = [
    Example(tuple(premise.split()), tuple(hypothesis.split()), LABELS[label], str(label), "f:1")
    for premise, hypothesis, label in (
        ("the river is a river .", "it is a river", 0),
        ("the bank", "the river", 2),
        ("a bank by the river", "the bank sleeps .", 1),
        ("über", "über", 0),
        ("the dog sleeps", "the dog runs by the bank of the long river .", 2),
        ("the dog runs", "a dog is happy", 1),
        ("dog", "cat", 2),
        ("a dog and a cat and the bank .", "cat", 0),
    )
]


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    words = ("the", "bank", "river", ".", "dog", "cat")
    return Net(reader(words, placement), inventory(examples, size), size)

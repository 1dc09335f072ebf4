"""Eight sentences with their stars, and a small biattentive network."""

import torch
from unit.tasks.networks import reader

from stelmo.tasks.sst5.data import Example
from stelmo.tasks.sst5.model import Net, Size, inventory

SMALL = Size(
    word_dropout=0.0,
    projected=10,
    projected_dropout=0.0,
    hidden=6,
    pooled_dropout=0.0,
    classifier=((16, 0.0), (8, 0.0)),
)

EIGHT = [
    Example(tuple(text.split()), label, "f:1")
    for text, label in (
        ("It simply shines .", 4),
        ("( dull )", 0),
        ("so-so", 2),
        ("the bank was a river", 3),
        ("not the worst", 1),
        ("the worst", 0),
        ("a film of the bank , for the bank , by the bank .", 2),
        ("über", 4),
    )
]


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    words = ("the", "bank", "river", ".", "worst", "so-so")
    return Net(reader(words, placement), inventory(examples, size), size)

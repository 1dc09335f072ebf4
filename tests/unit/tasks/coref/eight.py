"""Eight documents, and a small span ranker."""

import torch
from unit.tasks.networks import reader

from stelmo.tasks.coref.data import Example
from stelmo.tasks.coref.model import Net, Size, inventory

SMALL = Size(
    characters=3, filters=((2, 4),), hidden=6, scorer=32, feature=3, widest=3, spans=0.8, antecedents=8,
    lexical_dropout=0.0, dropout=0.0,
)  # fmt: skip


def document(*lines, clusters=(), name="0"):
    """A line is a sentence; "Ann: I left" has a speaker."""
    said = [line.rpartition(": ")[::2] for line in lines]
    words = tuple(tuple(text.split()) for _, text in said)
    speakers = tuple((speaker or "-",) * len(text.split()) for speaker, text in said)
    return Example(f"(x/{name}); part 000", words, speakers, tuple(map(frozenset, clusters)), "f:1")


KIM = document(
    "the baker of Oslo sold her shop",
    "it closed",
    "she left Oslo",
    clusters=[{(0, 1), (5, 5), (9, 9)}, {(3, 3), (11, 11)}, {(5, 6), (7, 7)}],
)

TALK = document("Ann: I saw you", "Bob: you saw me", clusters=[{(0, 0), (3, 3)}, {(2, 2), (5, 5)}])

ALONE = document("a man met a woman", "he smiled", clusters=[{(0, 1), (5, 5)}, {(3, 4)}])

EIGHT = [
    KIM,
    TALK,
    ALONE,
    document("nothing happens"),
    document("hush"),
    document("rain fell", "it stopped", clusters=[{(0, 0), (2, 2)}]),
    document("the bank by the river", "the bank failed", clusters=[{(0, 1), (5, 6)}, {(3, 4)}]),
    document("we know us", clusters=[{(0, 0), (2, 2)}]),
]


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    words = sorted({word.lower() for one in EIGHT for sentence in one.sentences for word in sentence} - {"hush"})
    return Net(reader(words, placement), inventory(examples, size), size)

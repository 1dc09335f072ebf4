"""Eight questions, and a small reader of passages."""

from itertools import accumulate

import torch
from unit.tasks.networks import reader

from stelmo.tasks.squad.data import Answer, Example, Passage
from stelmo.tasks.squad.model import Net, Size, inventory

SMALL = Size(
    hidden=6,
    dropout=0.0,
    character_embedding=4,
    character_filters=5,
    character_minimum=1,
    character_dropout=0.0,
    word_characters=6,
    answer_tokens=5,
)


def asked(passage: str, question: str, first: int, last: int) -> Example:
    """About a passage whose tokens have a space between them."""
    tokens = tuple(passage.split())
    starts = tuple(accumulate((len(token) + 1 for token in tokens[:-1]), initial=0))
    read = Passage(passage, tokens, starts, tuple(s + len(t) for s, t in zip(starts, tokens, strict=True)))
    return Example(question, read, tuple(question.split()), (Answer(read.between(first, last), first, last),), "f: 1")


LONG = "the bank of the river is a long way from the old tower by the sea"

EIGHT = [
    asked(LONG, "what is long", 0, 4),
    asked(LONG, "where is the tower ?", 13, 15),
    asked("Ada built the tower in 1840 .", "who built the tower", 0, 0),
    asked("Ada built the tower in 1840 .", "when was it built", 5, 5),
    asked("Ada built the tower in 1840 .", "what did Ada build", 2, 3),
    asked("über", "what", 0, 0),
    asked("the cat sleeps by the bank", "who", 0, 1),
    asked("the cat sleeps by the bank", "where does the cat sleep", 3, 5),
]


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    words = ("the", "bank", "river", ".", "tower", "Ada")
    return Net(reader(words, placement), inventory(examples, size), size)

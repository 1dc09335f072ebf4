"""A model → the fixed state its sentences may start from. Knows no files."""

from collections.abc import Sequence

import torch

from stelmo.engine import plain as engine
from stelmo.model.bilm import BiLM
from stelmo.model.state import State

# Any text the model can read will do: the end of a sentence looks much the same after a few of them.
WARM_UP = [
    line.split()
    for line in (
        "The first of them was built in the city in the early years of the century .",
        "He said that it was not the end of the story , but she did not believe him .",
        "In 1998 , the company moved to a new office near the river .",
        "There are many kinds of music , and most people like more than one .",
    )
]


@torch.no_grad()  # not inference_mode: the state may start a network that is trained
def warm_state(bilm: BiLM, ids_of: engine.WordIds, sentences: Sequence[engine.Words]) -> State:
    """The mean over a few sentences of the state after each."""
    batch = engine.batch_of_tokens(sentences, ids_of)
    _, ends = engine.layers(bilm, batch, bilm.zero_state(len(sentences)))
    return State(*(part.mean(2, keepdim=True) for part in ends))

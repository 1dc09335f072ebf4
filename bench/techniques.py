"""What each technique of the engine contributes, one switched off at a time.

Run: techniques.py [SIZE] [PICTURE.svg] [ROUNDS] [NAME …]     by default all techniques

Each is taken out by exchanging the piece of code that holds it; the rest stays as it is. Figures are shares of the
whole engine's speed inside one run: 0.5 means that without the technique it is half as fast.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import torch

from stelmo import benchmark as speed
from stelmo import plots as pictures
from stelmo.embed.model import Model
from stelmo.engine import packed, planning
from stelmo.engine.packed import Packed
from stelmo.model.bilm import State
from stelmo.ops import arithmetic, reference
from stelmo.text import chars

Off = Callable[[Model], AbstractContextManager[object]]


def every_word_again(engine: Packed, sentences: Sequence[Sequence[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    words = [chars.BEGIN_SENTENCE, chars.END_SENTENCE, *(word for words in sentences for word in words)]
    return engine._token_layer._compute(words), torch.arange(2, len(words))


def remembering_nothing(token_layer: packed.WordCache, words: Sequence[str]) -> torch.Tensor:
    return token_layer._compute(words)


RUN = Packed.run


def marker_steps_of_each(
    engine: Packed, sentences: Sequence[Sequence[str]], start: State, whole: bool = False
) -> tuple[list[torch.Tensor], State]:
    assert not whole  # this script asks for no markers
    layers, _ = RUN(engine, sentences, start.expand(len(sentences)), whole=True)
    return [layers_LTD[:, 1:-1] for layers_LTD in layers], start


def in_input_order(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    rows = max(1, budget // max(lengths))
    for positions in planning.in_order(len(lengths), rows):
        yield sorted(positions, key=lambda position: -lengths[position])


class OneAfterTheOther:
    """Both directions on one thread of Python, all of torch's."""

    def __init__(self, workers: int) -> None:
        pass

    def __enter__(self) -> "OneAfterTheOther":
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def submit(self, work: Callable[..., object], *arguments: object) -> "OneAfterTheOther":
        self.result = lambda: work(*arguments)
        return self


@contextmanager
def all_threads(workers: int) -> Iterator[int]:
    yield torch.get_num_threads()


def both(*patches: AbstractContextManager[object]) -> AbstractContextManager[object]:
    stack = ExitStack()
    for one in patches:
        stack.enter_context(one)
    return stack


KNOWN: dict[str, Off] = {  # every word known
    "oneDNN where MKL is slow": lambda model: patch.object(arithmetic, "avoids_mkl", False),
    "large batches (32 rows)": lambda model: patch.object(planning, "by_length", thirty_two_rows),
    "batches by length": lambda model: patch.object(planning, "by_length", in_input_order),
    "a thread for each direction": lambda model: both(
        patch.object(packed, "ThreadPoolExecutor", OneAfterTheOther),
        patch.object(packed, "shared_threads", all_threads),
    ),
    "a gate table of the words": lambda model: patch.object(packed, "WORDS_IN_TABLE", 0),
    "one step for all first markers": lambda model: patch.object(Packed, "run", marker_steps_of_each),
}
UNKNOWN: dict[str, Off] = {  # no word known
    "each word once in a batch": lambda model: patch.object(Packed, "_words", every_word_again),
    "words remembered across batches": lambda model: patch.object(packed.WordCache, "__call__", remembering_nothing),
    "windows that a word can touch": lambda model: patch.object(packed.fast, "char_cnn", reference.char_cnn),
}


def thirty_two_rows(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    for first in range(0, len(order), 32):
        yield order[first : first + 32]


def shares(size: str, rounds: int, only: Sequence[str]) -> dict[str, float]:
    model, text = speed.random_model(size), speed.zipf_text(speed.SENTENCES[size])

    def whole() -> None:
        model.embed(text)

    def without(off: Off) -> Callable[[], object]:
        def run() -> None:
            with off(model):
                model.embed(text)

        return run

    def anew(run: Callable[[], object]) -> Callable[[], object]:
        def forgetting() -> None:
            model.forget_words()
            run()

        return forgetting

    whole()
    known, unknown = ({name: off for name, off in all_.items() if name in only} for all_ in (KNOWN, UNKNOWN))
    found = _shares({name: without(off) for name, off in known.items()}, whole, text, rounds)
    return found | _shares({name: anew(without(off)) for name, off in unknown.items()}, anew(whole), text, rounds)


def _shares(
    runs: dict[str, Callable[[], object]], whole: Callable[[], object], text: speed.Sentences, rounds: int
) -> dict[str, float]:
    if not runs:
        return {}
    rates = speed.medians({"whole": (whole, text)} | {name: (run, text) for name, run in runs.items()}, rounds)
    return {name: rates[name] / rates["whole"] for name in runs}


def main(size: str = "small", picture: str | None = None, times: str = "3", *only: str) -> None:
    rounds = int(times)
    found = shares(size, rounds, only or [*KNOWN, *UNKNOWN])
    print(f"{size}, {torch.get_num_threads()} threads, median of {rounds} interleaved rounds\n")
    print("| without | speed left |\n|---|---|")
    for name, share in found.items():
        print(f"| {name} | {share:.2f} |")
    if picture is not None:
        title = f"Relative speed without a technique ({size})"
        pictures.bars(Path(picture), found, x="share of the engine's speed", title=title)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What every route needs: the model behind its queue, the limits, the index, the tasks. Knows no route."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, Request
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from stelmo.config import choose
from stelmo.embed.model import Model
from stelmo.errors import DataError
from stelmo.explore import contexts, mixing, search
from stelmo.explore.contexts import Contexts
from stelmo.explore.index import Index, Rules
from stelmo.explore.mixing import Mix
from stelmo.explore.search import Static
from stelmo.serve import bodies
from stelmo.serve.gate import Metrics
from stelmo.serve.queues import Batcher, Jobs
from stelmo.settings import Layer, ServeSettings
from stelmo.store.runs import Mixes
from stelmo.text import sentences as text
from stelmo.text import tokens

Array = NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")
# Threads that compute at once. They share the interpreter with the event loop: with more of them, the event loop would
# wait longer for its turn, and so would /health.
THREADS = 3
SUGGESTED = 10  # words that the page offers


@dataclass
class Context:
    model: Model
    settings: ServeSettings
    name: str
    index: Index | None
    tasks: Mapping[str, Mixes]
    credit: str = ""  # whose text the index contains
    rules: Rules = field(default_factory=Rules)  # by which texts are tokenised
    metrics: Metrics = field(default_factory=Metrics)

    @cached_property
    def batcher(self) -> Batcher:
        """Created when the service starts, since it has a thread."""
        chosen = self.settings
        made = Batcher(
            self.model.layers, chosen.batch_tokens, chosen.queue_tokens, chosen.batch_wait, self.metrics.batch
        )
        self.metrics.watch_queue(lambda: float(made.waiting))
        return made

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.settings.jobs)

    @cached_property
    def _threads(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(THREADS)

    def prepare(self) -> None:
        """Compute what the first request about the index would have to wait for."""
        _ = self.uses().words, self.static, self.contexts

    def close(self) -> None:
        self.jobs.close()
        self.batcher.close()

    @cached_property
    def fingerprint(self) -> str:
        return self.model.saved().fingerprint()

    @cached_property
    def static(self) -> Static | None:
        """Vectors without context; None for a model without a vocabulary."""
        return None if self.model.vocabulary is None else search.static_of_model(self.model)

    @cached_property
    def contexts(self) -> Contexts | None:
        """Vectors of the words around a use, by which uses are grouped; None for a model without a softmax."""
        return contexts.of_model(self.model)

    @cached_property
    def suggested(self) -> list[str]:
        """Words of the index to begin with."""
        return search.suggested(self.uses(), SUGGESTED, self.contexts)

    @property
    def depth(self) -> int:
        return self.model.config.depth

    def uses(self) -> Index:
        """The index; without one, routes about it answer 404."""
        if self.index is None:
            raise HTTPException(404, "this server has no index of word uses; start it with --index DIR")
        return self.index

    async def layers(self, sentences: Sequence[Sequence[str]]) -> list[Array]:
        """(L+1, T, D) of each sentence, if they are within the limits."""
        self.check(sentences)
        return await asyncio.wrap_future(self.batcher.layers(sentences))

    async def alone(self, function: Callable[[], R], tokens: int) -> R:
        """The function's result; nothing else uses the model while it runs."""
        return await asyncio.wrap_future(self.batcher.call(function, tokens))

    async def in_thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run in a thread, so that the event loop stays responsive. A cancelled caller does not wait for the thread."""
        call = partial(function, *args, **kwargs)
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._threads)

    async def tokenize(self, texts: Sequence[str], most: int | None = None) -> list[list[list[str]]]:
        """The sentences of each text. More than `most` tokens in all are refused as soon as they are found.

        Tokenising happens in a thread, which stops when the request has timed out.
        """
        abandoned = threading.Event()
        try:
            return await self.in_thread(_tokenize, texts, self.rules, most, abandoned)
        finally:
            abandoned.set()

    def check(self, sentences: Sequence[Sequence[str]]) -> None:
        """Refuse what exceeds a limit."""
        most = self.settings
        within("sentences", len(sentences), most.sentences)
        within("tokens in a sentence", max(map(len, sentences), default=0), most.sentence_tokens)
        within("tokens", sum(map(len, sentences)), most.tokens)
        longest = max((len(token) for sentence in sentences for token in sentence), default=0)
        within("characters in a token", longest, most.token_characters)

    def count(self, wanted: int) -> int:
        """A number of results, within the limit."""
        within("answers", wanted, self.settings.answers)
        return wanted

    def layer(self, asked: str | int, *more: str) -> Layer:
        """A layer that the model has, or one of `more`."""
        choose("layer", asked, ("mean", "top", *range(self.depth), *more))
        return asked  # type: ignore[return-value]

    def mix(self, asked: bodies.Mix | str | int | None) -> Mix:
        """From a request's `mix` or `layer`; the default is the mean of all layers."""
        if isinstance(asked, bodies.Mix):
            return mixing.checked(asked.weights, asked.gamma, self.depth)
        return mixing.of_layer("mean" if asked is None else self.layer(asked), self.depth)


def _tokenize(
    texts: Sequence[str], rules: Rules, most: int | None, abandoned: threading.Event
) -> list[list[list[str]]]:
    found: list[list[list[str]]] = [[] for _ in texts]
    count = 0
    for sentences, raw in zip(found, texts, strict=True):
        for start, end in text.split(raw, rules.language):
            sentences.append([])
            for token in tokens.scan(raw[start:end], *rules):
                if abandoned.is_set():
                    return found
                sentences[-1].append(token.text)
                count += 1
                if most is not None and count > most:
                    raise DataError(f"more than {most:,} tokens; this server accepts at most {most:,}")
    return found


def within(what: str, found: int, most: int) -> None:
    if found > most:
        raise DataError(f"{found:,} {what}; this server accepts at most {most:,}")


def check_position(tokens: Sequence[str], position: int) -> None:
    if position >= len(tokens):
        raise DataError(f"position {position}: the sentence has {len(tokens)} tokens, numbered from 0")


def mixed(layers_LTD: Array, mix: Mix) -> Array:
    """(L+1, T, D) → (T, D)."""
    return mixing.mixed(layers_LTD.swapaxes(0, 1), mix)


def cosines(first_TD: Array, second_SD: Array) -> Array:
    """(T, S), within -1 … 1, rounded to six decimals."""
    products_TS: Array = mixing.units(first_TD) @ mixing.units(second_SD).T
    return products_TS.astype(float).clip(-1, 1).round(6)


def _context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


Here = Annotated[Context, Depends(_context)]

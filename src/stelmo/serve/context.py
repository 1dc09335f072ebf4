"""What every route leans on: the model behind its queue, the limits, the index, the tasks. Knows no route."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio.to_thread
from fastapi import Depends, Request
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from stelmo.config import ServeSettings
from stelmo.embed.model import Model
from stelmo.errors import DataError
from stelmo.explore import mixing, static
from stelmo.explore.index import Index
from stelmo.explore.mixing import Mix
from stelmo.explore.static import Static
from stelmo.serve import bodies
from stelmo.serve.batching import Batcher
from stelmo.serve.jobs import Jobs
from stelmo.serve.metrics import Metrics
from stelmo.store.runs import Mixes

Array = NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Context:
    model: Model
    settings: ServeSettings
    name: str
    index: Index | None
    tasks: Mapping[str, Mixes]
    metrics: Metrics = field(default_factory=Metrics)

    @cached_property
    def batcher(self) -> Batcher:
        """Made when the service starts: it has a thread."""
        chosen = self.settings
        compute = self.model.layers
        return Batcher(compute, chosen.batch_tokens, chosen.queue_tokens, chosen.batch_wait, self.metrics.batch)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.settings.jobs)

    def prepare(self) -> "tuple[Mapping[str, int], Static | None]":
        """What the first question about the index would have to wait for."""
        return self.uses().words, self.static

    def close(self) -> None:
        self.jobs.close()
        self.batcher.close()

    @cached_property
    def fingerprint(self) -> str:
        return self.model.saved().fingerprint()

    @cached_property
    def static(self) -> Static | None:
        """Vectors without context; a model without a vocabulary has no words to compare."""
        return None if self.model.vocabulary is None else static.of_model(self.model)

    @property
    def depth(self) -> int:
        return self.model.config.depth

    def uses(self) -> Index:
        """The index; a server without one has nothing at such an address."""
        if self.index is None:
            raise HTTPException(404, "this server has no index of word uses; start it with --index DIR")
        return self.index

    async def layers(self, sentences: Sequence[Sequence[str]]) -> list[Array]:
        """(L+1, T, D) of each sentence, once within the limits."""
        self.check(sentences)
        return await asyncio.wrap_future(self.batcher.layers(sentences))

    async def alone(self, function: Callable[[], R], tokens: int) -> R:
        """What the function makes of the model while nobody else uses it."""
        return await asyncio.wrap_future(self.batcher.call(function, tokens))

    def check(self, sentences: Sequence[Sequence[str]]) -> None:
        """Refuse what is beyond a limit."""
        most = self.settings
        _within("sentences", len(sentences), most.sentences)
        _within("tokens of a sentence", max(map(len, sentences), default=0), most.sentence_tokens)
        _within("tokens", sum(map(len, sentences)), most.tokens)
        longest = max((len(token) for sentence in sentences for token in sentence), default=0)
        _within("characters of a token", longest, most.token_characters)

    def count(self, wanted: int) -> int:
        """How many answers somebody may have."""
        _within("answers", wanted, self.settings.answers)
        return wanted

    def mix(self, asked: bodies.Mix | str | int | None) -> Mix:
        """Of a request's `mix`, `layer`, or neither."""
        if isinstance(asked, bodies.Mix):
            return mixing.checked(asked.weights, asked.gamma, self.depth)
        return mixing.of_layer("mean" if asked is None else asked, self.depth)  # type: ignore[arg-type]


def _within(what: str, found: int, most: int) -> None:
    if found > most:
        raise DataError(f"{found:,} {what}; this server takes at most {most:,}")


def mixed(layers_LTD: Array, mix: Mix) -> Array:
    """(L+1, T, D) → (T, D)."""
    return mixing.mixed(layers_LTD.swapaxes(0, 1), mix)


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Beside the event loop, so that a long computation holds nobody up; who stops waiting does not wait for it."""
    return await anyio.to_thread.run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True)


def cosines(first_TD: Array, second_SD: Array) -> Array:
    """(T, S), within -1 … 1, to six decimals."""
    products_TS: Array = mixing.units(first_TD) @ mixing.units(second_SD).T
    return products_TS.astype(float).clip(-1, 1).round(6)


def _context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


Here = Annotated[Context, Depends(_context)]

"""A stream of sentences → blocks, and what is kept of each: the common ground of every long run. Knows no file format.

The cuts depend on the text and the settings alone, and a block's bits on the block alone (but for carry).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stelmo.config import OutputSettings
from stelmo.embed.model import Array, Model, Reduce, all_layers, mean_of_tokens, picking
from stelmo.errors import DataError, OutputError, StelmoError
from stelmo.model.state import State
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

NO_SENTENCE = "the input holds no sentence; nothing was written"


def cut(model: Model, sentences: Iterable[Sentence], settings: OutputSettings) -> Iterator[list[Sentence]]:
    """Blocks of about as many tokens as the settings say; under carry, of whole batches."""
    tokens = min(settings.block_tokens, model.plan.block_tokens)
    rows = model.settings.batch_rows if model.settings.state == "carry" else 1
    block: list[Sentence] = []
    size = 0
    for sentence in sentences:
        if block and size + len(sentence.tokens) > tokens and len(block) % rows == 0:
            yield block
            block, size = [], 0
        block.append(sentence)
        size += len(sentence.tokens) + 1  # an empty sentence takes room, too
    if block:
        yield block


def compute(
    model: Model, block: Sequence[Sentence], settings: OutputSettings, carried: State | None = None
) -> tuple[list[Array], State | None]:
    """The vectors of a block in the numbers of the file; under carry also the state behind it."""
    model.forget_words()  # so that a block has the same bits whether or not others ran before it
    reduce = reducing(settings, model.config.depth)
    arrays, carried = model.run([sentence.tokens for sentence in block], reduce, carried=carried)
    return [array.astype(settings.dtype) for array in arrays], carried


def reducing(settings: OutputSettings, depth: int) -> Reduce:
    """What of a sentence's layers the settings keep."""
    pick = all_layers if settings.layer == "all" else picking(settings.layer, depth)
    if settings.sentence_vectors:
        return lambda layers_LTD: mean_of_tokens(pick(layers_LTD))
    return pick


def about(model: Model, settings: OutputSettings) -> dict[str, Any]:
    """All that decides the numbers, but the text: a block made under other settings is not used again."""
    return {"model": model.saved().fingerprint(), **model.settings.model_dump(), **settings.model_dump()}


def shape(model: Model, settings: OutputSettings) -> vectors.Shape:
    layers = model.config.depth if settings.layer == "all" else None
    return vectors.Shape(model.config.width, layers, not settings.sentence_vectors, settings.dtype)


def working_folder(path: Path, about: dict[str, Any], overwrite: bool) -> Path:
    """The folder of finished blocks beside the output, empty or left by an interrupted run of the same kind."""
    work = path.with_name(f"{path.name}.partial")
    note = work / "settings.json"
    if note.is_file():
        differing = [name for name, value in json.loads(note.read_text()).items() if about.get(name) != value]
        if not differing:
            return work
        if not overwrite:
            raise OutputError(
                f"{work} was left by a run with another {' and '.join(differing)}; "
                "repeat that command to finish it, or delete the folder"
            )
    atomic.remove(work)
    with atomic.new_folder(work) as draft:
        (draft / note.name).write_text(json.dumps(about))
    return work


@contextmanager
def kept_if_begun(folder: Path, pattern: str = "*.npz") -> Iterator[None]:
    """After a user's mistake the working folder stays for the sake of its finished blocks, or goes."""
    try:
        yield
    except StelmoError:
        if not any(folder.glob(pattern)):
            atomic.remove(folder)
        raise


def token_count(block: Iterable[Sentence]) -> int:
    return sum(len(sentence.tokens) for sentence in block)


def keyed(sentences: Iterable[Sentence], settings: OutputSettings) -> Iterable[Sentence]:
    """The sentences; where they name their datasets, each must be able to, and come once."""
    return _as_keys(sentences) if settings.use_sentence_keys else sentences


def _as_keys(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """It takes remembering them all."""
    first: dict[str, str] = {}
    for sentence in sentences:
        text, where = " ".join(sentence.tokens), f"{sentence.source}:{sentence.line}"
        vectors.refuse_as_key(text, where)
        if text in first:
            raise DataError(f"{where}: the same sentence as {first[text]}; a key is there once, so number them")
        first[text] = where
        yield sentence

"""A stream of sentences of any length → a file of vectors. Knows no file format.

Finished blocks are kept beside the output, so that a run that was interrupted goes on where it stopped;
memory holds one block.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from stelmo.config import LoadSettings, OutputSettings
from stelmo.embed.model import Array, Model, Reduce, all_layers, mean_of_tokens, picking
from stelmo.errors import DataError, OutputError, StelmoError
from stelmo.model.state import State
from stelmo.store import atomic, blocks, vectors
from stelmo.store.blocks import Block
from stelmo.text.formats import Sentence

Advance = Callable[[int], None]  # told the number of tokens finished since the last call


def embed_to_file(
    model: Model,
    sentences: Iterable[Sentence],
    path: Path,
    settings: OutputSettings,
    *,
    overwrite: bool = False,
    advance: Advance = lambda tokens: None,
) -> int:
    """Write the vectors of all sentences, in order, and say how many there were."""
    kind = refuse_output(path, overwrite)
    about = _about(model, settings)
    work = _working_folder(path, about, overwrite)
    try:
        named = _as_keys(sentences) if settings.use_sentence_keys else sentences
        files = list(_finished_blocks(model, named, settings, work, advance))
    except StelmoError:
        _remove_if_nothing_is_finished(work)
        raise
    if not files:
        atomic.remove(work)
        raise DataError("the input holds no sentence; nothing was written")
    with (
        atomic.new_file(path, overwrite) as draft,
        vectors.writing(draft, kind, _shape(model, settings), about) as writer,
    ):
        count = _assemble(files, writer)
    atomic.remove(work)
    return count


def refuse_output(path: Path, overwrite: bool) -> type[vectors.VectorWriter]:
    """A name no vectors can go to, refused before any work; else what writes the file."""
    atomic.refuse_existing(path, overwrite)
    return vectors.writer_for(path)


def stream(model: Model, sentences: Iterable[Sentence], settings: OutputSettings) -> Iterator[tuple[Sentence, Array]]:
    """Sentences with their vectors, in order, without a file."""
    reduce, carried = reducing(settings, model.config.depth), None
    for block in _cut(sentences, _block_tokens(model, settings), model.settings):
        arrays, carried = model.run([sentence.tokens for sentence in block], reduce, carried=carried)
        yield from zip(block, arrays, strict=True)


def _as_keys(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Sentences that can name their datasets, each once; it takes remembering them all."""
    first: dict[str, str] = {}
    for sentence in sentences:
        text, where = " ".join(sentence.tokens), f"{sentence.source}:{sentence.line}"
        vectors.refuse_as_key(text, where)
        if text in first:
            raise DataError(f"{where}: the same sentence as {first[text]}; a key is there once, so number them")
        first[text] = where
        yield sentence


def reducing(settings: OutputSettings, depth: int) -> Reduce:
    """What of a sentence's layers the settings keep."""
    pick = all_layers if settings.layer == "all" else picking(settings.layer, depth)
    if settings.sentence_vectors:
        return lambda layers_LTD: mean_of_tokens(pick(layers_LTD))
    return pick


def _about(model: Model, settings: OutputSettings) -> dict[str, Any]:
    """All that decides the numbers, but the text: a block made under other settings is not used again."""
    return {"model": model.saved().fingerprint(), **model.settings.model_dump(), **settings.model_dump()}


def _shape(model: Model, settings: OutputSettings) -> vectors.Shape:
    layers = model.config.depth if settings.layer == "all" else None
    return vectors.Shape(model.config.width, layers, not settings.sentence_vectors, settings.dtype)


def _working_folder(path: Path, about: dict[str, Any], overwrite: bool) -> Path:
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


def _remove_if_nothing_is_finished(work: Path) -> None:
    if not any(work.glob("*.npz")):
        atomic.remove(work)


def _finished_blocks(
    model: Model, sentences: Iterable[Sentence], settings: OutputSettings, work: Path, advance: Advance
) -> Iterator[Path]:
    """The files of all blocks, computed where an earlier run has not left them.

    Only the leading blocks are used again: under carry, what follows a changed text is changed, too.
    """
    reduce = reducing(settings, model.config.depth)
    reusing, carried = True, None
    for number, block in enumerate(_cut(sentences, _block_tokens(model, settings), model.settings)):
        file = work / f"{number:06d}.npz"
        reusing = reusing and blocks.finished(file, block)
        if reusing:
            carried = _state(blocks.carried(file))
        else:
            model.forget_words()  # so that a block has the same bits whether or not others ran before it
            arrays, carried = model.run([sentence.tokens for sentence in block], reduce, carried=carried)
            narrowed = [array.astype(settings.dtype) for array in arrays]
            blocks.write(Block(block, narrowed, _arrays(carried)), file)
        advance(sum(len(sentence.tokens) for sentence in block))
        yield file


def _block_tokens(model: Model, settings: OutputSettings) -> int:
    return min(settings.block_tokens, model.plan.block_tokens)


def _cut(sentences: Iterable[Sentence], tokens: int, settings: LoadSettings) -> Iterator[list[Sentence]]:
    """Blocks of about so many tokens; under carry, of whole batches. They depend on the text alone."""
    rows = settings.batch_rows if settings.state == "carry" else 1
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


def _arrays(state: State | None) -> tuple[Array, ...]:
    return () if state is None else tuple(part.cpu().numpy() for part in state)


def _state(arrays: tuple[Array, ...]) -> State | None:
    return State(*map(torch.from_numpy, arrays)) if arrays else None


def _assemble(files: Iterable[Path], writer: vectors.VectorWriter) -> int:
    count = 0
    for file in files:
        block = blocks.read(file)
        for sentence, array in zip(block.sentences, block.vectors, strict=True):
            writer.add(count, sentence, array)
            count += 1
    return count

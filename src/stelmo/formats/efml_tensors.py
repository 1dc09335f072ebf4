"""Tensors of ELMoForManyLangs ↔ ours. Reads no architecture files.

Its quirks: gates in the order i, f, j, o with the forget bias of 1 included in the stored one (subtracting and adding
it can change the last bit of float32), a highway gate that carries instead of transforms, both halves in one matrix,
kernels and matrices for W x instead of x W.
"""

import io
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from stelmo.config import CodePointInput, ModelConfig
from stelmo.errors import ModelError
from stelmo.formats.untrusted.pickles import read_state
from stelmo.ops.reference import FORGET_BIAS
from stelmo.store.saved import check, in_one_precision

DIRECTIONS = {"forward_layer": "lstm_forward", "backward_layer": "lstm_backward"}

Shapes = Iterator[tuple[str, tuple[int, ...]]]
Tensors = dict[str, Tensor]


def embedder_shapes(config: ModelConfig) -> Shapes:
    assert isinstance(config.input, CodePointInput)
    words, cnn = config.input.word_table, config.input.convolution
    if words is not None:
        yield "word_emb_layer.embedding.weight", (words.rows, words.width)
    if cnn is not None:
        yield "char_emb_layer.embedding.weight", (cnn.rows, cnn.embedding)
        for number, (window, count) in enumerate(cnn.filters):
            yield f"convolutions.{number}.weight", (count, cnn.embedding, window)
            yield f"convolutions.{number}.bias", (count,)
        for number in range(cnn.highways):
            yield f"highways._layers.{number}.weight", (2 * cnn.width, cnn.width)
            yield f"highways._layers.{number}.bias", (2 * cnn.width,)
    yield "projection.weight", (config.lstm.projection, config.input.width)
    yield "projection.bias", (config.lstm.projection,)


def encoder_shapes(config: ModelConfig) -> Shapes:
    cells, projection = config.lstm.cells, config.lstm.projection
    for number in range(config.lstm.layers):
        for direction in DIRECTIONS:
            layer = f"{direction}_{number}"
            yield f"{layer}.input_linearity.weight", (4 * cells, projection)
            yield f"{layer}.state_linearity.weight", (4 * cells, projection)
            yield f"{layer}.state_linearity.bias", (4 * cells,)
            yield f"{layer}.state_projection.weight", (projection, cells)


def read(path: Path, shapes: Shapes) -> Tensors:
    """The tensors of a pickle: exactly the expected ones."""
    found, checked = read_state(path), {}
    for name, shape in shapes:
        if name not in found:
            raise ModelError(f"{path}: tensor {name} is missing; the architecture belongs to another model")
        check(found[name], shape, f"{path}: tensor {name}")
        checked[name] = found[name]
    surplus = sorted(found.keys() - checked.keys())
    if surplus:
        raise ModelError(f"{path}: tensor {surplus[0]} is not in the architecture, which belongs to another model")
    return in_one_precision(checked, str(path))


def write(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Saves copies, because a view would save all of its storage; in memory first, because torch hides a full disk."""
    compact = ((name, tensor.clone(memory_format=torch.contiguous_format)) for name, tensor in tensors.items())
    buffer = io.BytesIO()
    torch.save(OrderedDict(compact), buffer)
    path.write_bytes(buffer.getbuffer())


# Their tensors ↔ ours


def our_embedder(theirs: Mapping[str, Tensor], config: ModelConfig) -> Tensors:
    found = {ours: _transposed(theirs[name], transpose) for ours, name, transpose in _same(config)}
    for layer, place in _highways(config):
        for name, end, transpose in (("weight", "", True), ("bias", "_bias", False)):
            transform, carry = theirs[f"{layer}.{name}"].chunk(2)
            found[f"{place}.transform{end}"], found[f"{place}.carry{end}"] = (
                _transposed(half, transpose) for half in (transform, -carry)
            )
    return {name: tensor.contiguous() for name, tensor in found.items()}


def their_embedder(ours: Mapping[str, Tensor], config: ModelConfig) -> Tensors:
    found = {name: _transposed(ours[own], transpose) for own, name, transpose in _same(config)}
    for layer, place in _highways(config):
        for name, end, transpose in (("weight", "", True), ("bias", "_bias", False)):
            halves = ours[f"{place}.transform{end}"], -ours[f"{place}.carry{end}"]
            found[f"{layer}.{name}"] = torch.cat([_transposed(half, transpose) for half in halves])
    return found


def _same(config: ModelConfig) -> Iterator[tuple[str, str, bool]]:
    """Our name, theirs, and whether the axes are reversed, for all tensors that are otherwise equal."""
    assert isinstance(config.input, CodePointInput)
    if config.input.word_table is not None:
        yield "encoder.word_table", "word_emb_layer.embedding.weight", False
    if config.input.convolution is not None:
        yield "encoder.characters.table", "char_emb_layer.embedding.weight", False
        for number in range(len(config.input.convolution.filters)):
            yield f"encoder.characters.kernels.{number}", f"convolutions.{number}.weight", True
            yield f"encoder.characters.biases.{number}", f"convolutions.{number}.bias", False
    yield "encoder.projection", "projection.weight", True
    yield "encoder.projection_bias", "projection.bias", False


def _highways(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Their name and ours for each highway layer."""
    assert isinstance(config.input, CodePointInput)
    count = 0 if config.input.convolution is None else config.input.convolution.highways
    return ((f"highways._layers.{number}", f"encoder.characters.highways.{number}") for number in range(count))


def _transposed(tensor: Tensor, transpose: bool) -> Tensor:
    return tensor.permute(*reversed(range(tensor.ndim))) if transpose else tensor


def our_lstms(theirs: Mapping[str, Tensor], config: ModelConfig) -> Tensors:
    ours: Tensors = {}
    for layer, place in _lstm_places(config):
        rows = [_swapped(theirs[f"{layer}.{side}_linearity.weight"]).T for side in ("input", "state")]
        ours[f"{place}.kernel"] = torch.cat(rows)
        ours[f"{place}.bias"] = _swapped(theirs[f"{layer}.state_linearity.bias"])
        ours[f"{place}.bias"].chunk(4)[2].sub_(FORGET_BIAS)
        ours[f"{place}.projection"] = theirs[f"{layer}.state_projection.weight"].T.contiguous()
    return ours


def their_lstms(ours: Mapping[str, Tensor], config: ModelConfig) -> Tensors:
    theirs: Tensors = {}
    for layer, place in _lstm_places(config):
        for side, rows in zip(("input", "state"), ours[f"{place}.kernel"].chunk(2), strict=True):
            theirs[f"{layer}.{side}_linearity.weight"] = _swapped(rows.T)
        theirs[f"{layer}.state_linearity.bias"] = _swapped(ours[f"{place}.bias"])
        theirs[f"{layer}.state_linearity.bias"].chunk(4)[1].add_(FORGET_BIAS)
        theirs[f"{layer}.state_projection.weight"] = ours[f"{place}.projection"].T
    return theirs


def _lstm_places(config: ModelConfig) -> Iterator[tuple[str, str]]:
    for theirs, ours in DIRECTIONS.items():
        for number in range(config.lstm.layers):
            yield f"{theirs}_{number}", f"{ours}.{number}"


def _swapped(gates: Tensor) -> Tensor:
    """Blocks i, f, j, o → i, j, f, o, or the reverse; always a copy."""
    first, second, third, fourth = gates.chunk(4)
    return torch.cat([first, third, second, fourth])

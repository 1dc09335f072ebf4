"""Tensors of an AllenNLP state by their names, and the parts that its ELMo and its language models have in common.

             AllenNLP                              ours
convolution  (count, character width, width)       (width, character width, count)
highway      [transform; gate] in one, gate · x    two matrices, gate · transformed x: the gate changes its sign
linear       (outputs, inputs)                     (inputs, outputs)
LSTM gates   i, f, j, o                            i, j, f, o
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from stelmo.config import CharInput
from stelmo.errors import ModelError
from stelmo.store.saved import check, in_one_precision
from stelmo.text import chars


@dataclass(frozen=True)
class StateTensors:
    """Some tensors of a state, by their names without the common start."""

    root: str
    tensors: Mapping[str, Tensor]
    path: str

    def tensor(self, name: str, *shape: int) -> Tensor:
        found = self.found(name)
        if tuple(found.shape) != shape:
            raise ModelError(f"{self.where(name)} has shape {tuple(found.shape)}; {shape} fits the other tensors")
        check(found, shape, self.where(name))
        return found

    def shape(self, name: str, rank: int) -> tuple[int, ...]:
        shape = tuple(self.found(name).shape)
        if len(shape) != rank:
            raise ModelError(f"{self.where(name)} has shape {shape}; expected {rank} dimensions")
        return shape

    def numbered(self, pattern: str) -> list[str]:
        """The names of that pattern with 0, 1, 2, …, without gaps."""
        head, tail = pattern.split("{}")
        there = {name for name in self.names() if name.startswith(head) and name.endswith(tail)}
        names = [pattern.format(number) for number in range(len(there))]
        if set(names) != there:
            raise ModelError(f"{self.where(pattern)}: not numbered 0, 1, 2, …: {', '.join(sorted(there))}")
        return names

    def names(self) -> Iterator[str]:
        yield from self.tensors

    def found(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise ModelError(f"{self.where(name)} is missing; expected an ELMo as AllenNLP saves it")
        return self.tensors[name]

    def where(self, name: str) -> str:
        return f"{self.path}: tensor {self.root}{name}"


def below(state: Mapping[str, Tensor], root: str, parts: tuple[str, ...], path: str) -> dict[str, Tensor]:
    """The tensors whose names start with the root and one of the parts, in one precision; names without the root."""
    begins = tuple(root + part for part in parts)
    found = {name: tensor for name, tensor in state.items() if name.startswith(begins)}
    return {name.removeprefix(root): tensor for name, tensor in in_one_precision(found, path).items()}


def char_encoder(
    source: StateTensors, table: str, at: str, cnn: CharInput, projection: int
) -> Iterator[tuple[str, Tensor]]:
    """Our tensors of the character encoder; `table` names its embedding, the names of the rest start with `at`."""
    yield "encoder.table", source.tensor(table, chars.ROWS, cnn.embedding)
    for number, (width, kernels) in enumerate(cnn.filters):
        name = f"{at}char_conv_{number}"
        kernel = source.tensor(f"{name}.weight", kernels, cnn.embedding, width)
        yield f"encoder.kernels.{number}", kernel.permute(2, 1, 0).contiguous()
        yield f"encoder.biases.{number}", source.tensor(f"{name}.bias", kernels)
    width = projection if cnn.projection == "after_convolution" else cnn.width
    for number in range(cnn.highways):
        name, ours = f"{at}_highways._layers.{number}", f"encoder.highways.{number}"
        transform, gate = source.tensor(f"{name}.weight", 2 * width, width).chunk(2)
        transform_bias, gate_bias = source.tensor(f"{name}.bias", 2 * width).chunk(2)
        yield f"{ours}.transform", transform.T.contiguous()
        yield f"{ours}.transform_bias", transform_bias.clone()
        yield f"{ours}.carry", -gate.T.contiguous()
        yield f"{ours}.carry_bias", -gate_bias
    if cnn.projection is not None or cnn.width != projection:
        yield "encoder.projection", source.tensor(f"{at}_projection.weight", projection, cnn.width).T.contiguous()
        yield "encoder.projection_bias", source.tensor(f"{at}_projection.bias", projection)
    if cnn.layer_norm is not None:
        yield "encoder.norm.gain", source.tensor(f"{at}_layer_norm.gamma", projection)
        yield "encoder.norm.shift", source.tensor(f"{at}_layer_norm.beta", projection)


def published_gates(stacked: Tensor) -> Tensor:
    """i, f, j, o → i, j, f, o"""
    i, f, j, o = stacked.chunk(4)
    return torch.cat([i, j, f, o])

"""A model → one ONNX file that turns character ids into all layers; torch is not needed to run it.

The graph is written node by node: ONNX's own LSTM has no projection, and torch exports loops only by private functions.

B sentences, T tokens, S = T + 2 with the sentence markers, N = S · B, U distinct words, C characters, E character
width, F filters, P projection, H cells, G = 4H gates, L layers, D = 2P.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import ModuleList

from stelmo.config import CharInput, CodePointInput, choose
from stelmo.embed.model import Model
from stelmo.errors import ConfigError
from stelmo.model.bilm import BiLM, ProjectedLstm, State, with_residual
from stelmo.model.context import (
    RESIDUAL,
    Block,
    GatedCnn,
    GatedConvolution,
    Linear,
    Transformer,
    TransformerLayer,
    TransformerStack,
    position_rows,
)
from stelmo.model.encoder import CharEncoder, Highway, Norm
from stelmo.ops.reference import FORGET_BIAS
from stelmo.store import atomic
from stelmo.text import chars

INPUT, OUTPUT = "characters", "layers"
OPSET, IR_VERSION = 18, 8  # from the end of 2022: every runtime in use supports them
POSITIONS = 5000  # rows of a Transformer's position table at least; a longer sentence cannot be read
NEVER = -1e30  # added to the scores of words that must not be seen
LARGEST = 2**31 - 2**20  # bytes of a protobuf message


def export(model: Model, path: str | Path, state: str | None = None, overwrite: bool = False) -> None:
    """The model as a file: `characters` (B, T, C), int64, as `stelmo.text.chars.encode_sentences` makes them,
    to `layers` (L+1, B, T, 2P), float32; zero past a sentence's end. Every sentence starts from the same state.
    """
    onnx = import_onnx()
    policy = model.settings.state if state is None else state
    _refuse_options(model, policy)
    atomic.refuse_existing(Path(path), overwrite)
    graph = _Graph(onnx)
    layers_LBTD = _layers(graph, model.bilm, model.start_state("warm" if policy == "warm" else "fresh"))
    config, make, kinds = model.config, onnx.helper, onnx.TensorProto
    assert isinstance(config.input, CharInput)
    graph.nodes.append(make.make_node("Identity", [layers_LBTD], [OUTPUT]))
    taken = make.make_tensor_value_info(INPUT, kinds.INT64, ["sentences", "tokens", config.input.max_characters])
    given = make.make_tensor_value_info(OUTPUT, kinds.FLOAT, [config.depth, "sentences", "tokens", config.width])
    whole = make.make_graph(graph.nodes, "stelmo", [taken], [given], graph.constants)
    made = make.make_model(whole, opset_imports=[make.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    make.set_model_props(made, {"state": policy, "made by": "stelmo"})
    onnx.checker.check_model(made, full_check=True)
    with atomic.new_file(Path(path), overwrite) as draft:
        onnx.save(made, str(draft))


def import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ConfigError("an ONNX file requires onnx; pip install 'stelmo[onnx]'") from None
    return onnx


def _refuse_options(model: Model, policy: str) -> None:
    """Refuse what the graph cannot do, naming the option."""
    reads = model.config.input
    if not isinstance(reads, CharInput):
        found = "code points" if isinstance(reads, CodePointInput) else "word ids (of its own, or of token_embeddings)"
        raise ConfigError(f"onnx: input {reads.kind}: the model reads {found}; only one that reads bytes is exported")
    if policy == "carry":
        raise ConfigError("onnx: state carry: the file keeps no state from call to call; choose warm or fresh")
    choose("state", policy, ("warm", "fresh"))
    if model.settings.precision not in ("float32", "float64"):
        raise ConfigError(
            f"onnx: precision {model.settings.precision}: the file computes in float32; load the model as float32"
        )
    size = 4 * sum(map(Tensor.numel, model.bilm.parameters()))
    if size > LARGEST:
        raise ConfigError(f"onnx: {size / 2**30:.1f} GB of weights; an ONNX file holds 2 GB")


class _Graph:
    """The nodes and constants of a graph under construction; values are referred to by name."""

    def __init__(self, onnx: Any, prefix: str = "") -> None:
        self.onnx, self._prefix = onnx, prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.several(kind, 1, *inputs, **attributes)[0]

    def several(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        name = f"{self._prefix}{kind}_{len(self.nodes)}"
        names = [f"{name}_{number}" for number in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, names, name, **attributes))
        return names

    def constant(self, value: Tensor | NDArray[Any] | float | Sequence[int]) -> str:
        """Fractions as float32, whole numbers as int64."""
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        name = f"{self._prefix}constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def linear(self, x: str, weight: Tensor, bias: Tensor) -> str:
        return self("Add", self("MatMul", x, self.constant(weight)), self.constant(bias))

    def bounded(self, x: str, limit: float | None) -> str:
        return x if limit is None else self("Clip", x, self.constant(-limit), self.constant(limit))


def _layers(graph: _Graph, bilm: BiLM, start: State) -> str:
    """INPUT → (L+1, B, T, D)."""
    whole_number = graph.onnx.TensorProto.INT64
    is_token_BT = graph("Greater", graph("ReduceMax", INPUT, graph.constant([2]), keepdims=0), graph.constant(0))
    lengths_B = graph("ReduceSum", graph("Cast", is_token_BT, to=whole_number), graph.constant([1]), keepdims=0)
    marked_B = graph("Add", lengths_B, graph.constant(2))
    x_SBP = _token_layer(graph, bilm, _with_markers(graph, bilm, lengths_B))
    read_SBP = _with_positions(graph, bilm.context, x_SBP) if isinstance(bilm.context, Transformer) else x_SBP
    ahead = _direction(graph, bilm, 0, read_SBP, start)
    behind = _direction(graph, bilm, 1, _reversed(graph, read_SBP, marked_B), start)
    pairs = [(x_SBP, x_SBP), *((y, _reversed(graph, z, marked_B)) for y, z in zip(ahead, behind, strict=True))]
    layers = [graph("Unsqueeze", graph("Concat", *pair, axis=2), graph.constant([0])) for pair in pairs]
    layers_LSBD = graph("Concat", *layers, axis=0)
    layers_LTBD = graph("Slice", layers_LSBD, *(graph.constant([cut]) for cut in (1, -1, 1)))
    layers_LBTD = graph("Transpose", layers_LTBD, perm=[0, 2, 1, 3])
    return graph("Where", graph("Unsqueeze", is_token_BT, graph.constant([2])), layers_LBTD, graph.constant(0.0))


def _reversed(graph: _Graph, x_SBP: str, lengths_B: str) -> str:
    """Each row reversed within its own length."""
    return graph("ReverseSequence", x_SBP, lengths_B, time_axis=0, batch_axis=1)


def _with_markers(graph: _Graph, bilm: BiLM, lengths_B: str) -> str:
    """INPUT → (S, B, C): begin of sentence, the tokens, end of sentence after the last of them."""
    assert isinstance(bilm.config.input, CharInput)
    width = bilm.config.input.max_characters
    begin_C, end_C = chars.encode_words([chars.BEGIN_SENTENCE, chars.END_SENTENCE], width)
    shape_1BC = graph("Concat", graph.constant([1]), graph("Shape", lengths_B), graph.constant([width]), axis=0)
    first_1BC = graph("Expand", graph.constant(begin_C), shape_1BC)
    last_1BC = graph("Expand", graph.constant([0]), shape_1BC)
    padded_SBC = graph("Concat", first_1BC, graph("Transpose", INPUT, perm=[1, 0, 2]), last_1BC, axis=0)
    steps = graph("Gather", graph("Shape", padded_SBC), graph.constant(0))
    position_S = graph("Range", graph.constant(0), steps, graph.constant(1))
    position_S11 = graph("Unsqueeze", position_S, graph.constant([1, 2]))
    end_B1 = graph("Unsqueeze", graph("Add", lengths_B, graph.constant(1)), graph.constant([1]))
    return graph("Where", graph("Equal", position_S11, end_B1), graph.constant(end_C), padded_SBC)


def _token_layer(graph: _Graph, bilm: BiLM, ids_SBC: str) -> str:
    """Character ids → (S, B, P). Repeated words, and padding, are computed once."""
    encoder = bilm.encoder
    assert isinstance(encoder, CharEncoder)
    ids_UC, _, word_N = graph.several("Unique", 3, graph("Flatten", ids_SBC, axis=2), axis=0)
    x_UEC = graph("Transpose", graph("Gather", graph.constant(encoder.table), ids_UC), perm=[0, 2, 1])
    strongest = []
    for kernel, bias in zip(encoder.kernels, encoder.biases, strict=True):
        windows = graph("Conv", x_UEC, graph.constant(kernel.permute(2, 1, 0)), graph.constant(bias))
        strongest.append(graph("ReduceMax", windows, graph.constant([2]), keepdims=0))
    x_UF = graph({"relu": "Relu", "tanh": "Tanh"}[encoder.config.activation], graph("Concat", *strongest, axis=1))
    if encoder.projected_first:
        x_UF = _projected(graph, x_UF, encoder)
    for layer in encoder.highways:
        assert isinstance(layer, Highway)
        x_UF = _highway(graph, x_UF, layer)
    x_UP = x_UF if encoder.projected_first else _projected(graph, x_UF, encoder)
    if encoder.norm is not None:
        x_UP = _norm(graph, x_UP, encoder.norm)
    x_NP = graph("Gather", x_UP, word_N)
    rows_SB = graph("Slice", graph("Shape", ids_SBC), graph.constant([0]), graph.constant([2]))
    shape = graph("Concat", rows_SB, graph.constant([bilm.config.projection]), axis=0)
    return graph("Reshape", x_NP, shape)


def _projected(graph: _Graph, x_UF: str, encoder: CharEncoder) -> str:
    if encoder.projection is None or encoder.projection_bias is None:
        return x_UF
    return graph.linear(x_UF, encoder.projection, encoder.projection_bias)


def _norm(graph: _Graph, x: str, norm: Norm) -> str:
    """`ops.reference.norm`"""
    centred = graph("Sub", x, graph("ReduceMean", x, graph.constant([-1])))
    variance = graph("ReduceMean", graph("Mul", centred, centred), graph.constant([-1]))
    deviation = graph("Add", graph("Sqrt", variance), graph.constant(norm.epsilon))
    return graph(
        "Add", graph("Mul", graph("Div", centred, deviation), graph.constant(norm.gain)), graph.constant(norm.shift)
    )


def _highway(graph: _Graph, x: str, weights: Highway) -> str:
    """x + g ⊙ (relu(x W_t + b_t) − x)"""
    gate = graph("Sigmoid", graph.linear(x, weights.carry, weights.carry_bias))
    transformed = graph("Relu", graph.linear(x, weights.transform, weights.transform_bias))
    return graph("Add", x, graph("Mul", gate, graph("Sub", transformed, x)))


def _direction(graph: _Graph, bilm: BiLM, side: int, x_SBP: str, start: State) -> list[str]:
    """One direction in its reading order → the output (S, B, P) of every layer; undefined past a row's end."""
    if isinstance(bilm.context, Transformer):
        return _transformer(graph, bilm.context.stacks[side], x_SBP)
    if isinstance(bilm.context, GatedCnn):
        return _gated_cnn(graph, bilm.context.stacks[side], x_SBP)
    outputs: list[str] = []
    for depth, layer in enumerate((bilm.lstm_forward, bilm.lstm_backward)[side]):
        assert isinstance(layer, ProjectedLstm)
        begin = State(start.h[side, depth], start.c[side, depth])
        y_SBP = _lstm(graph, layer, x_SBP, begin, f"{side}_{depth}_")
        x_SBP = with_residual(depth, y_SBP, x_SBP, bilm.config.lstm.skip, partial(graph, "Add"))
        outputs.append(x_SBP)
    return outputs


def _with_positions(graph: _Graph, context: Transformer, x_SBP: str) -> str:
    """Token vectors with their positions; a graph has a table of fixed length."""
    rows, width = context.positions.shape
    more = position_rows(rows, max(0, POSITIONS - rows), width).to(context.positions)
    steps = graph("Slice", graph("Shape", x_SBP), graph.constant([0]), graph.constant([1]))
    table = graph.constant(torch.cat([context.positions, more])[:, None])
    return graph("Add", x_SBP, graph("Slice", table, graph.constant([0]), steps, graph.constant([0])))


def _transformer(graph: _Graph, stack: TransformerStack, x_SBP: str) -> list[str]:
    """`model.context.TransformerStack`; a step sees those up to itself."""
    steps = graph("Gather", graph("Shape", x_SBP), graph.constant(0))
    number_S = graph("Range", graph.constant(0), steps, graph.constant(1))
    later_SS = graph("Less", graph("Unsqueeze", number_S, graph.constant([1])), number_S)
    mask_SS = graph("Where", later_SS, graph.constant(NEVER), graph.constant(0.0))
    outputs = []
    for layer in stack.layers:
        assert isinstance(layer, TransformerLayer)
        x_SBP = graph("Add", x_SBP, _attention(graph, layer, x_SBP, mask_SS))
        inner = graph("Relu", _linear(graph, _norm(graph, x_SBP, layer.hidden_norm), layer.hidden_in))
        x_SBP = graph("Add", x_SBP, _linear(graph, inner, layer.hidden_out))
        outputs.append(x_SBP)
    return [*outputs[:-1], _norm(graph, outputs[-1], stack.norm)]


def _attention(graph: _Graph, layer: TransformerLayer, x_SBP: str, mask_SS: str) -> str:
    heads, width = layer.heads, layer.attention_out.weight.shape[0]
    qkv = _linear(graph, _norm(graph, x_SBP, layer.attention_norm), layer.attention_in)
    qkv = graph("Reshape", qkv, graph.constant([0, 0, 3, heads, width // heads]))
    q, k, v = graph.several("Split", 3, graph("Transpose", qkv, perm=[2, 1, 3, 0, 4]), axis=0, num_outputs=3)
    scores = graph("MatMul", q, graph("Transpose", k, perm=[0, 1, 2, 4, 3]))
    scores = graph("Add", graph("Mul", scores, graph.constant((width // heads) ** -0.5)), mask_SS)
    seen = graph("MatMul", graph("Softmax", scores, axis=-1), v)
    seen = graph("Reshape", graph("Transpose", seen, perm=[3, 1, 0, 2, 4]), graph.constant([0, 0, width]))
    return _linear(graph, seen, layer.attention_out)


def _linear(graph: _Graph, x: str, layer: Linear) -> str:
    return graph.linear(x, layer.weight.T, layer.bias)


def _gated_cnn(graph: _Graph, stack: ModuleList, x_SBP: str) -> list[str]:
    """`model.context.Block`, one after another."""
    outputs = []
    for block in stack:
        assert isinstance(block, Block)
        u_BCS = graph("Transpose", x_SBP, perm=[1, 2, 0])
        for conv in block.convolutions:
            assert isinstance(conv, GatedConvolution)
            kernel = graph.constant(conv.taps().flip(0).permute(2, 1, 0))  # the step itself in the last column
            before = (len(conv.direction) - 1) * conv.dilation
            both = graph("Conv", u_BCS, kernel, graph.constant(conv.bias), pads=[before, 0], dilations=[conv.dilation])
            value, gate = graph.several("Split", 2, both, axis=1, num_outputs=2)
            u_BCS = graph("Mul", value, graph("Sigmoid", gate))
        both = graph("Add", graph("Transpose", u_BCS, perm=[2, 0, 1]), x_SBP)
        x_SBP = graph("Mul", both, graph.constant(RESIDUAL))
        outputs.append(x_SBP)
    return outputs


def _lstm(graph: _Graph, layer: ProjectedLstm, x_SBP: str, start: State, name: str) -> str:
    """The input's contribution to all gates in one product, then the steps one by one."""
    width = start.h.shape[1]
    bias_G = layer.bias.clone()
    cells = len(bias_G) // 4
    bias_G[2 * cells : 3 * cells] += FORGET_BIAS
    gates_SBG = graph.linear(x_SBP, layer.kernel[:width], bias_G)
    rows_B = graph("Slice", graph("Shape", x_SBP), graph.constant([1]), graph.constant([2]))
    begun = [
        graph("Expand", graph.constant(row), graph("Concat", rows_B, graph.constant([row.shape[1]]), axis=0))
        for row in start
    ]
    body = _step(graph, layer, width, name)
    return graph.several("Scan", 3, *begun, gates_SBG, body=body, num_scan_inputs=1)[2]


def _step(graph: _Graph, layer: ProjectedLstm, width: int, name: str) -> Any:
    """h, c and the input's contribution to the gates → h, c, and h again as the output: `ops.reference.lstm_step`."""
    step = _Graph(graph.onnx, name)
    h_BP, c_BH, input_gates_BG, cells = f"{name}h", f"{name}c", f"{name}gates", len(layer.bias) // 4
    gates_BG = step("Add", input_gates_BG, step("MatMul", h_BP, step.constant(layer.kernel[width:])))
    i, j, f, o = step.several("Split", 4, gates_BG, axis=1, num_outputs=4)
    kept_BH = step("Mul", step("Sigmoid", f), c_BH)
    taken_BH = step("Mul", step("Sigmoid", i), step("Tanh", j))
    next_c_BH = step.bounded(step("Add", kept_BH, taken_BH), layer.clips.cell)
    next_h_BP = step("Mul", step("Sigmoid", o), step("Tanh", next_c_BH))
    if layer.projection is not None:  # a plain LSTM has nothing to clip but its cell
        projected_BP = step("MatMul", next_h_BP, step.constant(layer.projection))
        next_h_BP = step.bounded(projected_BP, layer.clips.projection)
    shown_BP = step("Identity", next_h_BP)
    taken = [_rows(step, h_BP, width), _rows(step, c_BH, cells), _rows(step, input_gates_BG, 4 * cells)]
    given = [_rows(step, next_h_BP, width), _rows(step, next_c_BH, cells), _rows(step, shown_BP, width)]
    return graph.onnx.helper.make_graph(step.nodes, f"{name}step", taken, given, step.constants)


def _rows(graph: _Graph, name: str, width: int) -> Any:
    return graph.onnx.helper.make_tensor_value_info(name, graph.onnx.TensorProto.FLOAT, ["sentences", width])

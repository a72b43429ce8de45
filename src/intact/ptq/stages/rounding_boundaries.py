"""Moves biases so that float sums stay off the boundaries between output codes (`numerics.midway_bias`).

With short scales float sums are exact, but for the bias, and floats lie on a lattice. Some bias or other puts
its points as close to a boundary as it happens, where runtimes that round elsewhere get other codes. One that
moves by less than a step of the sum puts the boundaries midway between points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.graph import (
    Constants,
    Model,
    Node,
    QuantizedValue,
    Value,
    is_op,
    ops,
    quantization_of,
    set_initializer,
)
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_targets import channel_axis


def with_cleared_boundaries(state: State) -> State | None:
    """Store such biases in the model, in place; return None where scales are not short, or no layer fits."""
    if any(target.settings.scale_bits is None for target in state.targets):
        return None
    biases = biases_off_boundaries(state.model)
    if not biases:
        return None
    for name, bias in biases.items():
        set_initializer(state.model, name, bias)
    return state


def biases_off_boundaries(model: Model) -> dict[str, NDArray[np.float32]]:
    """Return such biases for the layers of a Q/DQ model, by initializer.

    Layers: Conv, ConvTranspose, Gemm and MatMul of codes by constant codes with a bias that is theirs alone,
    behind it at most one Add of codes, Relu and Clip, and then nothing but QuantizeLinear of one scale.
    """
    constants = Constants(model.graph)
    biases = {}
    for node in model.graph:
        factors = _factors(node, constants)
        if factors is None or (of_layer := _bias(node)) is None:
            continue
        bias, output = of_layer
        old, epilogue = constants(bias), _epilogue(output, constants)
        if epilogue is None or old is None or old.dtype != np.float32 or factors[1].size not in (1, old.size):
            continue
        biases[bias.name or ""] = numerics.midway_bias(old.reshape(-1), *factors, *epilogue)
    return biases


def _factors(node: Node, constants: Constants) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Return the scales of input and weight; None where `node` is no layer of codes."""
    if not is_op(node, "Conv", "ConvTranspose", "Gemm", "MatMul") or not _is_unscaled_gemm(node):
        return None
    x, w = (
        quantization_of(value, constants)
        for value in (_source_of_moves(node.inputs[0], constants), node.inputs[1])
    )
    if x is None or w is None or x.constant or not w.constant or x.scale.size != 1 or w.spec.block_size:
        return None
    if _is_float(x) or _is_float(w) or (w.scale.size > 1 and not _by_channel(node, w)):
        return None
    return x.scale.reshape(()), w.scale.reshape(-1)


def _by_channel(node: Node, w: QuantizedValue) -> bool:
    """Return whether a weight has a scale for each output channel."""
    axis, rank = channel_axis(node), len(w.codes.shape or ())
    return axis is not None and rank > 0 and w.spec.axis == axis % rank


def _is_unscaled_gemm(node: Node) -> bool:
    """Return whether a Gemm multiplies neither its product nor its bias."""
    op = ops.read(node)
    return not isinstance(op, ops.Gemm) or op.alpha == op.beta == 1


def _bias(node: Node) -> tuple[Value, Value] | None:
    """Return the initializer that is this layer's bias alone, and the tensor behind its addition."""
    output, bias = node.outputs[0], node.inputs[2] if len(node.inputs) > 2 else None
    if node.op_type == "MatMul":
        uses = list(output.uses())
        if output.is_graph_output() or len(uses) != 1 or not is_op(uses[0].node, "Add"):
            return None
        add, index = uses[0]
        output, bias = add.outputs[0], add.inputs[1 - index]
        if bias is None or bias.shape is None or len(bias.shape) != 1:
            return None
    if bias is None or not bias.is_initializer() or bias.is_graph_input() or len(bias.uses()) != 1:
        return None
    return bias, output


def _epilogue(value: Value, constants: Constants) -> list[NDArray[np.float32]] | None:
    """Return the scale of the output codes and of codes that are added first; None for other readers."""
    residual: list[NDArray[np.float32]] = []
    while True:
        readers = [use.node for use in value.uses()]
        if value.is_graph_output() or not readers:
            return None
        if all(is_op(node, "QuantizeLinear") for node in readers):
            return _one_scale(readers, constants, residual)
        node = readers[0]
        if len(readers) > 1:
            return None
        if is_op(node, "Add") and not residual:
            addend = quantization_of(
                _source_of_moves(node.inputs[1 if node.inputs[0] is value else 0], constants), constants
            )
            if addend is None or addend.constant or addend.scale.size != 1 or _is_float(addend):
                return None
            residual = [addend.scale.reshape(())]
        elif not is_op(node, "Relu", "Clip"):
            return None
        value = node.outputs[0]


def _source_of_moves(value: Value | None, constants: Constants) -> Value | None:
    """Return the tensor in front of operators that only move the elements of `value`."""
    node = value.producer() if value is not None else None
    while node is not None and ops.data_inputs(node) == (0,) and not ops.computes(node, constants):
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    return value


def _one_scale(
    quantizers: list[Node], constants: Constants, residual: list[NDArray[np.float32]]
) -> list[NDArray[np.float32]] | None:
    scales = [constants(node.inputs[1]) for node in quantizers]
    arrays = [np.asarray(scale, np.float32) for scale in scales if scale is not None and scale.size == 1]
    if len(arrays) < len(scales) or len({float(scale.reshape(())) for scale in arrays}) > 1:
        return None
    return [arrays[0].reshape(()), *residual]


def _is_float(quantized: QuantizedValue) -> bool:
    return quantized.spec.format.is_float

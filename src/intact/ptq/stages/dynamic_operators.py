"""Conv, LSTM and Attention that quantize their inputs as they run, as ONNX Runtime's own operators for it.

Weights become uint8 codes around 128, with a scale for each output channel, gate or column: ONNX Runtime's
ConvInteger takes no signed ones, and sums of these saturate in its kernels for AVX2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import graph
from intact.graph import (
    Constants,
    DataType,
    Inserter,
    Namer,
    Node,
    Value,
    input_of,
    inserter_at,
    ops,
    take_place,
)
from intact.patterns import is_fitting

_MIDDLE, _MOST_CODE = 128, 127
_MOST_TERMS = 32_768
"""Products of codes whose sum int32 holds."""

_Arrays = Mapping[int, NDArray[np.float32] | None]
"""Constant inputs by position; None: there is none."""


def write_dynamic_operators(
    model: graph.Model, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> dict[str, int]:
    """Put layers that quantize their inputs in the place of Conv, LSTM and Attention, in place.

    Before: ``Conv(x, w, b)``.
    After:  ``q, s, z = DynamicQuantizeLinear(x)``,
    ``Add(Mul(Cast(ConvInteger(q, codes, z, 128)), Mul(s, scales)), b)``.
    LSTM becomes DynamicQuantizeLSTM, Attention QAttention, both of ONNX Runtime's domain.

    Args:
        model: It.
        include, exclude: Patterns over names and operators of nodes.

    Returns:
        How many layers were replaced, by operator. The others have a form that these operators lack, or
        weights that are not constant floats.
    """
    counts: Counter[str] = Counter()
    constants, names = Constants(model.graph), Namer(model.graph)
    for node in list(model.graph.all_nodes()):
        positions, write = _WRITERS.get((node.domain, node.op_type), ((), None))
        label = node.name or "", node.op_type
        if write is None or any(is_fitting(pattern, label) for pattern in exclude):
            continue
        if include and not any(is_fitting(pattern, label) for pattern in include):
            continue
        arrays = _read_constants(node, constants, positions)
        if arrays is not None and write(inserter_at(names, node), node, arrays):
            counts[node.op_type] += 1
    graph.prune(model)
    return dict(counts)


def _read_constants(node: Node, constants: Constants, positions: Sequence[int]) -> _Arrays | None:
    """Return the inputs at some positions; None where one is no finite constant of float32."""
    arrays: dict[int, NDArray[np.float32] | None] = {}
    for position in positions:
        value = input_of(node, position)
        array = None if value is None else constants(value)
        if value is not None and (array is None or array.dtype != np.float32 or not np.isfinite(array).all()):
            return None
        arrays[position] = array
    return arrays if arrays[1] is not None and arrays[1].size else None


def _write_conv(insert: Inserter, node: Node, arrays: _Arrays) -> bool:
    weight, bias = arrays[1], arrays[2]
    if weight is None or weight.ndim not in (3, 4) or weight[0].size > _MOST_TERMS:
        return False
    base, shape = node.name or "conv", node.outputs[0].shape

    def write(op_type: str, *values: Value, **arguments: Any) -> Value:
        name = f"{base}.{op_type.lower()}"
        return insert.node(op_type, values, name, dtype=DataType.FLOAT, shape=shape, **arguments)

    codes, scales = _round(weight, tuple(range(1, weight.ndim)))
    x, x_scale, x_zero = _quantize_input(insert, node, base)
    inputs = [x, insert.constant(f"{base}.codes", codes), x_zero, insert.constant(f"{base}.zero", _point())]
    sums = insert.node(
        "ConvInteger", inputs, f"{base}.sums", dtype=DataType.INT32, shape=shape, **ops.copy_attributes(node)
    )
    spread = (-1, *[1] * (weight.ndim - 2))
    factors = insert.constant(f"{base}.scales", scales.reshape(spread))
    scale = insert.node("Mul", [x_scale, factors], f"{base}.scale", dtype=DataType.FLOAT, shape=factors.shape)
    result = write("Mul", write("Cast", sums, to=int(DataType.FLOAT)), scale)
    if bias is not None:
        result = write("Add", result, insert.constant(f"{base}.bias", bias.reshape(spread)))
    take_place(node, [result], insert.names)
    return True


def _write_lstm(insert: Inserter, node: Node, arrays: _Arrays) -> bool:
    weights = [arrays[1], arrays[2]]
    lacks_form = ops.LSTM.of(node).unusual(node) or "layout" in ops.plain(node)
    if lacks_form or any(w is None or w.ndim != 3 or w.shape[2] > _MOST_TERMS for w in weights):
        return False
    base, output = node.name or "lstm", node.outputs[0]
    codes, parameters = list[Value](), list[Value]()
    for name, weight in zip(("inputs", "states"), weights, strict=True):
        assert weight is not None
        rounded, scales = _round(weight, (2,))
        codes.append(insert.constant(f"{base}.{name}", np.ascontiguousarray(rounded.swapaxes(1, 2))))
        points = np.full(scales.shape, _MIDDLE, np.uint8)
        parameters.append(insert.constant(f"{base}.{name}.scales", scales))
        parameters.append(insert.constant(f"{base}.{name}.zeros", points))
    inputs = [node.inputs[0], *codes, *(input_of(node, at) for at in range(3, 8)), *parameters]
    first = insert.node(
        "DynamicQuantizeLSTM", inputs, f"{base}.codes", domain=ops.MICROSOFT, dtype=output.dtype,
        shape=output.shape, **ops.copy_attributes(node),
    )  # fmt: skip
    take_place(node, _outputs_like(node, first, insert.names), insert.names)
    return True


def _write_attention(insert: Inserter, node: Node, arrays: _Arrays) -> bool:
    weight, output = arrays[1], node.outputs[0]
    lacks_form = _ATTENTION_ONLY.intersection(ops.plain(node)) or any(input_of(node, at) for at in (5, 6))
    if lacks_form or weight is None or weight.ndim != 2 or weight.shape[0] > _MOST_TERMS:
        return False
    if arrays[2] is None:  # QAttention has no form without
        return False
    base = node.name or "attention"
    codes, scales = _round(weight, (0,))
    x, x_scale, x_zero = _quantize_input(insert, node, base)
    inputs = [
        x, insert.constant(f"{base}.codes", codes), node.inputs[2], x_scale,
        insert.constant(f"{base}.scales", scales), input_of(node, 3), x_zero,
        insert.constant(f"{base}.zeros", np.full(scales.shape, _MIDDLE, np.uint8)), input_of(node, 4),
    ]  # fmt: skip
    first = insert.node(
        "QAttention", inputs, f"{base}.codes", domain=ops.MICROSOFT, dtype=output.dtype, shape=output.shape,
        **ops.copy_attributes(node),
    )  # fmt: skip
    take_place(node, _outputs_like(node, first, insert.names), insert.names)
    return True


def _round(
    weight: NDArray[np.float32], axes: tuple[int, ...]
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return the codes of a weight, and its scales, which lack the axes that share one."""
    scales = np.abs(weight).max(axis=axes, keepdims=True) / np.float32(_MOST_CODE)
    scales = np.where(scales > 0, scales, np.float32(1)).astype(np.float32)
    codes = np.clip(np.rint(weight / scales), -_MOST_CODE, _MOST_CODE) + _MIDDLE
    return codes.astype(np.uint8), np.squeeze(scales, axes)


def _point() -> NDArray[np.uint8]:
    return np.array(_MIDDLE, np.uint8)


def _quantize_input(insert: Inserter, node: Node, base: str) -> tuple[Value, Value, Value]:
    """Return the codes of a node's first input, their scale and their zero point."""
    x = node.inputs[0]
    assert x is not None
    codes = insert.node("DynamicQuantizeLinear", [x], f"{base}.input", dtype=DataType.UINT8, shape=x.shape)
    quantizer = codes.producer()
    assert quantizer is not None
    quantizer.resize_outputs(3)
    _, scale, zero = quantizer.outputs
    for output, name, dtype in ((scale, "scale", DataType.FLOAT), (zero, "zero", DataType.UINT8)):
        output.name, output.dtype = insert.names(f"{base}.input.{name}"), dtype
        graph.set_shape(output, ())
    return codes, scale, zero


def _outputs_like(node: Node, first: Value, names: Namer) -> list[Value]:
    """Return as many outputs of the node that makes `first` as `node` has, of the same types and shapes."""
    written = first.producer()
    assert written is not None
    written.resize_outputs(len(node.outputs))
    for output, model in zip(written.outputs[1:], node.outputs[1:], strict=True):
        output.name, output.type, output.shape = names(f"{first.name}.state"), model.type, model.shape
        if not model.name:
            output.name = ""
    return list(written.outputs)


_ATTENTION_ONLY = frozenset({"qkv_hidden_sizes", "scale"})
"""Attributes that QAttention lacks."""

_WRITERS: dict[tuple[str, str], tuple[Sequence[int], Callable[[Inserter, Node, _Arrays], bool]]] = {
    ("", "Conv"): ((1, 2), _write_conv),
    ("", "LSTM"): ((1, 2, 3), _write_lstm),
    (ops.MICROSOFT, "Attention"): ((1, 2), _write_attention),
}
"""(domain, operator) -> positions of constants, and what writes it anew."""

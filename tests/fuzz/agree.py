"""The integer reference against the Q/DQ file in float, as far as N33 promises that they agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from tests.fuzz.rounding import SUMS, reals, rounding_bound

from intact.engine.compare.comparison_counts import ROUNDING
from intact.engine.plan import Plan
from intact.engine.steps import Codes, FakeQuantize, LayerNorm
from intact.engine.steps.base.wiring import reads, writes

Arrays = Mapping[str, NDArray[Any]]
_MOVES = frozenset({"reshape", "transpose", "slice", "gather", "pad", "resize", "reinterpret", "dequantize"})
"""Steps that round nothing."""
_REALS = frozenset({"layer_norm", "softmax", "function", "binary", "recurrent", "reduce", "quantize"})
"""Steps of floats: N33 speaks of sums, and a norm of nearly equal numbers magnifies the last bits."""

_DYNAMIC = frozenset(
    {"block_linear", "chosen_block_linear", "dynamic_conv", "dynamic_quantize", "dynamic_recurrent"}
)
"""Steps whose ranges show the last bits of what they read: nothing is compared behind them."""


def disagreement(
    proto: onnx.ModelProto, plan: Plan, file: Arrays, values: Arrays, outside: set[str]
) -> tuple[int, str]:
    """Count the compared tensors, and describe the first that disagrees; "" for none.

    From the same input codes, codes differ by 1 at most, and only where the file's real lies within
    `ROUNDING` of a boundary. Behind a tensor with a difference nothing is compared.

    Args:
        proto: The model.
        plan: What was made of it.
        file: Its codes, and what they were made of, in ONNX Runtime.
        values: Every tensor of the plan by the reference.
        outside: Tensors that depend on a fallback part.
    """
    result, nodes = _codes_of(proto), {node.name: node for node in proto.graph.node}
    clean = {name for name in plan.inputs if name not in outside and _modest(proto, name, values[name])}
    compared, bounds = 0, dict[str, NDArray[np.float64]]()
    for step in plan.steps:
        if step.kind in _REALS | _MOVES | SUMS:
            doubt = rounding_bound(plan, step, values, bounds)
            bounds.update((name, doubt) for name in writes(step) if plan.tensors[name].codes is None)
        same = step.native and all(name in clean for name in reads(step) if name in plan.tensors)
        same &= not isinstance(step, FakeQuantize) and step.kind not in _DYNAMIC
        if isinstance(step, FakeQuantize) and plan.tensors[step.y].codes is None:
            # 16 bits show the last bits of what they are made of: from the same floats they are the same.
            of, got = (reals(plan, values, name) for name in (step.x, step.y))
            (pair,) = (nodes[n] for n in step.nodes if nodes[n].op_type == "QuantizeLinear")
            inputs, want = _fake_quantized(pair, step, file, values)
            equal = np.array_equal(got, want, equal_nan=True)
            if np.array_equal(of, inputs, equal_nan=True):
                compared += 1
                if not equal:
                    return compared, f"'{step.y}' of {step.kind}: other floats of the same ones"
            if equal:
                clean.add(step.y)
            continue
        for name in writes(step):
            grid = plan.tensors[name].codes
            source = result.get((name, *_key(grid))) if grid is not None else None
            if source is None or source[1] not in file:
                if same and (grid is None or step.kind in _MOVES):
                    clean.add(name)
                continue
            real, codes = source
            if values[name].size == 0:  # of what is empty ONNX Runtime tells other sizes than ONNX does
                continue
            equal = np.array_equal(file[codes], values[name])
            if same:
                compared += 1
                room = 10 * ROUNDING + doubt / grid.scale if step.kind in _REALS else np.float64(ROUNDING)
                if isinstance(step, LayerNorm):
                    room += _magnify(plan, step, values) / grid.scale
                wrong = "" if equal else _beyond(file[codes], values[name], file.get(real), grid, room)
                if wrong:
                    return compared, f"'{name}' of {step.kind}: {wrong}"
            if equal:
                clean.add(name)
    return compared, ""


def _magnify(plan: Plan, step: LayerNorm, values: Arrays) -> float:
    """Return how much two last bits of a row's mean are magnified behind its norm: much, where numbers are
    equal."""
    x = sum(reals(plan, values, name) for name in (step.x, step.residual) if name)
    spread = np.sqrt(x.var(axis=-1) + step.epsilon)
    gain = np.abs(plan.constants[step.weight]).max(initial=0) if step.weight else 1.0
    return float((2.0**-22 * np.abs(x).max(axis=-1, initial=0) / spread).max(initial=0) * gain)


def _modest(proto: onnx.ModelProto, name: str, array: NDArray[Any]) -> bool:
    """Return whether float evaluations can agree on values computed from an input: it is quantized, or not
    huge."""
    readers = {node.op_type for node in proto.graph.node if name in node.input}
    return array.dtype.kind != "f" or readers == {"QuantizeLinear"} or np.abs(array).max(initial=0) < 100


def _fake_quantized(
    node: onnx.NodeProto, step: FakeQuantize, file: Arrays, values: Arrays
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the tensors that the file rounds to a grid, and the results."""
    real, codes = node.input[0], file[node.output[0]].astype(np.int32)
    steps = (codes - step.zero_point).astype(np.float32)
    return file[real] if real in file else values[real], steps * np.float32(step.scale)


def _key(grid: Codes) -> tuple[float, int, bool]:
    return float(np.float32(grid.scale)), grid.zero_point, grid.signed


def _codes_of(proto: onnx.ModelProto) -> dict[tuple[str, float, int, bool], tuple[str, str]]:
    """(tensor of floats, grid) -> that tensor, and its codes, in the file."""
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    result = {}
    for node in proto.graph.node:
        if node.op_type != "QuantizeLinear" or node.input[0] in constants:
            continue
        scale = float(numpy_helper.to_array(constants[node.input[1]]).reshape(-1)[0])
        zero = numpy_helper.to_array(constants[node.input[2]])
        if zero.itemsize > 1:
            continue
        pair = node.input[0], node.output[0]
        for name in pair:
            result[name, scale, int(zero.reshape(-1)[0]), zero.dtype == np.int8] = pair
    return result


def _beyond(
    file: NDArray[Any], values: NDArray[Any], real: NDArray[Any] | None, grid: Codes, room: Any
) -> str:
    """Return values more than one code beyond the room, and not at a boundary."""
    if file.shape != values.shape or file.dtype != values.dtype:
        return f"{values.dtype} {values.shape}, in the file {file.dtype} {file.shape}"
    apart = np.abs(file.astype(np.int64) - values.astype(np.int64))
    if (apart > 1 + np.floor(room)).any():
        return f"{np.count_nonzero(apart)} of {apart.size} codes differ, by {apart.max()} at most"
    if real is None:
        return ""
    steps = real.astype(np.float64) / grid.scale
    distance = np.abs(steps - np.floor(steps) - 0.5)
    if ((apart > 0) & (distance > room)).any():
        count = np.count_nonzero(apart)
        return f"{count} of {apart.size} codes differ, {distance[apart > 0].max():.3g} steps from a boundary"
    return ""

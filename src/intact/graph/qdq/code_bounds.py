"""Rewrite Clip, Max, Min and Relu of codes as bounds on floats between two pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from intact import numerics
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import FORMATS, is_op
from intact.graph.qdq.emit_qdq import QUANTIZER_KEY
from intact.graph.rewrites.rewrite import Outcome, Rewrite, Scene
from intact.spec import Format, QuantSpec


@dataclass(frozen=True)
class _Grid:
    """Scale and zero point of codes: their values in the graph, and the spec of the codes."""

    values: tuple[ir.Value, ...]
    spec: QuantSpec
    scale: np.float32
    zero: int

    def real(self, code: int) -> np.float32 | None:
        """Return the float of `code`; None where it does not round to it."""
        real = np.asarray(numerics.dequantize(np.int32(code), self.scale, np.int32(self.zero), self.spec))
        back = numerics.quantize(real, self.scale, np.int32(self.zero), self.spec)
        return np.float32(real) if np.isfinite(real) and int(back) == code else None


def _clip_floats(node: ir.Node, scene: Scene) -> Outcome:
    """Clip the floats of codes rather than the codes; the codes stay the same.

    Before: ``DQ(Clip(Q(x), low, high))``, as PyTorch writes 7 bits, and Brevitas all of fewer than 8.
    After: ``DQ(Q(Clip(DQ(Q(x)), DQ(low), DQ(high))))``: a layer between two pairs of one grid, which the
    layer in front takes in as its bounds. Bounds outside the type go.

    Guards: constant bounds; one constant scale; the floats of the bounds round to them. Constant codes stay:
    they are folded.
    """
    constants = scene.constants
    codes, bounds = _bounds(node, constants)
    if codes is None or bounds is None or codes in constants:
        return None
    if codes.dtype is None or codes.dtype.numpy().kind not in "iu":  # of a file that says so of floats
        return None
    lowest, highest = _limits(codes)
    low, high = bounds
    if low <= lowest and high >= highest:
        if node.outputs[0].is_graph_output():
            return None
        scene.replace(node, codes)
        return f"{node.op_type} of codes bounds nothing"
    quantizers = [codes.producer(), *(use.node for use in node.outputs[0].uses() if use.idx == 0)]
    grids = (_grid(quantizer, constants) for quantizer in quantizers)
    grid = next((grid for grid in grids if grid is not None), None)
    if grid is None:
        return None
    low, high = np.clip([low, high], lowest, highest).tolist()
    reals = grid.real(low), grid.real(high)
    if reals[0] is None or reals[1] is None:
        return None
    ends = [None if low <= lowest else reals[0], None if high >= highest else reals[1]]
    _insert_clip(node, codes, grid, ends, scene)
    return f"{node.op_type} of codes became one of floats"


def _insert_clip(
    node: ir.Node, codes: ir.Value, grid: _Grid, ends: list[np.float32 | None], scene: Scene
) -> None:
    """Put DequantizeLinear, Clip and QuantizeLinear into the place of `node`."""
    base, shape, parameters = node.name, node.outputs[0].shape, grid.values
    insert, real = scene.inserter(node), ir.DataType.FLOAT
    if len(parameters) == 1:  # without a zero point the new codes would be uint8
        assert codes.dtype is not None
        zero = np.zeros((), codes.dtype.numpy())
        parameters = (*parameters, insert.constant(f"{base}.zero_point", zero))
    y = insert.node("DequantizeLinear", [codes, *parameters], f"{base}.real", dtype=real, shape=shape)
    bounds = [None if end is None else insert.constant(f"{base}.end", end) for end in ends]
    y = insert.node("Clip", [y, *bounds], f"{base}.clipped", dtype=real, shape=shape)
    clip = y.producer()
    assert clip is not None
    clip.metadata_props[QUANTIZER_KEY] = base or ""  # a part of the pair, which goes with it
    y = insert.node("QuantizeLinear", [y, *parameters], f"{base}.codes", dtype=codes.dtype, shape=shape)
    output = node.outputs[0]
    if not output.is_graph_output():
        y.name, output.name = output.name, None
    scene.replace(node, y)


def _bounds(node: ir.Node, constants: Constants) -> tuple[ir.Value | None, tuple[int, int] | None]:
    """Match a bound on `node`'s input: return it and its ends, None for a computed end."""
    limits = np.iinfo(np.int32)
    ends = [int(limits.min), int(limits.max)]
    inputs = list(node.inputs)
    if is_op(node, "Relu"):
        return inputs[0], (0, ends[1])
    if is_op(node, "Clip"):
        codes, other_inputs = inputs[0], dict(enumerate(inputs[1:]))
    else:
        moving = [value for value in inputs if value not in constants]
        if len(moving) != 1 or len(inputs) != 2:
            return None, None
        codes, other_inputs = moving[0], {int(is_op(node, "Min")): inputs[inputs[0] is moving[0]]}
    for index, value in other_inputs.items():
        array = constants(value)
        if value is not None and (array is None or array.size != 1):
            return None, None
        if array is not None:
            ends[index] = int(array.reshape(()))
    return codes, (min(ends), ends[1])


def _grid(node: ir.Node | None, constants: Constants) -> _Grid | None:
    """Return the grid of a QuantizeLinear or DequantizeLinear of one constant scale."""
    if node is None or not is_op(node, "QuantizeLinear", "DequantizeLinear"):
        return None
    values = tuple(value for value in node.inputs[1:3] if value is not None)
    arrays = [constants(value) for value in values]
    face = node.outputs[0] if is_op(node, "QuantizeLinear") else node.inputs[0]
    name = FORMATS.get(face.dtype) if face is not None and face.dtype is not None else None
    if name is None or not values or any(array is None or array.size != 1 for array in arrays):
        return None
    scale, zero = [*(array.reshape(()) for array in arrays if array is not None), np.zeros((), np.int32)][:2]
    if scale.dtype != np.float32 or not np.isfinite(scale) or scale <= 0:
        return None
    spec = QuantSpec(Format.parse(name), symmetric=not zero.any())
    return None if spec.format.is_float else _Grid(values, spec, np.float32(scale), int(zero))


def _limits(codes: ir.Value) -> tuple[int, int]:
    assert codes.dtype is not None
    limits = np.iinfo(codes.dtype.numpy())
    return int(limits.min), int(limits.max)


CODE_BOUNDS = Rewrite(
    "bound floats instead of codes", _clip_floats, ("Clip", "Max", "Min", "Relu"),
    matches=lambda node: node.outputs[0].dtype in FORMATS,
)  # fmt: skip

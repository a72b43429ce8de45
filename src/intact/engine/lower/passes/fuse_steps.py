"""Fuse neighbouring steps of the finished list where one step gives exactly the same.

Two that move data as one, padding as a convolution's own, factors and offsets in a layer's epilogue, bounds
as a grid's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.plan import Plan
from intact.engine.steps import (
    Add,
    Binary,
    Clip,
    Conv,
    ConvTranspose,
    Epilogue,
    FakeQuantize,
    FloatConv,
    FloatConvTranspose,
    Function,
    Linear,
    MatMul,
    Pad,
    Pool,
    Reshape,
    Slice,
    Step,
    Table,
    Tensor,
    Transpose,
)
from intact.engine.steps.base.wiring import constants, reads, writes


def join_steps(plan: Plan) -> Plan:
    """Fuse steps with the step above that alone feeds them.

    Before: ``Slice -> Slice``, ``Reshape -> Reshape``, ``Pad -> Conv``, ``Clip -> Q/DQ``,
    ``Conv + HardSwish -> Mul -> Add``, ``Conv -> Clip of codes``.

    After: one of them.

    Guards: nobody else reads what stands in between; the Pad pads height and width alone; product and sum are
    with a constant, one number for each channel or for all.
    """
    readers = Counter(name for step in plan.steps for name in reads(step)) + Counter(plan.outputs)
    makers: dict[str, Step] = {}
    notes, gone = list(plan.notes), set[str]()
    arrays = dict(plan.constants)
    for step in plan.steps:
        while True:
            for x in reads(step):
                above = makers.get(x) if readers[x] == 1 else None
                joined = _join(above, step, plan.tensors, arrays) if above is not None else None
                if joined is not None and above is not None:
                    notes.append(f"join steps: {above.name} and {step.name} are one")
                    gone.add(x)
                    step = joined
                    break
            else:
                break
        makers.update(dict.fromkeys(writes(step), step))
    remaining: dict[str, Step] = {}
    for step in makers.values():
        if not gone.intersection(writes(step)):
            remaining.setdefault(writes(step)[0], step)
    steps = tuple(remaining.values())
    tensors = {name: tensor for name, tensor in plan.tensors.items() if name not in gone}
    named = {name for step in steps for name in (*constants(step), *reads(step))}
    used_arrays = {name: array for name, array in arrays.items() if name in named}
    return replace(plan, steps=steps, tensors=tensors, constants=used_arrays, notes=tuple(notes))


_Arrays = dict[str, NDArray[Any]]


def _join(above: Step, step: Step, tensors: Mapping[str, Tensor], arrays: _Arrays) -> Step | None:
    if isinstance(step, Reshape):
        return _fuse_reshape(above, step, tensors)
    if isinstance(above, Transpose) and isinstance(step, Transpose):
        perm = tuple(above.perm[axis] for axis in step.perm)
        nodes = above.nodes + step.nodes
        if perm == tuple(sorted(perm)):
            return Reshape(step.name, nodes, above.x, step.y)
        return replace(step, nodes=nodes, x=above.x, perm=perm)
    if isinstance(above, Slice) and isinstance(step, Slice):
        pairs = zip(above.starts, above.steps, step.starts, strict=True)
        # What takes nothing may begin behind the end: before the start, where the first one goes backwards.
        starts = tuple(max(start + hop * more, 0) for start, hop, more in pairs)
        steps = tuple(a * b for a, b in zip(above.steps, step.steps, strict=True))
        return replace(step, nodes=above.nodes + step.nodes, x=above.x, starts=starts, steps=steps)
    if (
        isinstance(above, Pad)
        and not above.fill  # a layer pads with 0
        and isinstance(step, Conv | FloatConv)
        and not (isinstance(step, Conv) and step.low)
        and above.constant_pads
        and not any(above.constant_pads[:4])
    ):
        top, bottom, left, right = above.constant_pads[4:]
        pads = tuple(a + b for a, b in zip(step.pads, (top, left, bottom, right), strict=True))
        nodes = above.nodes + step.nodes
        return replace(step, nodes=nodes, x=above.x, pads=(pads[0], pads[1], pads[2], pads[3]))
    inner_tensor = tensors[writes(above)[0]]
    floats = inner_tensor.codes is None  # codes were rounded before they are multiplied
    if floats and isinstance(above, Conv | ConvTranspose | Linear) and isinstance(step, Binary):
        return _with_numbers(above, step, arrays, len(inner_tensor.shape))
    if floats and isinstance(above, Clip | Function) and isinstance(step, FakeQuantize):
        return _fuse_bounds(above, step)
    if isinstance(above, _Layer) and isinstance(step, Table):
        return _fuse_clamp(above, step, tensors, arrays)
    return None


def _fuse_reshape(above: Step, step: Reshape, tensors: Mapping[str, Tensor]) -> Step | None:
    """Absorb a Reshape into the step above: Reshapes in a row become one, and those around a layer cancel."""
    nodes = above.nodes + step.nodes
    if isinstance(above, Reshape):
        return replace(step, nodes=nodes, x=above.x)
    x, y = tensors[step.x], tensors[step.y]
    if (x.shape, x.codes) == (y.shape, y.codes) and isinstance(
        above, Conv | ConvTranspose | FloatConv | FloatConvTranspose | Pool
    ):
        return replace(above, nodes=nodes, y=step.y)
    return None


def _fuse_bounds(above: Clip | Function, step: FakeQuantize) -> FakeQuantize | None:
    """Merge bounds into the grid behind them: rounding keeps the order."""
    ends = (above.low, above.high) if isinstance(above, Clip) else (0.0, None)
    if isinstance(above, Function) and above.function != "relu":
        return None
    if (step.low, step.high) != (None, None):
        return None
    low, high = (
        None
        if end is None
        else int(numerics.quantize(end, np.float32(step.scale), step.zero_point, step.spec))
        for end in ends
    )
    if low is not None and high is not None and low > high:
        return None
    return replace(step, nodes=above.nodes + step.nodes, x=above.x, low=low, high=high)


_Layer = Add | Conv | ConvTranspose | Linear | MatMul


def _fuse_clamp(above: _Layer, step: Table, tensors: Mapping[str, Tensor], arrays: _Arrays) -> _Layer | None:
    """Return the layer with narrower bounds, where the table bounds its codes and does nothing else."""
    x, y = tensors[step.x].codes, tensors[step.y].codes
    stage = above if isinstance(above, Add) else above.epilogue
    if x is None or y is None or (not isinstance(stage, Add) and stage.activation):
        return None
    inside = np.arange(x.low, x.high + 1)
    table_codes = arrays[step.table][inside + x.offset].astype(np.int64) - y.offset
    same = (x.scale, x.zero_point, x.signed) == (y.scale, y.zero_point, y.signed)
    if not same or not np.array_equal(table_codes, np.clip(inside, y.low, y.high)):
        return None
    low = y.low if stage.low is None else int(np.clip(stage.low, y.low, y.high))
    high = y.high if stage.high is None else int(np.clip(stage.high, y.low, y.high))
    nodes = above.nodes + step.nodes
    if isinstance(above, Add):
        return replace(above, nodes=nodes, y=step.y, low=low, high=high)
    return replace(above, nodes=nodes, y=step.y, epilogue=replace(above.epilogue, low=low, high=high))


def _with_numbers(
    layer: Conv | ConvTranspose | Linear, step: Binary, arrays: _Arrays, rank: int
) -> Conv | ConvTranspose | Linear | None:
    """Return the layer whose function's values are multiplied, or added to, in its epilogue (N44)."""
    other, before = step.b if step.a == layer.y else step.a, _with_function(layer.epilogue)
    field = _NUMBERS.get(step.function)
    occupied = before is None or before.offsets or (field == "factors" and before.factors)
    if field is None or before is None or occupied or other not in arrays:
        return None
    numbers = _vector(arrays, other, len(arrays[layer.weight]), 0 if isinstance(layer, Linear) else 2)
    if numbers is None or arrays[other].ndim > rank:
        return None
    name = other
    while name in arrays and arrays[name] is not numbers:
        name += ".vector"
    arrays[name] = numbers
    epilogue = replace(before, factors=name) if field == "factors" else replace(before, offsets=name)
    return replace(layer, nodes=layer.nodes + step.nodes, y=step.y, epilogue=epilogue)


_NUMBERS = {"mul": "factors", "add": "offsets"}


def _with_function(epilogue: Epilogue) -> Epilogue | None:
    """Return the epilogue if it ends in a function, a Relu of floats included; None otherwise."""
    if epilogue.activation:
        return epilogue
    relu = (epilogue.low, epilogue.high) == (0.0, None) and not epilogue.slope
    return replace(epilogue, activation="relu", low=None) if relu else None


def _vector(arrays: Mapping[str, NDArray[Any]], name: str, size: int, behind: int) -> NDArray[Any] | None:
    """Return a constant as one number, or as [size] of an axis that `behind` others follow; else None."""
    array = arrays[name]
    if array.size == 1:
        return np.ascontiguousarray(array.reshape(-1))
    if array.ndim == 1 and behind == 0:
        return array if array.size == size else None
    shape = array.shape[::-1]
    along = len(shape) > behind and shape[behind] == size and array.size == size
    return np.ascontiguousarray(array.reshape(-1)) if along else None

"""Small rewrites of the finished list of steps: neighbours that one step does, exactly.

Two that move data as one, padding as a convolution's own, factors in a layer's epilogue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.steps import Binary, Conv, ConvTranspose, FloatConv, Linear, Pad, Slice, Step, Tensor
from intact.engine.steps.wiring import constants, reads, writes


def join_steps(plan: Plan) -> Plan:
    """Before: ``Slice -> Slice``, ``Pad -> Conv``, ``Linear + Gelu -> Mul``.  After: one of them.

    Guards: nobody else reads what stands in between; the Pad pads height and width alone; the product is by
    a constant, one number for each channel.
    """
    readers = Counter(name for step in plan.steps for name in reads(step)) + Counter(plan.outputs)
    makers: dict[str, Step] = {}
    notes, gone = list(plan.notes), set[str]()
    arrays = dict(plan.constants)
    for step in plan.steps:
        for x in reads(step):
            above = makers.get(x) if readers[x] == 1 else None
            joined = _join(above, step, plan.tensors[x], arrays) if above is not None else None
            if joined is not None and above is not None:
                notes.append(f"join steps: {above.name} and {step.name} are one")
                gone.add(x)
                step = joined
                break
        makers.update(dict.fromkeys(writes(step), step))
    kept: dict[str, Step] = {}
    for step in makers.values():
        if not gone.intersection(writes(step)):
            kept.setdefault(writes(step)[0], step)
    steps = tuple(kept.values())
    tensors = {name: tensor for name, tensor in plan.tensors.items() if name not in gone}
    named = {name for step in steps for name in (*constants(step), *reads(step))}
    held = {name: array for name, array in arrays.items() if name in named}
    return replace(plan, steps=steps, tensors=tensors, constants=held, notes=tuple(notes))


_Arrays = dict[str, NDArray[Any]]


def _join(above: Step, step: Step, between: Tensor, arrays: _Arrays) -> Step | None:
    if isinstance(above, Slice) and isinstance(step, Slice):
        pairs = zip(above.starts, above.steps, step.starts, strict=True)
        # What takes nothing may begin behind the end: before the start, where the first one goes backwards.
        starts = tuple(max(start + hop * more, 0) for start, hop, more in pairs)
        steps = tuple(a * b for a, b in zip(above.steps, step.steps, strict=True))
        return replace(step, nodes=above.nodes + step.nodes, x=above.x, starts=starts, steps=steps)
    if (
        isinstance(above, Pad)
        and isinstance(step, Conv | FloatConv)
        and not any(above.pads[0] + above.pads[1])
    ):
        (top, bottom), (left, right) = above.pads[2:]
        pads = tuple(a + b for a, b in zip(step.pads, (top, left, bottom, right), strict=True))
        nodes = above.nodes + step.nodes
        return replace(step, nodes=nodes, x=above.x, pads=(pads[0], pads[1], pads[2], pads[3]))
    floats = between.codes is None  # codes were rounded before they are multiplied
    if floats and isinstance(above, Conv | ConvTranspose | Linear) and isinstance(step, Binary):
        return _with_factors(above, step, arrays)
    return None


def _with_factors(
    layer: Conv | ConvTranspose | Linear, step: Binary, arrays: _Arrays
) -> Conv | ConvTranspose | Linear | None:
    """The layer whose function's values are multiplied, where kernels do that in its epilogue."""
    other = step.b if step.a == layer.y else step.a
    depthwise = not isinstance(layer, Linear) and layer.groups > 1
    if step.function != "mul" or not layer.epilogue.activation or layer.epilogue.factors or depthwise:
        return None
    behind = 0 if isinstance(layer, Linear) else 2
    factors = _vector(arrays, other, len(arrays[layer.weight]), behind) if other in arrays else None
    if factors is None:
        return None
    name = other
    while name in arrays and arrays[name] is not factors:
        name += ".vector"
    arrays[name] = factors
    epilogue = replace(layer.epilogue, factors=name)
    return replace(layer, nodes=layer.nodes + step.nodes, y=step.y, epilogue=epilogue)


def _vector(arrays: Mapping[str, NDArray[Any]], name: str, size: int, behind: int) -> NDArray[Any] | None:
    """A constant as [size] numbers of an axis that `behind` others follow; None where it is none."""
    array = arrays[name]
    if array.ndim == 1 and behind == 0:
        return array if array.size in (1, size) else None
    shape = array.shape[::-1]
    along = len(shape) > behind and shape[behind] == size and array.size == size
    return np.ascontiguousarray(array.reshape(-1)) if along else None

"""Share equal constants of a plan, also between a table of codes and the layer that multiplies by it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.steps import Binary, BlockGather, Elementwise, Gather, Step, Tensor
from intact.engine.steps.base.wiring import constants, reads, rename_tensors

_LEAST = 64
"""Bytes from which an array is worth a name that another layer gave it."""


def share_constants(plan: Plan) -> Plan:
    """Share one array among constants that are equal.

    Before: ``up0.weight`` and ``up1.weight``, equal in every byte.  After: ``up0.weight`` for both.

    Packed weights go by the name of the constant and by what packing depends on, so that these are shared.
    """
    alike: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for name, array in plan.constants.items():
        if array.nbytes >= _LEAST and name != plan.model:
            alike[array.dtype.str, array.shape].append(name)
    names: dict[str, str] = {}
    for several in alike.values():
        first: dict[bytes, str] = {}
        for name in several if len(several) > 1 else ():
            first_name = first.setdefault(_digest(plan.constants[name]), name)
            if first_name != name:
                names[name] = first_name
    if not names:
        return plan
    steps = tuple(rename_tensors(step, names) for step in plan.steps)
    constants = {name: array for name, array in plan.constants.items() if name not in names}
    return replace(plan, steps=steps, constants=constants)


__all__ = ["tie_tables"]


def tie_tables(plan: Plan) -> Plan:
    """Gather rows of a layer's int8 weight, where a table of codes in blocks is the same but for its sign.

    Before: ``BlockGather`` of uint8 codes, and ``Linear`` with an int8 weight of as many rows.
    After: ``Gather`` of the weight, a cast to float32, and ``Binary`` "mul" by the scales of these rows.

    Guards: 8 bits, one scale a row, no minima, zero points in the middle; nothing but gathers reads the
    codes. Then ``fl32(q - 128) * s`` of the codes is ``fl32(w) * s`` of the weight, bit for bit.
    """
    weights: dict[bytes, str] | None = None
    names = {*plan.tensors, *plan.constants}
    steps, tensors, replaced = list[Step](), dict(plan.tensors), set[str]()
    other_readers = Counter(
        name
        for step in plan.steps
        if not isinstance(step, BlockGather)
        for name in (*reads(step), *constants(step))
    )
    for step in plan.steps:
        weight = None
        if isinstance(step, BlockGather) and _has_plain_rows(plan, step) and not other_readers[step.weight]:
            weights = _int8_weights(plan) if weights is None else weights
            weight = weights.get(_digest(plan.constants[step.weight].view(np.uint8) ^ np.uint8(128)))
        if weight is None:
            steps.append(step)
            continue
        assert isinstance(step, BlockGather)
        replaced.add(step.weight)
        for part in _gather_and_scale(plan, step, weight, names):
            if isinstance(part, Tensor):
                tensors[part.name] = part
            else:
                steps.append(part)
    if not replaced:
        return plan
    named = {name for step in steps for name in (*reads(step), *constants(step))}
    unread = replaced - named
    remaining = {name: array for name, array in plan.constants.items() if name not in unread}
    return replace(plan, steps=tuple(steps), tensors=tensors, constants=remaining)


def _has_plain_rows(plan: Plan, step: BlockGather) -> bool:
    refinements = step.zero_points, step.minima, step.sub_scales, step.sub_minima, step.table
    return step.bits == 8 and plan.constants[step.scales].shape[1] == 1 and not any(refinements)


def _int8_weights(plan: Plan) -> dict[bytes, str]:
    """Return the int8 constants of two axes, by the digest of their bytes and shape."""
    arrays = {
        name: array for name, array in plan.constants.items() if array.dtype == np.int8 and array.ndim == 2
    }
    return {_digest(array): name for name, array in reversed(arrays.items())}


def _digest(array: NDArray[Any]) -> bytes:
    return blake2b(array.tobytes(), digest_size=16, key=f"{array.shape}".encode()).digest()


def _gather_and_scale(plan: Plan, step: BlockGather, weight: str, names: set[str]) -> Iterator[Tensor | Step]:
    """Yield the steps in place of a gather, and the tensors between them."""
    shape = plan.tensors[step.y].shape

    def between(what: str, dtype: str, last: int) -> Tensor:
        name = f"{step.y}.{what}"
        while name in names:
            name += "_"
        names.add(name)
        return Tensor(name, dtype, (*shape[:-1], last))

    codes, rows = between("codes", "int8", step.inputs), between("reals", "float32", step.inputs)
    scales = between("scales", "float32", 1)
    yield from (codes, rows, scales)
    step_names = step.name, step.nodes
    yield Gather(*step_names, weight, step.index, codes.name)
    yield Elementwise(*step_names, "cast", (codes.name,), rows.name)
    yield Gather(*step_names, step.scales, step.index, scales.name)
    yield Binary(*step_names, "mul", rows.name, scales.name, step.y)

"""Share equal constants between the steps of a plan."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.steps.base.wiring import rename_tensors

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


def _digest(array: NDArray[Any]) -> bytes:
    return blake2b(array.tobytes(), digest_size=16).digest()

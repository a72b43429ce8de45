"""Find out whether a plan still depends on input sizes or values that select a branch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from intact.engine.plan import Plan
from intact.engine.steps import FallbackSubgraph, Reshape
from intact.engine.steps.base.dims import names_in
from intact.engine.steps.base.wiring import writes
from intact.errors import UnsupportedError
from intact.graph import Model, to_bytes


def has_open_sizes(plan: Plan) -> bool:
    """Return whether lowering for known sizes may do better: a step has no kernel, or a shape is unknown."""
    if plan.deciding:
        return True
    if not plan.tensors.keys() >= set(plan.inputs):
        return False  # an input of no known rank, which no plan takes
    input_dims = {dim for name in plan.inputs for dim in plan.tensors[name].shape if isinstance(dim, str)}
    if not input_dims:
        return False
    for step in plan.steps:
        if isinstance(step, FallbackSubgraph):
            return True
        output_dims = [
            dim for name in writes(step) for dim in plan.tensors[name].shape if isinstance(dim, str)
        ]
        if isinstance(step, Reshape) and sum(not names_in(dim) <= input_dims for dim in set(output_dims)) > 1:
            return True
        input_dims.update(output_dims)  # every other step tells the sizes of what it makes
    return False


def with_model(plan: Plan, model: Model) -> Plan:
    """Attach the model that `plan` was lowered from.

    Return `plan` alone where no file could hold the model.
    """
    try:
        data = to_bytes(model)
    except UnsupportedError:
        return replace(plan, deciding=())
    name = "model.onnx"
    while name in plan.constants or name in plan.tensors:
        name += "_"
    array = np.frombuffer(data, np.uint8)
    return replace(plan, constants={**plan.constants, name: array}, model=name)

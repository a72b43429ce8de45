"""Checks of a plan file for contents that lowering never writes: wrong array types, grids or numbers.

`Plan.check` has the names; what a kind of step demands stands in its home. Sizes that depend on the inputs
are checked when shapes are, memory by the native steps.
"""

from __future__ import annotations

from math import isfinite

from intact.engine.plan import Plan
from intact.engine.steps import STRING, Codes, Epilogue, Step, Tensor
from intact.engine.steps.base.checker import Arrays, Checker, wrong
from intact.engine.steps.base.rules import check_rules
from intact.engine.steps.base.wiring import reads, writes

DTYPES = (
    "codes", "float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
    "uint8", "bool",
)  # fmt: skip
"""Dtypes that native steps read and write."""


def check_limits(plan: Plan, arrays: Arrays) -> None:
    """Refuse a plan whose numbers or arrays are out of limits; its names are checked before.

    Args:
        plan: The plan.
        arrays: dtype and shape of its constants, by name.

    Raises:
        FileFormatError: Names the step or tensor.
    """
    for name, tensor in plan.tensors.items():
        _check_tensor(name, tensor)
    if plan.model and (arrays[plan.model][0], len(arrays[plan.model][1])) != ("uint8", 1):
        raise wrong("the model", f"{arrays[plan.model]}", "bytes")
    _check_foreign(plan)
    for step in plan.steps:
        checker = Checker(f"step '{step.name}'", plan.tensors, arrays)
        checker.record(step)
        _check_strings(plan, step, checker)
        epilogue = getattr(step, "epilogue", None)
        if isinstance(epilogue, Epilogue):
            checker.record(epilogue)
        check_rules(step, checker)
        step.check(checker)


def _check_tensor(name: str, tensor: Tensor) -> None:
    where = f"tensor '{name}'"
    if tensor.dtype not in (*DTYPES, STRING):
        raise wrong(where, f"dtype {tensor.dtype}", f"one of {', '.join((*DTYPES, STRING))}")
    if any(dim == "" if isinstance(dim, str) else dim < 0 for dim in tensor.shape):
        raise wrong(where, f"shape {tensor.shape}", "sizes and names")
    if tensor.codes is not None and not _sound(tensor.codes):
        raise wrong(where, str(tensor.codes), "a grid of one byte that holds its zero point")


def _check_strings(plan: Plan, step: Step, checker: Checker) -> None:
    """Refuse strings in native steps: kernels see bytes alone."""
    for name in (*reads(step), *writes(step)) if step.native else ():
        is_string = name in plan.tensors and plan.tensors[name].dtype == STRING
        checker.that(not is_string, f"strings, '{name}'", "what kernels read and make")


def _check_foreign(plan: Plan) -> None:
    """Refuse narrowed grids on inputs and on outputs of steps that are not native.

    Their codes may be any, and bounds on sums are proved from the grids.
    """
    outputs = (name for step in plan.steps if not step.native for name in writes(step))
    for name in (*plan.inputs, *outputs):
        codes = plan.tensors[name].codes
        if codes is not None and (codes.low, codes.high) != _ends(codes):
            got = f"codes from {codes.low} to {codes.high}"
            raise wrong(f"tensor '{name}'", got, f"{_ends(codes)}: nothing here makes them")


def _ends(codes: Codes) -> tuple[int, int]:
    return (-128, 127) if codes.signed else (0, 255)


def _sound(codes: Codes) -> bool:
    low, high = _ends(codes)
    within = low <= codes.low <= codes.high <= high and low <= codes.zero_point <= high
    return within and isfinite(codes.scale) and codes.scale > 0

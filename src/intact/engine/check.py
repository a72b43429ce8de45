"""A plan against itself: every name defined once before it is used, shapes and dtypes that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intact.engine.steps import Binary, Call, Gather, Step
from intact.engine.wiring import constants, epilogue_of, reads, writes
from intact.errors import FileFormatError

if TYPE_CHECKING:
    from intact.engine.plan import Plan

_FIX = "lower the model again"


def check(plan: Plan) -> None:
    """Refuse a plan that no engine could run.

    Raises:
        FileFormatError: Names the step, the tensor or the constant.
    """
    if both := plan.tensors.keys() & plan.constants.keys():
        raise FileFormatError(f"'{min(both)}'", "a tensor and a constant", "names that are given once", _FIX)
    for ports, where in ((plan.inputs, "the inputs"), (plan.outputs, "the outputs")):
        if len(set(ports)) < len(ports):
            raise FileFormatError(where, "a name twice", "distinct names", _FIX)
    defined = set(plan.inputs)
    for name in plan.inputs:
        _tensor(plan, name, "the inputs")
    for step in plan.steps:
        for name in constants(step):
            if name not in plan.constants:
                raise _wrong(step, f"no constant '{name}'", "a constant of the plan")
        for name in reads(step):
            if name not in defined and not (name in plan.constants and _may_be_constant(step, name)):
                raise _wrong(step, f"'{name}', which no step before it makes", "a tensor that is there")
        for name in writes(step):
            if name in defined:
                raise _wrong(step, f"a second '{name}'", "names that are given once")
            _tensor(plan, name, f"step '{step.name}'")
            defined.add(name)
    for name in plan.outputs:
        if name not in defined:
            raise FileFormatError("the outputs", f"'{name}', which no step makes", "tensors", _FIX)
    for tensor in plan.tensors.values():
        if (tensor.dtype == "codes") != (tensor.codes is not None):
            raise FileFormatError(f"tensor '{tensor.name}'", tensor.dtype, "codes with a grid", _FIX)


def _may_be_constant(step: Step, name: str) -> bool:
    epilogue = epilogue_of(step)
    return isinstance(step, (Binary, Call, Gather)) or (
        epilogue is None and getattr(step, "mask", "") == name
    )


def _tensor(plan: Plan, name: str, where: str) -> None:
    if name not in plan.tensors:
        raise FileFormatError(where, f"'{name}'", "a tensor of the plan", _FIX)


def _wrong(step: Step, got: str, want: str) -> FileFormatError:
    return FileFormatError(f"step '{step.name}'", got, want, _FIX)

"""Match activations as exporters write them: one node, or several that compute one known function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from intact.graph import Value
from intact.graph import ops as book
from intact.placement.placement_graph import Op, View, shape_of
from intact.placement.profiles import Profile

MOST_NODES = 9
"""A tanh GELU with its cube written as two Mul has nine; longer stretches are no activation."""


@dataclass(frozen=True)
class Activation:
    """Ops that together are a function of one tensor, its name, and their output."""

    ops: tuple[Op, ...]
    label: str
    output: Value


def activation_behind(view: View, profile: Profile, value: Value) -> Activation | None:
    """Return the activation that is all that happens to a value; None where there is none.

    Args:
        view: The graph.
        profile: Which activations fuse.
        value: Of the graph.
    """
    if view.is_output(value) or value in view.read_by_subgraphs or not (readers := view.readers(value)):
        return None
    op = readers[0][0]
    composed = _match_composition(view, value)
    if composed is not None and composed.label in profile.activations:
        return composed
    if len(readers) == 1 and is_function(view, op) and op.op_type in profile.activations:
        return Activation((op,), op.display_name, op.outputs[0])
    return None


def is_function(view: View, op: Op) -> bool:
    """Return whether `op` maps each element of its first input alone: every other input is constant."""
    return (
        op.domain == ""
        and not view.is_constant(op.inputs[0])
        and all(v is None or view.is_constant(v) for v in op.inputs[1:])
    )


def _match_composition(view: View, value: Value) -> Activation | None:
    """Grow from `value` through pointwise nodes until one value leads out; name it by what it computes.

    Silu: ``x -> Sigmoid -> Mul(x, .)``; Gelu: ``x -> Div -> Erf -> Add -> Mul(x, .) -> Mul``; and their kind,
    in whatever order of operands and constants an exporter writes them.
    """
    inside, ops = {value: 0}, list[Op]()
    steps: tuple[_Step, ...] = ()
    best: Activation | None = None
    while len(ops) < MOST_NODES and (op := _next(view, inside, ops)) is not None:
        output = op.outputs[0]
        ops.append(op)
        inputs = [v for v in op.inputs if v is not None]
        if tuple(inputs) != op.inputs[: len(inputs)] or op.record is None:
            break  # an operand in the middle is left out
        steps = *steps, (op.record, tuple(_operand(view, inside, v) for v in inputs))
        inside[output] = len(ops)
        if _values_after(steps) is None:
            break
        leads_out = len(ops) > 1 and _exits(view, inside, ops) == {output}
        if leads_out and (label := _label_of(steps)) is not None:
            best = Activation(tuple(ops), label, output)
    return best


_Step = tuple[book.Operator, tuple[int | bytes, ...]]
"""An operator and its operands: the number of the step that makes it, 0 for the input, or a float's bytes.

Bytes, because 0.0 equals -0.0, by which a division makes something else.
"""


@lru_cache(maxsize=1024)  # models repeat their activations: layers ask again and again
def _values_after(steps: tuple[_Step, ...]) -> tuple[NDArray | float, ...] | None:
    """Return what the samples are in front of the steps and behind each one.

    None where the last step lacks an operand, so that no engine will run it, or has a bound that no sample
    reaches, so that it would be forgotten.
    """
    *before, (operator, keys) = steps
    values = _values_after(tuple(before)) if before else (_SAMPLES,)
    if values is None:
        return None
    operands = [values[key] if isinstance(key, int) else _DOUBLE.unpack(key)[0] for key in keys]
    if isinstance(operator, (book.Clip, book.Relu)) and not _cuts(operator, operands):
        return None
    with np.errstate(all="ignore"):
        result = book.curve_of(operator, *operands)
    return None if result is None else (*values, result)


@lru_cache(maxsize=1024)
def _label_of(steps: tuple[_Step, ...]) -> str | None:
    values = _values_after(steps)
    return None if values is None else _name(values[-1])


def _next(view: View, inside: Mapping[Value, int], ops: list[Op]) -> Op | None:
    candidates = {
        op: None for value in inside for op, _ in view.readers(value)
        if op not in ops and op.domain == "" and op.op_type in _WRITTEN_WITH and len(op.outputs) == 1
        and all(v is None or v in inside or _scalar(view, v) is not None for v in op.inputs)
    }  # fmt: skip
    return min(candidates, key=view.position, default=None)


def _exits(view: View, inside: Mapping[Value, int], ops: list[Op]) -> set[Value]:
    return {
        value for value in inside
        if view.is_output(value) or value in view.read_by_subgraphs or not view.readers(value)
        or any(op not in ops for op, _ in view.readers(value))
    }  # fmt: skip


def _scalar(view: View, value: Value) -> float | None:
    if any(size not in (None, 1) for size in shape_of(value) or ()):
        return None  # before a large constant is computed
    array = view.constants(value) if view.is_constant(value) else None
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


_WRITTEN_WITH = frozenset({"Add", "Div", "Mul", "Pow", "Sub"}) | {
    name for name, record in book.FUNCTIONS.items() if record.composes
}
"""The operators that exporters write activations with."""

_DOUBLE = Struct("d")
_FAR = np.array([12.0, 20.0, 50.0, 100.0, 300.0])
_SAMPLES = np.concatenate([-_FAR[::-1], np.linspace(-8.0, 8.0, 161), _FAR])
_ENDLESS = 1e30
"""Ends of Clip beyond this are none: exporters write the largest float32."""

_KNOWN: dict[str, NDArray] = {
    name: function.curve(_SAMPLES)
    for (_, variant), (name, function) in zip(book.VARIANTS, book.NAMED_FUNCTIONS.items(), strict=True)
    if variant.composed and function.curve is not None
}
"""Activations that are recognized by their values, in float64."""

_TABLE = np.stack([*_KNOWN.values()])
_BOUNDS = 2e-6 + 1e-5 * np.abs(_TABLE)


def _name(got: NDArray | float) -> str | None:
    """Return the known function whose values on the samples these are, to float32's last digits."""
    with np.errstate(all="ignore"):
        same = (np.abs(got - _TABLE) <= _BOUNDS).all(axis=1)
    return next((name for name, is_same in zip(_KNOWN, same, strict=True) if is_same), None)


def _cuts(operator: book.Operator, operands: list[NDArray | float]) -> bool:
    """Return whether the samples reach each end of a bound: one that they do not would be forgotten."""
    x, *rest = operands
    if any(np.size(operand) != 1 for operand in rest):
        return False
    ends = book.curve_of(operator, np.array([-_ENDLESS, _ENDLESS]), *rest)
    if ends is None:
        return False
    low, high = ends
    return bool((low == -_ENDLESS or np.min(x) < low) and (high == _ENDLESS or np.max(x) > high))


def _operand(view: View, inside: Mapping[Value, int], value: Value) -> int | bytes:
    if value in inside:
        return inside[value]
    scalar = _scalar(view, value)
    assert scalar is not None, "_next takes only ops whose other inputs are one number"
    return _DOUBLE.pack(scalar)

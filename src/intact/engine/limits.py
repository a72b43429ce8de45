"""What a file could say and no lowering would: arrays of the wrong kind, grids and numbers out of range.

`check` has the names. Sizes that depend on the inputs are the binder's to check, memory the native steps'.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from intact.engine.plan import Plan
from intact.engine.steps import (
    OUTSIDE,
    Add,
    Call,
    Codes,
    Concat,
    Conv,
    ConvTranspose,
    Dequantize,
    Epilogue,
    FallbackSubgraph,
    Gather,
    LayerNorm,
    Linear,
    MatMul,
    Pad,
    Pool,
    Quantize,
    Reduce,
    Reinterpret,
    Rescale,
    Reshape,
    Resize,
    Slice,
    Softmax,
    Step,
    Table,
    Tensor,
    Transpose,
)
from intact.engine.wiring import epilogue_of
from intact.errors import FileFormatError

DTYPES = (
    "codes", "float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
    "uint8", "bool",
)  # fmt: skip
MOST_HOP = 2**24  # of a stride or a dilation: far above what any image has
MOST_WIDTH = 2**16  # of a kernel or a pad: what they add to an image takes memory and time

Arrays = Mapping[str, tuple[str, tuple[int, ...]]]
"""dtype and shape of constants, by name."""


def check_limits(plan: Plan, arrays: Arrays) -> None:
    """Refuse a plan, whose names are known to be right, for what its numbers and arrays are.

    Args:
        plan: The plan.
        arrays: Of its constants: to ask for the arrays themselves would read them.

    Raises:
        FileFormatError: Names the step or tensor.
    """
    for name, tensor in plan.tensors.items():
        _check_tensor(name, tensor)
    _check_foreign(plan)
    for step in plan.steps:
        found = _Check(plan, step, arrays)
        named = [getattr(step, field, "-") for field in ("x", "y", "a", "b")]
        found.that("" not in (*named, *getattr(step, "xs", ()), *getattr(step, "ys", ())), "no name", "one")
        found.finite(step)
        if (epilogue := epilogue_of(step)) is not None:
            found.finite(epilogue)
            _check_epilogue(found, epilogue)
        if step.kind in _RULES:
            _RULES[step.kind](found, step)


def _check_tensor(name: str, tensor: Tensor) -> None:
    where = f"tensor '{name}'"
    if tensor.dtype not in DTYPES:
        raise _wrong(where, f"dtype {tensor.dtype}", f"one of {', '.join(DTYPES)}")
    if any(dim == "" if isinstance(dim, str) else dim < 0 for dim in tensor.shape):
        raise _wrong(where, f"shape {tensor.shape}", "sizes and names")
    if tensor.codes is not None and not _sound(tensor.codes):
        raise _wrong(where, str(tensor.codes), "a grid of one byte that holds its zero point")


def _check_foreign(plan: Plan) -> None:
    """What callers pass and others make may be any code, and proofs of sums rest on what a grid says."""
    made = (name for step in plan.steps if isinstance(step, OUTSIDE) for name in step.ys)
    for name in (*plan.inputs, *made):
        codes = plan.tensors[name].codes
        if codes is not None and (codes.low, codes.high) != _ends(codes):
            got = f"codes from {codes.low} to {codes.high}"
            raise _wrong(f"tensor '{name}'", got, f"{_ends(codes)}: nothing here makes them")


def _ends(codes: Codes) -> tuple[int, int]:
    return (-128, 127) if codes.signed else (0, 255)


def _sound(codes: Codes) -> bool:
    low, high = _ends(codes)
    within = low <= codes.low <= codes.high <= high and low <= codes.zero_point <= high
    return within and isfinite(codes.scale) and codes.scale > 0


class _Check:
    """What rules about one step ask for."""

    def __init__(self, plan: Plan, step: Step, arrays: Arrays) -> None:
        self.where = f"step '{step.name}'"
        self.step, self._plan, self._arrays = step, plan, arrays

    def that(self, holds: bool, got: object, want: str) -> None:
        """Refuse the step unless this holds."""
        if not holds:
            raise _wrong(self.where, str(got), want)

    def finite(self, record: Step | Epilogue) -> None:
        """No number of a record is infinite or none: a file cannot say them."""
        for field, value in vars(record).items():
            self.that(not isinstance(value, float) or isfinite(value), f"{field} {value}", "a finite number")

    def rank(self, name: str) -> int:
        """Of a tensor, or of a constant in its place."""
        tensors = self._plan.tensors
        return len(tensors[name].shape if name in tensors else self._arrays[name][1])

    def dtype(self, name: str) -> str:
        """Of a tensor, or of a constant in its place."""
        tensors = self._plan.tensors
        return tensors[name].dtype if name in tensors else self._arrays[name][0]

    def grid(self, name: str) -> Codes | None:
        """Of a tensor of codes; None for others and for constants."""
        tensors = self._plan.tensors
        return tensors[name].codes if name in tensors else None

    def codes(self, *names: str) -> None:
        """These tensors hold codes."""
        for name in names:
            self.that(self.grid(name) is not None, f"floats in '{name}'", "codes")

    def floats(self, *names: str) -> None:
        """These tensors hold float32."""
        for name in names:
            self.that(self.dtype(name) == "float32", f"{self.dtype(name)} in '{name}'", "float32")

    def constant(self, name: str, dtype: str, rank: int) -> tuple[int, ...]:
        """Sizes of a constant of this dtype and rank."""
        found, shape = self._arrays.get(name, ("nothing", ()))
        self.that(
            found == dtype and len(shape) == rank, f"'{name}' {found} {shape}", f"{dtype} of rank {rank}"
        )
        return shape


def _check_epilogue(check: _Check, epilogue: Epilogue) -> None:
    weight = getattr(check.step, "weight", "")
    channels = check.constant(weight, "int8", 2 if check.step.kind == "linear" else 4)[0] if weight else 1
    check.that(bool(epilogue.multiplier), "no multiplier", "one")
    for name, dtype in (
        (epilogue.multiplier, "float32"), (epilogue.bias, "float32"), (epilogue.integer_bias, "int32"),
        (epilogue.factors, "float32"), (epilogue.slope, "float32"),
    ):  # fmt: skip
        if name:
            (size,) = check.constant(name, dtype, 1)
            check.that(size in (1, channels), f"{size} numbers in '{name}'", f"1 or {channels}")
    if epilogue.residual:
        check.codes(epilogue.residual)
    check.that(bool(epilogue.activation) or not epilogue.factors, "factors", "an activation before them")
    check.that(not epilogue.activation or not epilogue.slope, "an activation and a slope", "one of them")


def _quantize(check: _Check, step: Quantize) -> None:
    check.floats(step.x)
    check.codes(step.y)


def _dequantize(check: _Check, step: Dequantize) -> None:
    check.codes(step.x)
    check.floats(step.y)


def _rescale(check: _Check, step: Rescale) -> None:
    check.codes(step.x, step.y)


def _reinterpret(check: _Check, step: Reinterpret) -> None:
    check.codes(step.x, step.y)
    x, y = check.grid(step.x), check.grid(step.y)
    within = x is not None and y is not None and x.signed == y.signed and y.low <= x.low <= x.high <= y.high
    check.that(within, f"{x} in '{step.x}'", f"codes within those of '{step.y}'")


def _add(check: _Check, step: Add) -> None:
    check.codes(step.a, step.b, step.y)


def _moved(check: _Check, step: Reshape) -> None:
    check.that(check.dtype(step.x) == check.dtype(step.y), f"'{step.x}', '{step.y}'", "one dtype")


def _conv(check: _Check, step: Conv | ConvTranspose) -> None:
    shape = check.constant(step.weight, "int8", 4)
    check.that(min(shape) > 0, shape, "weights that are not empty")
    check.that(
        step.groups > 0 and shape[0] % step.groups == 0, f"{step.groups} groups", f"a divisor of {shape[0]}"
    )
    _window(check, step)
    check.codes(step.x)


def _window(check: _Check, step: Conv | ConvTranspose | Pool) -> None:
    check.that(check.rank(step.x) == check.rank(step.y) == 4, f"'{step.x}', '{step.y}'", "images: rank 4")
    hops = (*step.strides, *step.dilations)
    check.that(all(0 < hop <= MOST_HOP for hop in hops), hops, "strides and dilations above 0")
    check.that(all(0 <= pad <= MOST_WIDTH for pad in step.pads), step.pads, "pads of 0 or more")


def _linear(check: _Check, step: Linear) -> None:
    check.that(min(check.constant(step.weight, "int8", 2)) > 0, step.weight, "weights that are not empty")
    _same_rank(check, step)
    check.codes(step.x)


def _same_rank(check: _Check, step: Linear | LayerNorm) -> None:
    ranks = check.rank(step.x), check.rank(step.y)
    check.that(ranks[0] == ranks[1] > 0, ranks, "one rank for both")


def _matmul(check: _Check, step: MatMul) -> None:
    ranks = check.rank(step.a), check.rank(step.b)
    check.that(min(ranks) >= 2, ranks, "rank 2 or more")
    check.codes(step.a, step.b)


def _pool(check: _Check, step: Pool) -> None:
    check.that(
        step.kernel is None or all(0 < k <= MOST_WIDTH for k in step.kernel), step.kernel, "a kernel above 0"
    )
    _window(check, step)
    reachs = [(k - 1) * d + 1 for k, d in zip(step.kernel or (1, 1), step.dilations, strict=True)]
    most = [reachs[0] - 1, reachs[1] - 1] * 2  # a window reads some pixel, as ONNX wants it
    check.that(all(p <= m for p, m in zip(step.pads, most, strict=True)), step.pads, f"pads up to {most}")
    check.codes(step.x, step.y)


def _table(check: _Check, step: Table) -> None:
    check.that(check.constant(step.table, "uint8", 1) == (256,), step.table, "256 entries")
    check.codes(step.x, step.y)


def _axis(check: _Check, step: Concat | Softmax) -> None:
    rank = check.rank(step.y)
    check.that(-rank <= step.axis < rank, f"axis {step.axis}", f"one of {rank} axes")
    names = step.xs if isinstance(step, Concat) else (step.x,)
    check.that(bool(names) and all(check.rank(x) == rank for x in names), names, f"tensors of rank {rank}")


def _reduce(check: _Check, step: Reduce) -> None:
    rank = check.rank(step.x)
    distinct = len(set(step.axes)) == len(step.axes) and all(0 <= axis < rank for axis in step.axes)
    check.that(distinct, step.axes, f"some of {rank} axes")
    left = rank if step.keepdims else rank - len(step.axes)
    check.that(check.rank(step.y) == left, f"'{step.y}'", f"rank {left}")


def _layer_norm(check: _Check, step: LayerNorm) -> None:
    for name in (step.weight, step.bias):
        if name:
            check.constant(name, "float32", 1)
    _same_rank(check, step)


def _transpose(check: _Check, step: Transpose) -> None:
    _per_axis(check, step.x, step.y, step.perm)
    check.that(sorted(step.perm) == list(range(len(step.perm))), step.perm, "a permutation")


def _per_axis(check: _Check, x: str, y: str, *given: tuple[Any, ...]) -> None:
    ranks = check.rank(x), check.rank(y), *(len(one) for one in given)
    check.that(len(set(ranks)) == 1, ranks, "one rank for both, and an entry for each axis")


def _slice(check: _Check, step: Slice) -> None:
    _per_axis(check, step.x, step.y, step.starts, step.steps)
    check.that(all(start >= 0 for start in step.starts), step.starts, "starts from the first element")


def _gather(check: _Check, step: Gather) -> None:
    ranks = check.rank(step.x), check.rank(step.index), check.rank(step.y)
    check.that(ranks[0] > 0 and ranks[2] == ranks[0] + ranks[1] - 1, ranks, "rows for each index")
    check.that(check.dtype(step.index) in ("int64", "int32"), step.index, "int32 or int64")
    check.that(check.dtype(step.x) == check.dtype(step.y), f"'{step.x}', '{step.y}'", "one dtype")
    check.that(check.grid(step.x) == check.grid(step.y), f"'{step.x}', '{step.y}'", "one grid")


def _pad(check: _Check, step: Pad) -> None:
    _per_axis(check, step.x, step.y, step.pads)
    check.that(all(0 <= n <= MOST_WIDTH for pair in step.pads for n in pair), step.pads, "pads of 0 or more")


def _resize(check: _Check, step: Resize) -> None:
    _per_axis(check, step.x, step.y)
    rank, axes = check.rank(step.x), step.axes
    distinct = len(set(axes)) == len(axes) == len(step.indices)
    check.that(distinct and all(0 <= axis < rank for axis in axes), axes, "axes of it, with indices for each")
    for name in step.indices:
        check.constant(name, "int64", 1)


def _subgraph(check: _Check, step: FallbackSubgraph) -> None:
    check.constant(step.model, "uint8", 1)
    check.that(bool(step.ys), "no outputs", "some")


def _call(check: _Check, step: Call) -> None:
    try:
        attributes = json.loads(step.attributes)
    except ValueError:
        attributes = None
    check.that(isinstance(attributes, dict) and bool(step.ys), step.attributes, "a JSON object, and outputs")


_RULES: dict[str, Callable[[_Check, Any], None]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "rescale": _rescale,
    "reinterpret": _reinterpret,
    "add": _add,
    "reshape": _moved,
    "conv": _conv,
    "conv_transpose": _conv,
    "linear": _linear,
    "matmul": _matmul,
    "pool": _pool,
    "table": _table,
    "concat": _axis,
    "softmax": _axis,
    "layer_norm": _layer_norm,
    "reduce": _reduce,
    "transpose": _transpose,
    "slice": _slice,
    "gather": _gather,
    "pad": _pad,
    "resize": _resize,
    "onnx": _subgraph,
    "call": _call,
}


def _wrong(where: str, got: str, want: str) -> FileFormatError:
    return FileFormatError(where, f"{got:.200}", want, "build the plan from the model again")

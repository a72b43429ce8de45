"""`intact::grouped_mm`: products of groups of rows, a matrix for each, while a model is exported.

The experts of a transformer are such a product. PyTorch's own is traced with bfloat16 alone, and transformers
calls another one while it is traced. While `whole_products` is open, both are one operator.

Which rows belong to which group is known when the file runs. ONNX has no such product, and sizes that values
decide would be bound anew at every run. So every row is multiplied by the matrices of all groups, which lie
side by side as one, and keeps what its own group makes: the same numbers, of more products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["GROUPED", "grouped_translations", "whole_products"]

GROUPED = {"_grouped_mm": "grouped_mm", "grouped_mm_fallback": "grouped_mm"}
"""Names of functions that multiply groups of rows: PyTorch's and transformers' -> what both are called."""

_OPSET = 18
_INT64 = 7

_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define(  # type: ignore[no-untyped-call]
    "grouped_mm(Tensor rows, Tensor matrices, Tensor ends) -> Tensor"
)


def _run(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """``[rows, k], [groups, k, n] -> [rows, n]``; `ends`: int32, behind which row each group ends.

    Rows behind the last end are zeros, of which PyTorch says nothing.
    """
    made = rows.new_zeros(rows.shape[0], matrices.shape[2])
    first = 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        made[first:end] = rows[first:end] @ matrix
        first = end
    return made


def _sizes(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    return rows.new_empty(rows.shape[0], matrices.shape[2])


_LIB.impl("grouped_mm", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::grouped_mm", _sizes, lib=_LIB)


# ---- into the operator ----


@contextmanager
def whole_products() -> Iterator[None]:
    """While it is open, functions that multiply groups of rows are one operator."""
    with _WholeProducts():
        yield


class _WholeProducts(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").partition(".")[0]  # of an overload: "....default"
        if name in GROUPED and len(args) >= 2:
            made = _product(*args, **kwargs)
            if made is not None:
                return made
        return func(*args, **kwargs)


def _product(
    rows: Tensor, matrices: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> Tensor | None:
    """None for what is no product of groups of rows, which PyTorch answers for itself."""
    if bias is not None or out_dtype not in (None, rows.dtype) or matrices.dim() != 3:
        return None
    if rows.dim() == 3:
        return torch.bmm(rows, matrices)
    return None if offs is None else torch.ops.intact.grouped_mm.default(rows, matrices, offs)


# ---- out of it ----


def grouped_translations() -> dict[Any, Callable[..., Any]]:
    """Operator -> what writes it, for a `custom_translation_table` of `torch.onnx.export`."""
    return {torch.ops.aten.histc.default: _histc, torch.ops.intact.grouped_mm.default: _grouped_mm}


def _op() -> Any:
    import onnxscript  # a second of import time, that training does not pay

    return onnxscript.values.Opset("", _OPSET)


def _numbers(*values: int) -> Any:
    return _op().Constant(value_ints=list(values))


def _grouped_mm(rows, matrices, ends):  # type: ignore[no-untyped-def]
    op = _op()
    groups = matrices.shape[0]
    side_by_side = op.Reshape(op.Transpose(matrices, perm=[1, 0, 2]), _numbers(0, -1))
    made = op.Reshape(op.MatMul(rows, side_by_side), _numbers(0, groups, -1))
    return op.GatherND(made, op.Unsqueeze(_group_of_rows(rows, ends, groups), _numbers(1)), batch_dims=1)


def _group_of_rows(rows: Any, offs: Any, groups: int) -> Any:
    """Of each row how many groups end in front of it; rows behind the last end are the last group's."""
    op = _op()
    count = op.Squeeze(op.Shape(rows, start=0, end=1))
    number = op.Range(op.Constant(value_int=0), count, op.Constant(value_int=1))
    ends = op.Unsqueeze(op.Cast(offs, to=_INT64), _numbers(0))
    passed = op.Cast(op.GreaterOrEqual(op.Unsqueeze(number, _numbers(1)), ends), to=_INT64)
    return op.Min(op.ReduceSum(passed, _numbers(1), keepdims=0), op.Constant(value_int=groups - 1))


def _histc(self, bins=100, min=0, max=0):  # type: ignore[no-untyped-def]
    """How many values lie in each of `bins` parts of [min, max], the last with its end."""
    op = _op()
    flat = op.Reshape(self, _numbers(-1))
    if min == max and bins > 1:
        raise NotImplementedError("histc between the extremes of its values")
    if min == max:
        return op.CastLike(op.Shape(flat), self)

    def like(value: float) -> Any:
        return op.CastLike(op.Constant(value_float=float(value)), self)

    inside = op.And(op.GreaterOrEqual(flat, like(min)), op.LessOrEqual(flat, like(max)))
    place = op.Div(op.Mul(op.Sub(flat, like(min)), like(bins)), like(max - min))
    place = op.Min(op.Cast(place, to=_INT64), op.Constant(value_int=bins - 1))
    place = op.Where(inside, place, op.Constant(value_int=-1))
    hit = op.Equal(op.Unsqueeze(place, _numbers(1)), op.Unsqueeze(_numbers(*range(bins)), _numbers(0)))
    return op.ReduceSum(op.CastLike(hit, self), _numbers(0), keepdims=0)

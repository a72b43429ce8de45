"""Register `intact::grouped_mm`, the product of groups of rows with one matrix per group, for export.

The experts of a transformer are such a product. PyTorch's own operator traces with bfloat16 only, and
transformers calls a different function under a trace. `WholeProducts` makes both one operator.

The rows of each group are known only at run time, and ONNX has no such product. Shapes that depend on values
would be inferred again at every run. So every row is multiplied by the matrices of all groups, side by side
as one matrix, and keeps the part of its own group. The numbers are the same, at the cost of more products.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from intact.torch.operators.embedding_bags import compose_embedding_bag

__all__ = ["GROUPED", "WholeProducts", "grouped_translations"]

GROUPED = {"_grouped_mm": "grouped_mm", "grouped_mm_fallback": "grouped_mm"}
"""Names of functions that multiply groups of rows: PyTorch's and transformers' -> what both are called."""

_OPSET = 18
_INT64 = 7

_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define(  # type: ignore[no-untyped-call]
    "grouped_mm(Tensor rows, Tensor matrices, Tensor ends) -> Tensor"
)


def _run(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Multiply ``[rows, k]`` by ``[groups, k, n]`` to ``[rows, n]``.

    `ends` (int32) holds the end row of each group.

    Rows behind the last end are zeros; PyTorch leaves them undefined.
    """
    products = rows.new_zeros(rows.shape[0], matrices.shape[2])
    first = 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        products[first:end] = rows[first:end] @ matrix
        first = end
    return products


def _sizes(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    return rows.new_empty(rows.shape[0], matrices.shape[2])


_LIB.impl("grouped_mm", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::grouped_mm", _sizes, lib=_LIB)


# ---- into the operator ----


class WholeProducts:
    """The change of traced calls by which functions that multiply groups of rows are one operator.

    Bags of embeddings become lookups and sums.
    """

    names: Collection[str] = frozenset({*GROUPED, "embedding_bag"})
    sees_all = False

    def perform(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call as one operator; NotImplemented where that has no such form."""
        result = None
        if name in GROUPED and len(args) >= 2:
            result = _product(*args, **kwargs)
        elif func is F.embedding_bag:
            result = compose_embedding_bag(*args, **kwargs)
        return NotImplemented if result is None else result


def _product(
    rows: Tensor, matrices: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> Tensor | None:
    """Run the call as one operator. Return None for anything else, so that PyTorch runs it."""
    if bias is not None or out_dtype not in (None, rows.dtype) or matrices.dim() != 3:
        return None
    if rows.dim() == 3:
        return torch.bmm(rows, matrices)
    return None if offs is None else torch.ops.intact.grouped_mm.default(rows, matrices, offs)


# ---- out of it ----


def grouped_translations() -> dict[Any, Callable[..., Any]]:
    """Return operators and their ONNX writers, for `custom_translation_table` of `torch.onnx.export`."""
    return {
        torch.ops.aten.histc.default: _write_histc,
        torch.ops.intact.grouped_mm.default: _write_grouped_mm,
    }


def _op() -> Any:
    import onnxscript  # a second of import time, that training does not pay

    return onnxscript.values.Opset("", _OPSET)


def _numbers(*values: int) -> Any:
    return _op().Constant(value_ints=list(values))


def _write_grouped_mm(rows, matrices, ends):  # type: ignore[no-untyped-def]
    op = _op()
    groups = matrices.shape[0]
    side_by_side = op.Reshape(op.Transpose(matrices, perm=[1, 0, 2]), _numbers(0, -1))
    products = op.Reshape(op.MatMul(rows, side_by_side), _numbers(0, groups, -1))
    return op.GatherND(products, op.Unsqueeze(_group_of_rows(rows, ends, groups), _numbers(1)), batch_dims=1)


def _group_of_rows(rows: Any, offs: Any, groups: int) -> Any:
    """Return the group of each row: the number of groups that end before it.

    Rows behind the last end get the last group.
    """
    op = _op()
    count = op.Squeeze(op.Shape(rows, start=0, end=1))
    number = op.Range(op.Constant(value_int=0), count, op.Constant(value_int=1))
    ends = op.Unsqueeze(op.Cast(offs, to=_INT64), _numbers(0))
    passed = op.Cast(op.GreaterOrEqual(op.Unsqueeze(number, _numbers(1)), ends), to=_INT64)
    return op.Min(op.ReduceSum(passed, _numbers(1), keepdims=0), op.Constant(value_int=groups - 1))


def _write_histc(self, bins=100, min=0, max=0):  # type: ignore[no-untyped-def]
    """Write `torch.histc`: how many values lie in each of `bins` parts of [min, max], the end included."""
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

"""ONNX forms of products of groups of rows, each with a matrix of its own: the experts of a transformer.

Which rows belong to which group is known when the file runs. ONNX has no such product, and sizes that values
decide would be bound anew at every run. So every row is multiplied by the matrices of all groups, which lie
side by side as one, and keeps what its own group makes: the same numbers, of more products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["grouped_translations"]

_OPSET = 18
_INT64, _FLOAT = 7, 1


def grouped_translations() -> dict[Any, Callable[..., Any]]:
    """Operator -> what writes it, for a `custom_translation_table` of `torch.onnx.export`.

    transformers calls an operator of its own while it is exported, which is there once it is imported.
    """
    found: dict[Any, Callable[..., Any]] = {
        torch.ops.aten.histc.default: _histc,
        torch.ops.aten._grouped_mm.default: _grouped_mm,
    }
    theirs = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return found if theirs is None else found | {theirs.default: _grouped_mm}


def _op() -> Any:
    import onnxscript  # a second of import time, that training does not pay

    return onnxscript.values.Opset("", _OPSET)


def _numbers(*values: int) -> Any:
    return _op().Constant(value_ints=list(values))


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):  # type: ignore[no-untyped-def]
    """``[rows, k], [groups, k, n] -> [rows, n]``; `offs`: behind which row each group ends."""
    op = _op()
    ranks = len(self.shape), len(mat2.shape)
    if bias is not None or (out_dtype is not None and int(out_dtype) >= 0):
        raise NotImplementedError("grouped_mm with a bias or another type")
    if ranks == (3, 3):
        return op.MatMul(self, mat2)
    groups = mat2.shape[0]
    if ranks != (2, 3) or not isinstance(groups, int):
        raise NotImplementedError("grouped_mm with groups that are not of rows")
    side_by_side = op.Reshape(op.Transpose(mat2, perm=[1, 0, 2]), _numbers(0, -1))
    made = op.Reshape(op.MatMul(self, side_by_side), _numbers(0, groups, -1))
    return op.GatherND(made, op.Unsqueeze(_group_of_rows(self, offs, groups), _numbers(1)), batch_dims=1)


def _group_of_rows(rows: Any, offs: Any, groups: int) -> Any:
    """Of each row how many groups end in front of it; behind the last one PyTorch says nothing."""
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

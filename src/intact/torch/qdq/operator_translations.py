"""Translate operators to ONNX that torch's exporter lacks, or writes as more nodes.

The values are PyTorch's, except for NaN. Which of several equal values an index points to is left open, as in
PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch

from intact.torch.private_torch import DISTANCE_OPERATOR, EUCLIDEAN_DISTANCE_OPERATOR
from intact.torch.tracing.untranslated_operators import Opaque

__all__ = ["operator_translations"]

_OPSET = 18


def operator_translations() -> dict[Any, Callable[..., Any]]:
    """Return operators and their ONNX writers, for `custom_translation_table` of `torch.onnx.export`."""
    aten, prims = torch.ops.aten, torch.ops.prims
    return {
        aten.median.dim: _median,
        aten.median.default: _median_of_all,
        aten.kthvalue.default: _kthvalue,
        **({DISTANCE_OPERATOR: _cdist} if DISTANCE_OPERATOR else {}),
        **({EUCLIDEAN_DISTANCE_OPERATOR: _euclidean} if EUCLIDEAN_DISTANCE_OPERATOR else {}),
        aten.cummax.default: _cummax,
        aten.cummin.default: _cummin,
        aten.searchsorted.Tensor: _search_sorted,
        aten.searchsorted.Scalar: _search_sorted,
        aten.lerp.Scalar: _lerp,
        aten.squeeze.dim: _squeeze,
        aten.rrelu_with_noise_functional.default: _rrelu,
        prims.prod.default: _product,
        aten.scatter_reduce.two: _scatter_reduce,
        aten.special_log_ndtr.default: _log_ndtr,
        aten.atan2.default: _atan2,
        aten.avg_pool2d.default: partial(_average_pool, "aten_avg_pool2d", 2),
        aten.avg_pool3d.default: partial(_average_pool, "aten_avg_pool3d", 3),
        aten.native_batch_norm.default: partial(_batch_norm, "aten_native_batch_norm", 3),
        aten._native_batch_norm_legit.default: partial(_batch_norm, "aten_native_batch_norm", 3),
        aten._native_batch_norm_legit_functional.default: partial(
            _batch_norm, "aten__native_batch_norm_legit_functional", 5
        ),
        aten._upsample_bilinear2d_aa.default: partial(_upsample, "aten__upsample_bilinear2d_aa"),
        aten._upsample_bicubic2d_aa.default: partial(_upsample, "aten__upsample_bicubic2d_aa"),
        aten.cross_entropy_loss.default: _cross_entropy,
        aten.full.default: _full,
        aten.zeros.default: _zeros,
        aten.unsqueeze.default: Opaque({True: _unsqueeze_complex}),
        aten.select.int: Opaque({True: _select_complex}),
        aten.slice_scatter.default: Opaque({True: _slice_scatter_complex}),
        aten.copy.default: Opaque({True: _copy_complex}),
        aten.fill.Tensor: Opaque({True: _fill_complex}),
        aten.zeros_like.default: Opaque({True: _zeros_like_complex}),
        aten.einsum.default: Opaque({True: _einsum_complex}),
    }


def _op() -> Any:
    import onnxscript  # a second of import time, that training does not pay

    return onnxscript.values.Opset("", _OPSET)


def _numbers(*values: int) -> Any:
    return _op().Constant(value_ints=list(values))


def _like(x: Any, value: float) -> Any:
    """Return a scalar of x's type."""
    return _op().CastLike(_op().Constant(value_float=value), x)


# ---- one of the sorted values ----


def _kthvalue(self, k, dim=-1, keepdim=False):  # type: ignore[no-untyped-def]
    return _smallest(self, _numbers(k), dim, keepdim)


def _median(self, dim, keepdim=False):  # type: ignore[no-untyped-def]
    return _middle(self, dim, keepdim)


def _median_of_all(self):  # type: ignore[no-untyped-def]
    return _middle(_op().Reshape(self, _numbers(-1)), 0, False)[0]


def _middle(x: Any, dim: int, keepdim: bool) -> Any:
    """Return the median, the lower one of two where their number is even."""
    op = _op()
    size = op.Gather(op.Shape(x), _numbers(dim))
    return _smallest(x, op.Div(op.Add(size, _numbers(1)), _numbers(2)), dim, keepdim)


def _smallest(x: Any, k: Any, dim: int, keepdim: bool) -> Any:
    """Return the k-th smallest values along `dim`, and their indices."""
    op = _op()
    sorted_parts = op.TopK(x, k, axis=dim, largest=0, sorted=1)
    last = [op.Slice(part, _numbers(-1), _numbers(2**62), _numbers(dim)) for part in sorted_parts]
    return last if keepdim else [op.Squeeze(part, _numbers(dim)) for part in last]


def _search_sorted(  # type: ignore[no-untyped-def]
    sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None
):
    """Count how many of the sorted values along the last axis are below each value."""
    if sorter is not None:
        raise NotImplementedError("searchsorted with a sorter")
    op = _op()
    value = op.CastLike(op.Constant(value_float=float(self)), sorted_sequence) if _is_number(self) else self
    value = op.Unsqueeze(value, _numbers(-1))
    if len(sorted_sequence.shape) > 1:  # rows of their own; one row is everybody's
        sorted_sequence = op.Unsqueeze(sorted_sequence, _numbers(-2))
    below = op.LessOrEqual if right or side == "right" else op.Less
    counted = op.Cast(below(sorted_sequence, value), to=6 if out_int32 else 7)  # int32, int64
    return op.ReduceSum(counted, _numbers(-1), keepdims=0)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


# ---- running extremes ----


def _cummax(self, dim):  # type: ignore[no-untyped-def]
    return _running(self, dim, "ReduceMax", "ArgMax", -float("inf"))


def _cummin(self, dim):  # type: ignore[no-untyped-def]
    return _running(self, dim, "ReduceMin", "ArgMin", float("inf"))


def _running(x: Any, dim: int, reduce: str, where: str, end: float) -> Any:
    """Return extremes of the first 1, 2, ...

    values along `dim`, and the last index of each, as in PyTorch.

    Each of n gets a row of its own, of n values: memory grows with the square, as in PyTorch's own form of
    `cumprod` for exporters.
    """
    if not x.dtype.is_floating_point():
        raise NotImplementedError("running extremes of integers")
    op = _op()
    rank = len(x.shape)
    last = [axis for axis in range(rank) if axis != dim % rank] + [dim % rank]
    last_axis = op.Transpose(x, perm=last)
    size = op.Gather(op.Shape(last_axis), _numbers(-1))
    rows = op.Expand(op.Unsqueeze(last_axis, _numbers(-2)), op.Concat(_numbers(1), size, _numbers(1), axis=0))
    triangle = op.Trilu(op.Expand(op.Constant(value_int=1), op.Concat(size, size, axis=0)), upper=0)
    rows = op.Where(op.Cast(triangle, to=9), rows, _like(rows, end))  # to=9: bool
    back = [last.index(axis) for axis in range(rank)]
    values = getattr(op, reduce)(rows, _numbers(-1), keepdims=0)
    places = getattr(op, where)(rows, axis=-1, keepdims=0, select_last_index=1)
    return [op.Transpose(values, perm=back), op.Transpose(places, perm=back)]


# ---- functions ----


def _atan2(self, other):  # type: ignore[no-untyped-def]
    """Write the angle of a point. torch's exporter divides integers, and gives -pi for (0, -1)."""
    op = _op()
    if not self.dtype.is_floating_point():
        self = op.Cast(self, to=_FLOAT)
    if not other.dtype.is_floating_point():
        other = op.Cast(other, to=_FLOAT)
    zero, unit, pi = _like(self, 0.0), _like(self, 1.0), _like(self, math.pi)
    of_y, of_x = op.Equal(self, zero), op.Equal(other, zero)
    angle = op.Where(op.And(of_y, of_x), self, op.Atan(op.Div(self, other)))

    def has_sign(x: Any, is_zero: Any, compare: Callable[..., Any]) -> Any:
        return op.Or(compare(x, zero), op.And(is_zero, compare(op.Div(unit, x), zero)))

    above = has_sign(self, of_y, op.Greater)
    turned = op.Where(above, op.Add(angle, pi), op.Sub(angle, pi))
    return op.Where(has_sign(other, of_x, op.Less), turned, angle)


_FLOAT = 1  # of ONNX's types


def _cross_entropy(  # type: ignore[no-untyped-def]
    self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0
):
    """Write the loss of targets that are classes. torch's exporter leaves `label_smoothing` out."""
    from onnxscript.function_libs.torch_lib.ops import nn

    if label_smoothing:
        raise NotImplementedError("cross_entropy with label_smoothing")
    if target.dtype.is_floating_point():
        raise NotImplementedError("cross_entropy with probabilities of classes")
    return nn.aten_cross_entropy_loss(self, target, weight, reduction, ignore_index, 0.0)


# ---- norms ----


def _batch_norm(  # type: ignore[no-untyped-def]
    name, outputs, input, weight=None, bias=None, running_mean=None, running_var=None, training=False,
    momentum=0.1, eps=1e-5,
):  # fmt: skip
    """Write a batch norm; with `training` one by the statistics of the batch, which torch's exporter takes
    for running ones. Running statistics stay as they are.
    """
    if not training:
        from onnxscript.function_libs.torch_lib.ops import core

        write = getattr(core, name)
        return write(input, weight, bias, running_mean, running_var, False, momentum, eps)
    op, rank = _op(), len(input.shape)
    axes = _numbers(0, *range(2, rank))
    mean = op.ReduceMean(input, axes, keepdims=1)
    apart = op.Sub(input, mean)
    variance = op.ReduceMean(op.Mul(apart, apart), axes, keepdims=1)
    gain = op.Div(_like(input, 1.0), op.Sqrt(op.Add(variance, _like(input, eps))))
    y, each = op.Mul(apart, gain), _numbers(-1, *[1] * (rank - 2))
    y = y if weight is None else op.Mul(y, op.Reshape(weight, each))
    y = y if bias is None else op.Add(y, op.Reshape(bias, each))
    statistics = [op.Reshape(x, _numbers(-1)) for x in (mean, gain)]
    if outputs == 5:  # outputs of their own: the exporter refuses inputs in their place
        statistics += [op.Identity(running_mean), op.Identity(running_var)]
    return [y, *statistics]


# ---- windows ----


def _average_pool(  # type: ignore[no-untyped-def]
    name, rank, self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None,
):  # fmt: skip
    """Write an average pool; with a divisor of its own as means of whole windows, times a constant.

    torch's exporter leaves the divisor out.
    """
    if divisor_override is None:
        from onnxscript.function_libs.torch_lib.ops import nn

        return getattr(nn, name)(self, kernel_size, stride, padding, ceil_mode, count_include_pad)
    op = _op()
    kernel, pads = _sizes(kernel_size, rank), _sizes(padding, rank)
    strides = _sizes(stride, rank) if stride else kernel
    batched = len(self.shape) == rank + 2
    x = self if batched else op.Unsqueeze(self, _numbers(0))
    ends = _ends_of_windows(list(self.shape)[-rank:], kernel, strides, pads) if ceil_mode else pads
    means = op.AveragePool(
        x, kernel_shape=kernel, strides=strides, pads=[*pads, *ends], count_include_pad=1
    )  # fmt: skip
    means = means if batched else op.Squeeze(means, _numbers(0))
    factor = prod(kernel) / divisor_override
    return means if factor == 1 else op.Mul(means, _like(means, factor))


def _upsample(name, self, output_size, align_corners, *scales, **named):  # type: ignore[no-untyped-def]
    """Write images of another size, which torch's exporter writes without the scales."""
    from onnxscript.function_libs.torch_lib.ops import nn

    if align_corners:
        raise NotImplementedError("antialias with align_corners: ONNX places the kernels elsewhere")
    factors = [x for x in (*scales, *named.values()) if x is not None]
    axes = zip(self.shape[-2:], factors, output_size, strict=True) if factors else ()
    if any(int(n * factor) != out for n, factor, out in axes):
        raise NotImplementedError("scales that are not those of the sizes")
    return getattr(nn, name)(self, output_size, align_corners)


def _sizes(value: Any, rank: int) -> list[int]:
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * rank if len(sizes) == 1 else sizes


def _ends_of_windows(
    sizes: Sequence[Any], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> list[int]:
    """Return the padding behind each axis that windows reach which begin inside (ceil mode)."""
    if not all(isinstance(n, int) for n in sizes):
        raise NotImplementedError("ceil_mode with divisor_override over open sizes")
    ends = []
    for n, k, hop, pad in zip(sizes, kernel, strides, pads, strict=True):
        last = -(-(n + 2 * pad - k) // hop) * hop
        last -= hop if last >= n + pad else 0
        ends.append(max(pad, last + k - pad - n))
    return ends


# ---- distances ----


def _cdist(x1, x2, p, compute_mode=None):  # type: ignore[no-untyped-def]
    return _distances(x1, x2, p)


def _euclidean(x1, x2):  # type: ignore[no-untyped-def]
    return _distances(x1, x2, 2)


def _distances(x1: Any, x2: Any, p: float) -> Any:
    """Compute distances [..., rows of x1, rows of x2]: ``sum(|a - b| ** p) ** (1 / p)``."""
    op = _op()
    apart = op.Abs(op.Sub(op.Unsqueeze(x1, _numbers(-2)), op.Unsqueeze(x2, _numbers(-3))))
    axis = _numbers(-1)
    if p == float("inf"):
        return op.ReduceMax(apart, axis, keepdims=0)
    if p == 0:
        return op.ReduceSum(op.CastLike(op.Greater(apart, _like(apart, 0.0)), apart), axis, keepdims=0)
    if p == 1:
        return op.ReduceSum(apart, axis, keepdims=0)
    if p == 2:
        return op.Sqrt(op.ReduceSum(op.Mul(apart, apart), axis, keepdims=0))
    total = op.ReduceSum(op.Pow(apart, _like(apart, p)), axis, keepdims=0)
    return op.Pow(total, _like(apart, 1 / p))


# ---- complex numbers: the exporter keeps real and imaginary parts along an axis behind all others ----


_COMPLEX = (14, 15)  # of ONNX's types


def _parts_axis(dim: int) -> int:
    """Return the axis, among those of real and imaginary parts, of an axis of complex numbers."""
    return dim if dim >= 0 else dim - 1


def _unsqueeze_complex(self, dim):  # type: ignore[no-untyped-def]
    return _op().Unsqueeze(self, _numbers(_parts_axis(dim)))


def _select_complex(self, dim, index):  # type: ignore[no-untyped-def]
    op = _op()
    place = op.Constant(value_int=index) if isinstance(index, int) else index
    return op.Gather(self, place, axis=_parts_axis(dim))


def _slice_scatter_complex(self, src, dim=0, start=None, end=None, step=1):  # type: ignore[no-untyped-def]
    from onnxscript.function_libs.torch_lib.ops import core

    return core.aten_slice_scatter(self, src, _parts_axis(dim), start, end, step)


def _copy_complex(self, src, non_blocking=False):  # type: ignore[no-untyped-def]
    if len(src.shape) != len(self.shape):
        raise NotImplementedError("copies of another rank into complex numbers")
    op = _op()
    return op.Expand(src, op.Shape(self))


def _fill_complex(self, value):  # type: ignore[no-untyped-def]
    op = _op()
    if not value.shape:  # a real number
        value = op.Concat(op.CastLike(op.Reshape(value, _numbers(1)), self), _zero(self), axis=0)
    return op.Expand(value, op.Shape(self))


def _zeros_like_complex(self, **kind):  # type: ignore[no-untyped-def]
    if (kind.get("dtype") or -1) not in (-1, *_COMPLEX):
        raise NotImplementedError("real numbers like complex ones")
    op = _op()
    return op.Expand(_zero(self), op.Shape(self))


def _zero(like: Any) -> Any:
    """Return [0], of the type of another tensor."""
    op = _op()
    return op.CastLike(op.Constant(value_floats=[0.0]), like)


def _einsum_complex(equation, tensors, path=None):  # type: ignore[no-untyped-def]
    """Write an einsum of complex numbers as some of their real and imaginary parts."""
    op, last = _op(), _numbers(-1)
    parts = [[op.Gather(x, op.Constant(value_int=part), axis=-1) for part in (0, 1)] for x in tensors]

    def einsum(*operands: Any) -> Any:
        return op.Einsum(*operands, equation=equation)

    if len(parts) == 1:
        real, imaginary = map(einsum, parts[0])
    elif len(parts) == 2:
        (a, b), (c, d) = parts  # (a + b i) (c + d i)
        real = op.Sub(einsum(a, c), einsum(b, d))
        imaginary = op.Add(einsum(a, d), einsum(b, c))
    else:
        raise NotImplementedError("einsum of more than two complex tensors")
    return op.Concat(op.Unsqueeze(real, last), op.Unsqueeze(imaginary, last), axis=-1)


def _full(size, fill_value, dtype=-1, **kind):  # type: ignore[no-untyped-def]
    from onnxscript.function_libs.torch_lib.ops import core

    return _pairs(size, fill_value) if dtype in _COMPLEX else core.aten_full(size, fill_value, dtype, **kind)


def _zeros(size, dtype=1, **kind):  # type: ignore[no-untyped-def]
    from onnxscript.function_libs.torch_lib.ops import core

    return _pairs(size, 0) if dtype in _COMPLEX else core.aten_zeros(size, dtype, **kind)


def _pairs(size: Any, value: Any) -> Any:
    """Fill a shape with a complex number, as real and imaginary parts."""
    op = _op()
    if isinstance(size, (tuple, list)):
        sizes = [_numbers(n) if isinstance(n, int) else op.Reshape(n, _numbers(1)) for n in size]
        size = op.Concat(*sizes, axis=0) if len(sizes) > 1 else sizes[0] if sizes else None
    number, each = complex(value), _numbers(2)
    pair = op.Constant(value_floats=[number.real, number.imag])
    sizes = each if size is None else op.Concat(op.Cast(size, to=7), each, axis=0)  # to=7: int64
    return op.Expand(pair, sizes)


# ---- others ----


def _squeeze(self, dim):  # type: ignore[no-untyped-def]
    """Squeeze an axis of size 1.

    Otherwise keep it, where torch's exporter writes a Squeeze that no runtime takes.
    """
    op = _op()
    return op.Squeeze(self, _numbers(dim)) if self.shape and self.shape[dim] == 1 else op.Identity(self)


def _lerp(self, end, weight):  # type: ignore[no-untyped-def]
    """Write the one form of lerp that applies. torch's exporter writes both, and a Where behind them."""
    op = _op()
    way = op.Sub(end, self)
    if abs(weight) < 0.5:
        return op.Add(self, op.Mul(way, _like(self, weight)))
    return op.Sub(end, op.Mul(way, _like(self, 1 - weight)))


def _scatter_reduce(self, dim, index, src, reduce, include_self=True):  # type: ignore[no-untyped-def]
    """Scatter with a reduction; means as sums by counts, which torch's exporter takes for a plain scatter."""
    if reduce != "mean":
        from onnxscript.function_libs.torch_lib.ops import core

        return core.aten_scatter_reduce(self, dim, index, src, reduce, include_self)
    if not self.dtype.is_floating_point() or list(index.shape) != list(src.shape):
        raise NotImplementedError("means of integers, or of a part of the source")
    op, scalar = _op(), not self.shape
    if scalar:
        self, index, src = (op.Reshape(x, _numbers(-1)) for x in (self, index, src))
    zero, unit = _like(self, 0.0), _like(self, 1.0)
    ones, none = op.Expand(unit, op.Shape(index)), op.Expand(zero, op.Shape(index))
    base = self if include_self else op.ScatterElements(self, index, none, axis=dim)
    start = op.Expand(unit if include_self else zero, op.Shape(self))
    counts = op.Max(op.ScatterElements(start, index, ones, axis=dim, reduction="add"), unit)
    means = op.Div(op.ScatterElements(base, index, src, axis=dim, reduction="add"), counts)
    return op.Squeeze(means) if scalar else means


def _log_ndtr(self):  # type: ignore[no-untyped-def]
    """Refuse the logarithm of a normal distribution, whose left tail has no form by ONNX's operators."""
    raise NotImplementedError("special.log_ndtr: -inf below -6, by the operators that ONNX has")


def _rrelu(  # type: ignore[no-untyped-def]
    self, noise, lower=0.125, upper=1 / 3, training=False, generator=None
):
    """Write rrelu as in evaluation mode: the slope is the mean one, and the noise is unchanged."""
    if training:
        raise NotImplementedError("rrelu in training mode")
    return [_op().LeakyRelu(self, alpha=(lower + upper) / 2), noise]


def _product(inp, dims=None, *, output_dtype=None):  # type: ignore[no-untyped-def]
    op = _op()
    if output_dtype is not None and int(output_dtype) >= 0:
        inp = op.Cast(inp, to=int(output_dtype))
    return op.ReduceProd(inp, None if dims is None else _numbers(*dims), keepdims=0)

"""Compute torch functions in the engine's arithmetic, by the names of `function_of`.

What IEEE 754 decides (sums and products of two numbers, quotients, bounds) stays torch's own. Functions that
the exporter writes as several operators are these operators here, each rounded by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from intact.torch.exact import contractions, functions, matrix_products, pool_and_resize, recurrent
from intact.torch.exact.elementwise import ELEMENTWISE, OF_INTEGERS, Handler, NoEngineStep, engine_function
from intact.torch.exact.exact_operator import exact
from intact.torch.exact.tensor_grids import TensorGrids
from intact.torch.operators.adaptive_pools import axis_windows, counts_of, gather_windows, output_sizes
from intact.torch.operators.embedding_bags import compose_embedding_bag
from intact.torch.private_torch import pack_padded_sequence, pad_packed_sequence
from intact.torch.tracing import function_decompositions

__all__ = ["HANDLERS", "DECOMPOSED", "OF_INTEGERS", "NoEngineStep"]

# ---- along axes ----


def _axes(x: Tensor, dim: Any) -> list[int]:
    if dim is None or dim == () or dim == []:
        return list(range(x.dim()))
    if isinstance(dim, Tensor):
        dim = dim.tolist()
    axes = [dim] if isinstance(dim, int) else list(dim)
    if not all(isinstance(axis, int) for axis in axes):
        raise NoEngineStep
    return sorted(axis % max(x.dim(), 1) for axis in axes)


def _reduce(name: str) -> Handler:
    def handler(
        grids: TensorGrids, input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
        axis: Any = None, keepdims: bool = False,
    ) -> Tensor:  # fmt: skip
        if dtype not in (None, torch.float32) or not input.dim():
            raise NoEngineStep
        axes, stay = _axes(input, axis if dim is None else dim), keepdim or keepdims
        if name == "mean" and axes == [2, 3]:
            result = pool_and_resize.mean_of_planes(grids, input, stay)
            if result is not None:
                return result
        return _reduce_axes(grids, input, name, axes, stay)

    return handler


def _reduce_axes(grids: TensorGrids, x: Tensor, name: str, axes: Sequence[int], keepdims: bool) -> Tensor:
    return exact("reduce", x, name=name, axes=list(axes), keepdims=keepdims)


def _softmax(grids: TensorGrids, input: Tensor, dim: int, dtype: Any = None, _stacklevel: int = 3) -> Tensor:
    if dtype not in (None, torch.float32) or not input.dim():
        raise NoEngineStep
    return exact("softmax", input, axis=dim % input.dim())


def _log_softmax(grids: TensorGrids, input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    if dtype not in (None, torch.float32) or not input.dim():
        raise NoEngineStep
    axis = dim % input.dim()
    below = input - input.amax(axis, keepdim=True)
    return below - engine_function(
        "log", _reduce_axes(grids, engine_function("exp", below), "sum", [axis], True)
    )


def _logsumexp(grids: TensorGrids, input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    axes = _axes(input, dim)
    largest = input.amax(axes, keepdim=True)
    total = _reduce_axes(grids, engine_function("exp", input - largest), "sum", axes, keepdim)
    return engine_function("log", total) + largest.reshape(total.shape)


def _cumsum(grids: TensorGrids, input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    if dtype not in (None, torch.float32) or not input.dim():
        raise NoEngineStep
    return exact("cum_sum", input, axis=dim % input.dim())


def _norm(
    grids: TensorGrids, x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    if dtype not in (None, torch.float32) or ord not in (1, 2) or not x.dim():
        raise NoEngineStep
    axes = _axes(x, dim)
    if ord == 1:
        return _reduce_axes(grids, x.abs(), "sum", axes, keepdim)
    return engine_function("sqrt", _reduce_axes(grids, x * x, "sum", axes, keepdim))


def _linalg_norm(
    grids: TensorGrids, input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Compute a vector norm: of an axis, or of all elements where no order is given."""
    if not (isinstance(dim, int) or (ord is None and dim is None)):
        raise NoEngineStep
    return _norm(grids, input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def _variance(root: bool, mean_too: bool) -> Handler:
    def handler(
        grids: TensorGrids, input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
        correction: Any = None,
    ) -> Any:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        axes = _axes(input, dim)
        correction_value = (
            1 if unbiased is None and correction is None else correction if unbiased is None else unbiased
        )
        count = functions.elements(input, axes)
        mean = _reduce_axes(grids, input, "mean", axes, True)
        apart = input - mean
        result = _reduce_axes(grids, apart * apart, "sum", axes, keepdim) / max(
            count - float(correction_value), 0.0
        )
        result = engine_function("sqrt", result) if root else result
        return (result, mean if keepdim else mean.reshape(result.shape)) if mean_too else result

    return handler


# ---- norms ----


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _layer_norm(
    grids: TensorGrids, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    before = input.shape[: input.dim() - len(normalized_shape)]
    rows = exact("normalize", input.reshape(*before, -1), epsilon=eps)
    return _affine(rows.reshape(input.shape), weight, bias)


def _group_norm(
    grids: TensorGrids, input: Tensor, num_groups: int, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    rows = exact("normalize", input.reshape(input.shape[0], num_groups, -1), epsilon=eps)
    each = [-1, *[1] * (input.dim() - 2)]
    factors, offsets = (None if x is None else x.reshape(each) for x in (weight, bias))
    return _affine(rows.reshape(input.shape), factors, offsets)


def _instance_norm(
    grids: TensorGrids, input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    if not use_input_stats:
        return _batch_norm(
            grids, input, weight, bias, running_mean, running_var, False, momentum, eps, cudnn_enabled
        )
    return _group_norm(grids, input, input.shape[1], weight, bias, eps)


def _batch_norm(
    grids: TensorGrids, input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    each = [-1, *[1] * (input.dim() - 2)]
    if training and running_mean is None and running_var is None and input.dim() > 1:
        axes = [0, *range(2, input.dim())]
        apart = input - _reduce_axes(grids, input, "mean", axes, True)
        variance = _reduce_axes(grids, apart * apart, "mean", axes, True)
        factors, offsets = (None if x is None else x.reshape(each) for x in (weight, bias))
        return _affine(apart * (1 / engine_function("sqrt", variance + eps)), factors, offsets)
    if training or running_mean is None or running_var is None:
        raise NoEngineStep  # torch also writes into running statistics
    gain = 1 / engine_function("sqrt", running_var + eps)  # as in N29
    gain = gain if weight is None else gain * weight
    shift = (0 if bias is None else bias) - running_mean * gain
    return input * gain.reshape(each) + shift.reshape(each)  # type: ignore[no-any-return]


def _rms_norm(
    grids: TensorGrids, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    axes = list(range(input.dim() - len(normalized_shape), input.dim()))
    mean = _reduce_axes(grids, input * input, "mean", axes, True)
    epsilon = torch.finfo(input.dtype).eps if eps is None else eps
    normalized = input * (1 / engine_function("sqrt", mean + epsilon))
    return normalized if weight is None else normalized * weight


# ---- products ----


def _linear(grids: TensorGrids, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return matrix_products.linear(grids, input, weight, bias)


def _matmul(grids: TensorGrids, input: Tensor, other: Tensor) -> Tensor:
    return matrix_products.matmul(grids, input, other)


def _mm(grids: TensorGrids, input: Tensor, mat2: Tensor) -> Tensor:
    return matrix_products.matmul(grids, input, mat2)


def _scale(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else x * factor


def _baddbmm(
    grids: TensorGrids, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return _scale(matrix_products.matmul(grids, batch1, batch2), alpha) + _scale(input, beta)


def _addmm(
    grids: TensorGrids, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Compute a Gemm. One row that is added becomes the start of the sums."""
    if alpha == 1 and beta == 1 and input.dim() == 1:
        weight = mat2.t()
        grid = grids.of(mat2)
        if grid is not None:
            grids.put_moved("t", weight, Tensor.t, (mat2,), {})
        return matrix_products.linear(grids, mat1, weight, input.expand(mat2.shape[1]).contiguous())
    return _baddbmm(grids, input, mat1, mat2, beta=beta, alpha=alpha)


def _conv(rank: int) -> Handler:
    def handler(
        grids: TensorGrids, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        stride, dilation = _sizes(stride, rank), _sizes(dilation, rank)
        if isinstance(padding, str):
            input, padding = _pad_same(grids, input, weight, padding, dilation)
        attributes: Any = {
            "stride": stride, "padding": _sizes(padding, rank), "dilation": dilation, "groups": groups,
        }  # fmt: skip
        return _convolve_batch(grids, rank, input, weight, bias, attributes)

    return handler


def _convolution(
    grids: TensorGrids, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    rank = weight.dim() - 2
    if transposed:
        convolve = _conv_transpose(rank)
        return convolve(grids, input, weight, bias, stride, padding, output_padding, groups, dilation)  # type: ignore[no-any-return]
    return _conv(rank)(grids, input, weight, bias, stride, padding, dilation, groups)  # type: ignore[no-any-return]


def _conv_transpose(rank: int) -> Handler:
    def handler(
        grids: TensorGrids, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        attributes: Any = {
            "stride": _sizes(stride, rank), "padding": _sizes(padding, rank), "groups": groups,
            "dilation": _sizes(dilation, rank), "transposed": True,
            "output_padding": _sizes(output_padding, rank),
        }  # fmt: skip
        return _convolve_batch(grids, rank, input, weight, bias, attributes)

    return handler


def _convolve_batch(
    grids: TensorGrids, rank: int, x: Tensor, weight: Tensor, bias: Any, attributes: Any
) -> Tensor:
    if x.dim() == rank + 2:
        return _require_result(matrix_products.convolve(grids, x, weight, bias, **attributes))
    batch = x[None]
    grids.put(batch, grids.of(x))
    return _require_result(matrix_products.convolve(grids, batch, weight, bias, **attributes))[0]


def _pad_same(
    grids: TensorGrids, x: Tensor, weight: Tensor, padding: str, dilation: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """Pad as "same" says: where an end gets one more, it is the last one."""
    rank = len(dilation)
    if padding == "valid":
        return x, [0] * rank
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if all(n % 2 == 0 for n in total):
        return x, [n // 2 for n in total]
    wide = F.pad(x, [n for whole in reversed(total) for n in (whole // 2, whole - whole // 2)])
    grids.put(wide, grids.of(x))
    return wide, [0] * rank


def _sizes(value: Any, rank: int) -> list[int]:
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * rank if len(sizes) == 1 else sizes


def _recurrent(cell: str) -> Handler:
    def handler(
        grids: TensorGrids,
        x: Tensor,
        hx: Any,
        params: Any,
        biases: Any = None,
        count: Any = None,
        *options: Any,
    ) -> Any:
        if len(options) != 4:
            raise NoEngineStep
        sizes = None
        if not isinstance(biases, bool):  # of a packed sequence
            sizes, hx, params, biases, count, options = (
                hx,
                params,
                biases,
                count,
                options[0],
                (*options[1:], False),
            )
        dropout, train, bidirectional, batch_first = options
        states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        plain = len(params) == count * (2 if bidirectional else 1) * (4 if biases else 2)
        if not plain or (dropout and train) or x.dim() != (3 if sizes is None else 2):
            raise NoEngineStep
        if sizes is not None:
            rows, lengths = pad_packed_sequence(x, sizes, False, 0.0, len(sizes))
            grids.put(rows, grids.of(x))  # 0 is on every grid
            y, ends = recurrent.layers(
                grids, cell, rows, states, params, biases, count, bidirectional, lengths
            )
            return (pack_padded_sequence(y, lengths, False)[0], *ends)
        rows = x
        if batch_first:
            rows = x.transpose(0, 1)
            grids.put(rows, grids.of(x))
        y, ends = recurrent.layers(grids, cell, rows, states, params, biases, count, bidirectional)
        return (y.transpose(0, 1) if batch_first else y, *ends)

    return handler


# ---- windows ----


def _average_pool(rank: int) -> Handler:
    def handler(
        grids: TensorGrids, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        if input.dim() != rank + 2:
            raise NoEngineStep
        kernel = _sizes(kernel_size, rank)
        strides = _sizes(stride, rank) if stride is not None and stride != [] and stride != () else kernel
        return _require_result(
            pool_and_resize.average_pool(
                grids,
                input,
                kernel,
                strides,
                _sizes(padding, rank),
                ceil_mode,
                count_include_pad,
                divisor_override,
            )
        )

    return handler


def _require_result(result: Tensor | None) -> Tensor:
    if result is None:
        raise NoEngineStep
    return result


def _adaptive_average_pool(rank: int) -> Handler:
    def handler(grids: TensorGrids, input: Tensor, output_size: Any) -> Tensor:
        if input.dim() != rank + 2:
            raise NoEngineStep
        sizes = output_sizes(output_size, input.shape[2:])
        if not all(sizes):
            raise NoEngineStep
        if any(n % out for n, out in zip(input.shape[2:], sizes, strict=True)):
            return _adaptive_means(grids, input, sizes)
        if set(sizes) == {1}:
            result = pool_and_resize.mean_of_planes(grids, input, True)
            return (
                _reduce_axes(grids, input, "mean", list(range(2, rank + 2)), True)
                if result is None
                else result
            )
        kernel = [n // out for n, out in zip(input.shape[2:], sizes, strict=True)]
        return _require_result(
            pool_and_resize.average_pool(grids, input, kernel, kernel, [0] * rank, False, True)
        )

    return handler


def _adaptive_means(grids: TensorGrids, x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Compute means of windows of several sizes: sums of gathered windows, divided by their counts."""
    windows = [axis_windows(n, out) for n, out in zip(x.shape[2:], sizes, strict=True)]
    for axis, each in reversed([entry for entry in enumerate(windows, start=2) if not entry[1].is_whole]):
        x = _reduce_axes(grids, gather_windows(x, axis, each), "sum", [axis + 1], False)
    return x / torch.from_numpy(counts_of(windows)).to(x.dtype)


def _upsample(mode: str, rank: int, antialias: bool = False) -> Handler:
    def handler(
        grids: TensorGrids, input: Tensor, output_size: Any, align_corners: bool, *scales: Any, **further: Any
    ) -> Tensor:
        if further or (antialias and align_corners):  # which no operator of ONNX computes
            raise NoEngineStep
        factors: list[float | None] = [None] * rank
        if scales and isinstance(scales[0], (tuple, list)):
            factors = list(scales[0])
        sizes = output_size
        if sizes is None:
            sizes = [math.floor(n * float(f)) for n, f in zip(input.shape[2:], factors, strict=True)]  # type: ignore[arg-type]
        return pool_and_resize.resize(input, list(sizes), factors, mode, align_corners, antialias)

    return handler


# ---- functions that are several ----


def _run(part: Any, *args: Any, **kwargs: Any) -> Any:
    return part(*args, **kwargs)


def _decompose(name: str) -> Handler:
    return lambda *args, **kwargs: function_decompositions.DECOMPOSITIONS[name](_run, *args, **kwargs)


def _with_alpha(function: Callable[[Any, Any], Tensor]) -> Handler:
    """Compute a sum or difference, with the product with alpha as a Mul of its own, as in a file.

    torch fuses it.
    """

    def handler(grids: TensorGrids, input: Any, other: Any, *, alpha: float = 1) -> Tensor:
        if alpha == 1:
            raise NoEngineStep
        return function(input, other * alpha)

    return handler


DECOMPOSED: dict[str, Handler] = {
    name: _decompose(name) for name in ("scaled_dot_product_attention", "glu", "addcmul", "addcdiv", "lerp")
} | {"embedding_bag": compose_embedding_bag, **contractions.CONTRACTIONS}
"""Functions that consist of calls of others, each of which has a handler or is torch's own."""

HANDLERS: dict[str, Handler] = {
    **ELEMENTWISE,
    **{cell: _recurrent(cell) for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    "adaptive_avg_pool1d": _adaptive_average_pool(1), "adaptive_avg_pool2d": _adaptive_average_pool(2),
    "adaptive_avg_pool3d": _adaptive_average_pool(3),
    "avg_pool1d": _average_pool(1), "avg_pool2d": _average_pool(2), "avg_pool3d": _average_pool(3),
    "upsample_bicubic2d": _upsample("cubic", 2), "upsample_bilinear2d": _upsample("linear", 2),
    "upsample_bicubic2d_aa": _upsample("cubic", 2, True),
    "upsample_bilinear2d_aa": _upsample("linear", 2, True), "upsample_linear1d": _upsample("linear", 1),
    "upsample_trilinear3d": _upsample("linear", 3),
    "add": _with_alpha(torch.add), "sub": _with_alpha(torch.sub), "subtract": _with_alpha(torch.sub),
    "addmm": _addmm, "baddbmm": _baddbmm, "batch_norm": _batch_norm, "bmm": _mm,
    "conv1d": _conv(1), "conv2d": _conv(2), "conv3d": _conv(3), "conv_transpose1d": _conv_transpose(1),
    "conv_transpose2d": _conv_transpose(2), "conv_transpose3d": _conv_transpose(3),
    "convolution": _convolution, "cumsum": _cumsum,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm, "layer_norm": _layer_norm, "linalg_norm": _linalg_norm,
    "linalg_vector_norm": _norm,
    "linear": _linear, "log_softmax": _log_softmax, "logsumexp": _logsumexp, "matmul": _matmul,
    "mean": _reduce("mean"), "mm": _mm, "rms_norm": _rms_norm, "softmax": _softmax,
    "std": _variance(True, False), "sum": _reduce("sum"),
    "std_mean": _variance(True, True), "var": _variance(False, False),
    "var_mean": _variance(False, True),
}  # fmt: skip
"""Name of a function -> its handler in the engine's arithmetic."""

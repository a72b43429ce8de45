"""Engine steps as functions of arrays, each registered with the torch function that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from intact.engine.steps import (
    CumSum,
    FloatConv,
    FloatConvTranspose,
    FloatLinear,
    FloatMatMul,
    Function,
    LayerNorm,
    Reduce,
    Softmax,
)
from intact.graph import ops
from intact.torch.exact.engine_steps import run_step
from intact.torch.exact.exact_operator import register

__all__ = ["FUNCTIONS"]

Reals = NDArray[np.float32]


def _torch_function(variant: ops.Variant) -> Callable[..., Tensor]:
    """Return torch's own function, which has the shapes and gradients of an engine function."""
    name = variant.torch[0]
    function = getattr(torch, name, None) or getattr(F, name)
    return partial(function, **variant.torch_keywords)


FUNCTIONS = {variant.step: _torch_function(variant) for _, variant in ops.VARIANTS if variant.torch}
"""Name in `numerics.FUNCTIONS` -> torch's function."""


def _like_function(x: Tensor, *, name: str) -> Tensor:
    return FUNCTIONS[name](x)


@register("function", _like_function)
def function(x: Reals, *, name: str) -> Reals:
    """Compute a function of one real number (N38)."""
    return run_step(Function, {"x": x}, {"y": x.ndim}, function=name)[0]


@register("softmax", lambda x, *, axis: torch.softmax(x, axis))
def softmax(x: Reals, *, axis: int) -> Reals:
    """Compute softmax along an axis (N40)."""
    return run_step(Softmax, {"x": x}, {"y": x.ndim}, axis=axis)[0]


@register("normalize", lambda x, *, epsilon: F.layer_norm(x, x.shape[-1:], eps=epsilon))
def normalize(x: Reals, *, epsilon: float) -> Reals:
    """Normalize over the last axis, without weight and bias (N41)."""
    return run_step(LayerNorm, {"x": x}, {"y": x.ndim}, weight="", bias="", epsilon=epsilon)[0]


def _like_reduce(x: Tensor, *, name: str, axes: Sequence[int], keepdims: bool) -> Tensor:
    return {"sum": torch.sum, "mean": torch.mean}[name](x, tuple(axes), keepdim=keepdims)


@register("reduce", _like_reduce)
def reduce(x: Reals, *, name: str, axes: Sequence[int], keepdims: bool) -> Reals:
    """Compute a sum or a mean along axes (N50)."""
    rank = x.ndim if keepdims else x.ndim - len(axes)
    attributes: dict[str, Any] = {"function": name, "axes": tuple(axes), "keepdims": keepdims}
    return run_step(Reduce, {"x": x}, {"y": rank}, **attributes)[0]


@register("cum_sum", lambda x, *, axis: torch.cumsum(x, axis))
def cum_sum(x: Reals, *, axis: int) -> Reals:
    """Compute running sums (N54)."""
    return run_step(CumSum, {"x": x}, {"y": x.ndim}, axis=axis)[0]


@register("product", torch.matmul)
def product(a: Reals, b: Reals) -> Reals:
    """Multiply matrices, of rank 2 or more (N51)."""
    return run_step(FloatMatMul, {"a": a, "b": b}, {"y": max(a.ndim, b.ndim)})[0]


@register("linear", F.linear)
def linear(x: Reals, weight: Reals, bias: Reals) -> Reals:
    """Multiply rows by a matrix [outputs, inputs]; sums start at the bias (N51)."""
    constants = {"weight": np.ascontiguousarray(weight.T), "bias": np.ascontiguousarray(bias)}
    return run_step(FloatLinear, {"x": x}, {"y": x.ndim}, constants)[0]


def _like_conv(x: Tensor, weight: Tensor, *bias: Tensor, **attributes: Any) -> Tensor:
    rank = x.dim() - 2
    return torch.convolution(
        x, weight, bias[0] if bias else None,
        attributes["stride"], attributes["padding"], attributes["dilation"],
        attributes["transposed"], attributes.get("output_padding", [0] * rank), attributes["groups"],
    )  # fmt: skip


@register("conv", _like_conv)
def conv(
    x: Reals, weight: Reals, *bias: Reals, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, transposed: bool, output_padding: Sequence[int] = (),
) -> Reals:  # fmt: skip
    """Convolve a sequence or an image (N51). A sequence is an image of one row."""
    image = x if x.ndim == 4 else x[:, :, None]
    w = weight if x.ndim == 4 else weight[:, :, None]
    pads = _pair(padding, 0)
    attributes: dict[str, Any] = {
        "strides": _pair(stride, 1), "dilations": _pair(dilation, 1), "pads": (*pads, *pads),
        "groups": groups,
    }  # fmt: skip
    constants = {"bias": np.ascontiguousarray(bias[0])} if bias else {}
    if transposed:
        inputs, outputs = w.shape[:2]
        grouped = w.reshape(groups, inputs // groups, *w.shape[1:]).swapaxes(1, 2)
        w = grouped.reshape(groups * outputs, inputs // groups, *w.shape[2:])
        attributes["output_padding"] = _pair(output_padding, 0)
    filters = {"weight": np.ascontiguousarray(np.moveaxis(w, 1, -1)), **constants}
    kind = FloatConvTranspose if transposed else FloatConv
    y = run_step(kind, {"x": image}, {"y": 4}, filters, **attributes)[0]
    return y if x.ndim == 4 else y[:, :, 0]


def _pair(sizes: Sequence[int], row: int) -> tuple[int, int]:
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (row, sizes[0])


def elements(x: Tensor, axes: Sequence[int]) -> int:
    """Return how many elements there are along axes."""
    return prod(x.shape[axis] for axis in axes)

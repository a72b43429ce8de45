"""Linear layers, convolutions and products of matrices: of codes as integers, of floats as one chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from intact import numerics
from intact.torch.exact.exact_operator import exact, register_torch
from intact.torch.exact.tensor_grids import TensorGrid, TensorGrids

__all__ = ["convolve", "linear", "matmul"]

_EXACT_IN_FLOAT32 = 2**24


def linear(grids: TensorGrids, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`."""
    if weight.dim() != 2 or x.dim() == 0:
        return F.linear(x, weight, bias)
    a, b = grids.read_by_layer(x), _by_output(grids.of(weight), 0)
    if a is not None and b is not None and not a.scale.dim():
        made = _integer("linear", x, weight, a, b, a.scale * b.scale.reshape(-1))
        return made if bias is None else made + bias
    if bias is not None:
        rows = x if x.dim() > 1 else x[None]
        made = exact("linear", rows, weight, bias)
        return made if x.dim() > 1 else made[0]
    return _float_product(x, weight.t())


def matmul(grids: TensorGrids, a: Tensor, b: Tensor) -> Tensor:
    """`torch.matmul`."""
    if not a.dim() or not b.dim():
        return torch.matmul(a, b)
    # A matrix for all rows is taken for weights.
    one, other = grids.read_by_layer(a) if b.dim() == 2 else grids.of(a), grids.of(b)
    if one is not None and other is not None:
        columns = _by_output(other, b.dim() - 1) if b.dim() > 1 else other
        if columns is not None and not one.scale.dim():
            return _integer("matmul", a, b, one, columns, one.scale * columns.scale.reshape(-1))
    return _float_product(a, b)


def _float_product(a: Tensor, b: Tensor) -> Tensor:
    """Vectors become matrices of one row or column."""
    rows, columns = a if a.dim() > 1 else a[None], b if b.dim() > 1 else b[:, None]
    made = exact("product", rows, columns)
    made = made if b.dim() > 1 else made.squeeze(-1)
    return made if a.dim() > 1 else made.squeeze(-2 if b.dim() > 1 else -1)


def convolve(
    grids: TensorGrids,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    transposed: bool = False,
    output_padding: Sequence[int] = (),
) -> Tensor:
    """`torch.convolution` of a batch."""
    laid: dict[str, Any] = {
        "stride": list(stride), "padding": list(padding), "dilation": list(dilation), "groups": groups,
        "transposed": transposed, "output_padding": list(output_padding) or [0] * (x.dim() - 2),
    }  # fmt: skip
    a = grids.of(x) if transposed else grids.read_by_layer(x)
    b = _by_output(grids.of(weight), 1 if transposed else 0)
    if a is not None and b is not None and not a.scale.dim():
        per_output = b.scale.reshape(-1)
        if transposed and groups > 1 and per_output.numel() > 1:
            per_output = per_output.repeat(groups)
        step = (a.scale * per_output).reshape(-1, *[1] * (x.dim() - 2))
        made = _integer("conv", x, weight, a, b, step, **laid)
        return made if bias is None else made + bias.reshape(-1, *[1] * (x.dim() - 2))
    if x.dim() > 4:
        return _plain_conv(x, weight, *([] if bias is None else [bias]), **laid)
    return exact("conv", x, weight, *([] if bias is None else [bias]), **laid)


def _by_output(grid: TensorGrid | None, axis: int) -> TensorGrid | None:
    """A grid with one scale, or one for each index of an axis; None for others."""
    if grid is None or not grid.scale.dim():
        return grid
    sizes = [n for place, n in enumerate(grid.scale.shape) if place != axis]
    return grid if all(n == 1 for n in sizes) else None


# ---- integers ----


def _integer(
    kind: str, a: Tensor, b: Tensor, one: TensorGrid, other: TensorGrid, step: Tensor, **laid: Any
) -> Tensor:
    """``fl32(fl32(sum) * step)``, the sum over whole numbers exact (N19, N25), or rounded by N62."""
    scales = [one.scale, other.scale, step]
    return exact(f"integer_{kind}", a, b, *scales, reach=one.reach, other=other.reach, **laid)


def _plain_conv(x: Tensor, weight: Tensor, *bias: Tensor, **laid: Any) -> Tensor:
    return torch.convolution(
        x, weight, bias[0] if bias else None, laid["stride"], laid["padding"], laid["dilation"],
        laid["transposed"], laid["output_padding"], laid["groups"],
    )  # fmt: skip


_LAYERS: dict[str, Callable[..., Tensor]] = {
    "linear": F.linear, "matmul": torch.matmul, "conv": _plain_conv,
}  # fmt: skip


def _fits_float32(kind: str, a: Tensor, b: Tensor, reach: int, other: int, laid: Any) -> bool:
    """Whether sums and their parts, in any order, are whole numbers that float32 holds."""
    if kind == "matmul":
        return reach * other * a.shape[-1] < _EXACT_IN_FLOAT32
    axis = 1 if laid.get("transposed") else 0
    if reach * other * (b.numel() // max(b.shape[axis], 1)) < _EXACT_IN_FLOAT32:
        return True
    return reach * _largest_row(kind, b, laid) < _EXACT_IN_FLOAT32


def _largest_row(kind: str, b: Tensor, laid: Any) -> int:
    """The largest sum of magnitudes of the whole numbers that one output multiplies."""
    axis = b.dim() - 1 if kind == "matmul" else 1 if laid.get("transposed") else 0
    axes = [i for i in range(b.dim()) if i != axis]
    return int(b.abs().sum(axes, dtype=torch.float64).max()) if b.numel() else 0


def _register(kind: str) -> None:
    layer = _LAYERS[kind]

    def like(a: Tensor, b: Tensor, *scales: Tensor, reach: int, other: int, **laid: Any) -> Tensor:
        return layer(a, b, **laid)

    def run(
        a: Tensor, b: Tensor, one: Tensor, two: Tensor, step: Tensor, *, reach: int, other: int, **laid: Any
    ) -> Tensor:
        a, b = (a / one).round_(), (b / two).round_()
        if _fits_float32(kind, a, b, reach, other, laid):
            return layer(a, b, **laid) * step
        total = layer(a.double(), b.double(), **laid)
        if reach < 2**8:
            return total.float() * step
        unit = 2.0 ** numerics.shift_of_sums(reach * _largest_row(kind, b, laid))
        return (total / unit + 0.5).floor_().float() * (step * unit)

    register_torch(f"integer_{kind}", like, run)


for _kind in _LAYERS:
    _register(_kind)

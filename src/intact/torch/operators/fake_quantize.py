"""`intact::fake_quantize` and its gradient, registered as one PyTorch operator.

On CPU it runs the native kernels on the tensors' own memory. On other devices it runs
`intact.torch.fake_quantize_formula`, the same formula as torch operators, bit for bit and without waiting for
the device. On CUDA, one Triton kernel runs it where Triton is installed (`intact.torch.triton`). Autocast
does not change it: it runs in the dtype of its input, and computes in float32 inside.

The layers above call `fake_quantize`. `torch.export` and backends of `torch.compile` see one node. Where
AOTAutograd functionalizes a graph for a compiler such as Inductor, the formula replaces the node, so that it
fuses with its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from intact import kernels, numerics
from intact.errors import QuantValueError
from intact.torch import fake_quantize_formula
from intact.torch.fake_quantize_formula import with_layout_of
from intact.torch.private_torch import (
    FunctionalTensorMode,
    decomposes_custom_operators,
    has_functorch_transforms,
    is_fx_tracing,
    is_jit_tracing,
)

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
Shape = tuple[int, ...]

TINY = fake_quantize_formula.TINY
_BY_TRITON = ("cuda", "xpu")  # devices for which Inductor writes Triton; see `composed` on what that rounds
_LARGEST_CACHED = 4096  # ranges in one cache entry
_ARGUMENTS = "Tensor amax, Tensor? amin, str format, int[]? axis, bool narrow) -> Tensor"

_LIB = torch.library.Library("intact", "DEF")  # type: ignore[no-untyped-call]
_LIB.define(f"fake_quantize(Tensor x, {_ARGUMENTS}")  # type: ignore[no-untyped-call]
_LIB.define(f"fake_quantize_backward(Tensor grad, Tensor x, {_ARGUMENTS}")  # type: ignore[no-untyped-call]


def fake_quantize(
    x: Tensor,
    amax: Tensor | float,
    amin: Tensor | float | None = None,
    *,
    format: str = "int8",
    axis: int | Sequence[int] | None = None,
    narrow: bool = False,
) -> Tensor:
    """Quantize and dequantize `x`: ``(clamp(rne(x / scale) + zp, qmin, qmax) - zp) * scale``.

    Args:
        x: float32, float16, bfloat16 or float64, any shape and layout.
        amax: Largest magnitude per granule (the range is [-amax, amax], or [0, amax] for an unsigned
            format); with `amin`, the upper end of the range. A number, or a tensor of the granule shape or
            of a shape that broadcasts to `x`, such as [C, 1, 1, 1].
        amin: Lower end of an asymmetric range, shape of `amax`; None for a symmetric one.
        format: Name of the grid: "int8", "uint8", "int4", "fp8e4m3", ...
        axis: The axes that keep a range of their own; None: read from the shape of `amax`.
        narrow: Drop the extra negative code.
    Returns:
        Shape, dtype and layout of `x`. NaN stays NaN, infinities saturate.
    Raises:
        QuantValueError: `amax` does not fit `x`, or is negative, NaN or infinite. Off the CPU, where looking
            at values would wait for the device, such a range gives NaN instead.
    Transforms of `torch.func` (grad, jvp, vmap, ...) see the composed formula, whose values are the same.
    Gradient: to `x`, where it lies in the range (|x| <= amax, or the floats that an asymmetric grid reaches);
        none to `amax` and `amin`.
    """
    amax = _range_end(amax, x.device)
    amin = None if amin is None else _range_end(amin, x.device)
    if axis is None:
        axes = broadcast_axes(amax.shape, x.dim())
    else:
        axes = [axis] if isinstance(axis, int) else list(axis)
    if has_functorch_transforms() and not is_tracing():
        _check_dtype(x)
        return fake_quantize_formula.transformable(x, amax, amin, format, axes or None, narrow)
    call = torch.ops.intact.fake_quantize.default
    return call(x, amax, amin, format, axes or None, narrow)  # type: ignore[no-any-return]


def _range_end(value: Tensor | float, device: torch.device) -> Tensor:
    if not isinstance(value, Tensor):
        return torch.full((), float(value), dtype=torch.float32, device=device)
    return value.detach() if value.requires_grad else value


def quantize(x: Tensor, amax: Tensor, *, format: str = "int8", narrow: bool = False) -> Tensor:
    """Return the codes of `x` over [-amax, amax] (or [0, amax]), in the dtype of `x`.

    NaN gets the smallest code.
    """
    _check_dtype(x)
    axes = broadcast_axes(amax.shape, x.dim())
    spec = fake_quantize_formula.spec_of(x.shape, amax.numel(), True, format, axes, narrow)
    scale, zero_point = scale_and_zero_point(x, amax, format=format, axis=spec.axes, narrow=narrow)
    codes = fake_quantize_formula.codes(x, scale, zero_point, spec)
    return torch.where(x.isnan(), spec.qmin, codes).to(x.dtype)


def min_max(x: Tensor, axes: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Return the smallest and largest value of each granule, float32, with `axes` kept and the rest of size
    1.

    With no axes both are 0-D. An empty tensor gives (inf, -inf).
    """
    axis_list = positive_axes(axes, x.dim())
    if is_readable(x):
        _check_dtype(x)
        ends = kernels.minmax(as_numpy(x), tuple(axis_list) or None, threads=torch.get_num_threads())
        low, high = (torch.from_numpy(np.asarray(end)) for end in ends)
    elif is_tracing() or x.numel():
        low, high = (kernels_for(x) or fake_quantize_formula).min_max(x.detach(), axis_list)
    else:
        high = torch.full([x.shape[a] for a in axis_list], -math.inf, device=x.device)
        low = -high
    shape = [x.shape[a] if a in axis_list else 1 for a in range(x.dim())] if axis_list else []
    return low.reshape(shape), high.reshape(shape)


def count_fixed(x: Tensor, width: float, counts: NDArray[np.int64]) -> None:
    """Add a histogram of |x|, with bins of `width`, to `counts`.

    Values beyond the last edge count in the last bin.
    """
    kernels.count_fixed(as_numpy(x.to("cpu")), width, counts, threads=torch.get_num_threads())


def is_tracing() -> bool:
    """Return True while a graph is recorded, so that values of tensors cannot be read."""
    return torch.compiler.is_compiling() or is_jit_tracing() or is_fx_tracing()


def is_readable(x: Tensor) -> bool:
    """Return whether the values of `x` can be read without waiting for a device or stopping a compiler or
    tracer.
    """
    return x.device.type == "cpu" and not is_tracing()


def kernels_for(x: Tensor) -> ModuleType | None:
    """Return the Triton kernels for the device of `x`; None where there are none, or under a tracer."""
    return _triton() if x.device.type == "cuda" and not is_tracing() else None


@cache
def _triton() -> ModuleType | None:
    if torch.version.cuda is None or find_spec("triton") is None:
        return None
    from intact.torch import triton

    return triton


def nonfinite_granules(low: Tensor | None, high: Tensor) -> Tensor | None:
    """Return which granules have a range with NaN or infinity, as bools in the shape of `high`.

    None where no granule has one. Under a compiler or tracer the mask comes back unread. Off the CPU the
    answer is None, because reading would wait for the device. Such a range quantizes to NaN there.
    """
    if not is_readable(high) and not is_tracing():
        return None
    lost = ~torch.isfinite(high) if low is None else ~(torch.isfinite(high) & torch.isfinite(low))
    return lost if is_tracing() or bool(lost.any()) else None


def positive_axes(axis: int | Sequence[int] | None, rank: int) -> list[int]:
    """Return the axes in `axis` for a tensor of `rank`, ascending and counted from the front.

    Raises:
        QuantValueError: There is no such axis.
    """
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if any(not -rank <= a < rank for a in axes):
        raise QuantValueError(
            "axis",
            f"{axis} for a tensor with {rank} axes",
            f"axes in [{-rank}, {rank})",
            "choose an axis that the tensor has, or None for one range per tensor",
        )
    return sorted(a % rank for a in axes)


def broadcast_axes(shape: Sequence[int], rank: int) -> list[int]:
    """Return the axes of a tensor of `rank` along which parameters of `shape`, broadcast from the right,
    differ.
    """
    return [rank - len(shape) + i for i, size in enumerate(shape) if size != 1]


# ---- from amax to scale: numerics decides, once per content ----


class _Grid:
    """Holds scale, zero point and gradient bounds of one call, in the granule shape of the tensor."""

    def __init__(
        self, shape: Shape, high: NDArray, low: NDArray | None, format: str, axis: Shape, narrow: bool
    ) -> None:
        self.spec = fake_quantize_formula.spec_of(shape, high.size, low is None, format, axis, narrow)
        self.granule, self.keepdims = fake_quantize_formula.granules(shape, self.spec)
        most = self._granules(high)
        if low is None:
            self.scale = numerics.scale_from_amax(most, self.spec)
            self.zero_point = np.zeros(self.granule, np.int32)
            self.bounds = -most, most
        else:
            self.scale, self.zero_point = numerics.affine_from_range(self._granules(low), most, self.spec)
            self.bounds = numerics.representable_range(self.scale, self.zero_point, self.spec)

    def _granules(self, values: NDArray) -> NDArray:
        fake_quantize_formula.check_fits(values.shape, self.granule, self.keepdims)
        return values.reshape(self.granule)


@lru_cache(maxsize=2048)
def _cached_grid(high: bytes, low: bytes | None, sizes: tuple[Shape, Shape], *call: Any) -> _Grid:
    ends = [None if end is None else np.frombuffer(end, np.float32).reshape(sizes[1]) for end in (high, low)]
    return _Grid(sizes[0], ends[0], ends[1], *call)  # type: ignore[arg-type]


def _grid(x: Tensor, amax: Tensor, amin: Tensor | None, *call: Any) -> _Grid:
    """Return the grid of one call, from a cache keyed by content.

    A key of tensors and their version counters would miss writes through `.data` and through NumPy.
    """
    format, axis, narrow = call
    call = (format, tuple(axis or ()), narrow)
    high, low = _values(amax), None if amin is None else _values(amin)
    if high.size > _LARGEST_CACHED or (low is not None and low.shape != high.shape):
        return _Grid(tuple(x.shape), high, low, *call)
    sizes = (tuple(x.shape), high.shape)
    return _cached_grid(high.tobytes(), None if low is None else low.tobytes(), sizes, *call)


def _values(param: Tensor) -> NDArray[np.float32]:
    return param.detach().to("cpu", torch.float32).numpy()


def scale_and_zero_point(
    x: Tensor,
    amax: Tensor,
    amin: Tensor | None = None,
    *,
    format: str = "int8",
    axis: Sequence[int] | None = None,
    narrow: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the scale (float32) and zero point (int32) of `fake_quantize`, shaped to broadcast to `x`."""
    if is_readable(x):
        grid = _grid(x, amax, amin, format, axis, narrow)
        grid_tensors = torch.tensor(grid.scale), torch.tensor(grid.zero_point)
        return grid_tensors[0].reshape(grid.keepdims), grid_tensors[1].reshape(grid.keepdims)
    spec = fake_quantize_formula.spec_of(x.shape, amax.numel(), amin is None, format, axis, narrow)
    ends = (
        fake_quantize_formula.range_on(x, amax, spec),
        None if amin is None else fake_quantize_formula.range_on(x, amin, spec),
    )
    scale, zero_point = fake_quantize_formula.scale_and_zero_point(*ends, spec)
    return scale, zero_point.to(torch.int32)


# ---- CPU: the kernels, on the tensors' own memory ----


def as_numpy(x: Tensor) -> NDArray:
    """Return a read-only view of `x` as an array on the same memory.

    It uses DLPack, because `Tensor.numpy` fixes the size of the storage for good. `fully_shard` frees the
    storage of whole parameters between layers.
    """
    x = x.detach()
    if x.dtype == torch.bfloat16:
        return np.from_dlpack(x.view(torch.int16)).view(ml_dtypes.bfloat16)
    return np.from_dlpack(x)


def writable(x: Tensor) -> NDArray:
    """Return `x`, a kernel's own output, as an array on the same memory."""
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def _forward_cpu(x: Tensor, amax: Tensor, amin: Tensor | None, *call: Any) -> Tensor:
    _check_dtype(x)
    grid = _grid(x, amax, amin, *call)
    out = torch.empty_like(x)  # dense; keeps the strides of a dense x, as the fake function promises
    kernels.fake_quantize(
        as_numpy(with_layout_of(x, out)),
        grid.scale,
        grid.zero_point,
        grid.spec,
        out=writable(out),
        threads=torch.get_num_threads(),
    )
    return out


def _backward_cpu(grad: Tensor, x: Tensor, amax: Tensor, amin: Tensor | None, *call: Any) -> Tensor:
    grid = _grid(x, amax, amin, *call)
    out = torch.empty_like(x, dtype=grad.dtype)
    kernels.fake_quantize_grad(
        as_numpy(with_layout_of(grad, out)),
        as_numpy(with_layout_of(x, out)),
        *grid.bounds,
        grid.spec,
        out=writable(out),
        threads=torch.get_num_threads(),
    )
    return out


# ---- every other device, and compilers: the same formula, composed ----


def _forward_composed(x: Tensor, amax: Tensor, amin: Tensor | None, *call: Any) -> Tensor:
    _check_dtype(x)
    return (kernels_for(x) or fake_quantize_formula).fake_quantize(x, amax, amin, *call)  # type: ignore[no-any-return]


def _backward_composed(grad: Tensor, x: Tensor, amax: Tensor, amin: Tensor | None, *call: Any) -> Tensor:
    run = (kernels_for(x) or fake_quantize_formula).fake_quantize_backward
    return run(grad, x, amax, amin, *call)  # type: ignore[no-any-return]


def _check_dtype(x: Tensor) -> None:
    if x.dtype not in DTYPES:
        raise QuantValueError(
            "x", f"dtype {x.dtype}", f"one of {[str(d) for d in DTYPES]}", "convert it, for example x.float()"
        )


# ---- registration ----


def _decomposition_rule(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the rule by which AOTAutograd replaces the node with the operators of `run`.

    torch.export turns `decompose_custom_triton_ops` off, and keeps the node.
    """

    def dispatch(mode: Any, operator: Any, types: Any, args: tuple[Any, ...], kwargs: Any) -> Tensor:
        if not decomposes_custom_operators():
            return mode.__torch_dispatch__(operator, types, args, kwargs)  # type: ignore[no-any-return]
        with mode:
            return run(*args, work=torch.float64 if args[0].device.type in _BY_TRITON else torch.float32)

    return dispatch


def _quantize_batch(info: Any, dims: Any, x: Tensor, amax: Tensor, amin: Tensor | None, *call: Any) -> Any:
    """Quantize a batch of tensors by one range, as a model that is traced uses `torch.vmap`."""
    format, axis, narrow = call
    if dims[0] is None or any(dim is not None for dim in dims[1:3]):
        raise QuantValueError(
            "fake_quantize in torch.vmap", "a batch of ranges", "one range, and a batch of tensors",
            "calibrate the quantizer, or move it out of torch.vmap",
        )  # fmt: skip
    axes = None if axis is None else [a + 1 for a in axis]
    y = torch.ops.intact.fake_quantize.default(x.movedim(dims[0], 0), amax, amin, format, axes, narrow)
    return y, 0


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, amax, amin, *ctx.call = inputs
    ctx.save_for_backward(x, amax, amin)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grad_x = torch.ops.intact.fake_quantize_backward.default(grad, *ctx.saved_tensors, *ctx.call)
    return grad_x, None, None, None, None, None


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _save(ctx, inputs[1:], output)


def _second_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    # The mask does not depend on the first gradient: differentiating by it applies the mask again.
    return _gradient(ctx, grad)[0], None, None, None, None, None, None


for _name, _cpu, _other, _formula in (
    ("fake_quantize", _forward_cpu, _forward_composed, fake_quantize_formula.fake_quantize),
    (
        "fake_quantize_backward",
        _backward_cpu,
        _backward_composed,
        fake_quantize_formula.fake_quantize_backward,
    ),
):
    torch.library.register_torch_dispatch(
        f"intact::{_name}", FunctionalTensorMode, _decomposition_rule(_formula), lib=_LIB
    )
    _LIB.impl(_name, _cpu, "CPU")  # type: ignore[no-untyped-call]
    _LIB.impl(_name, _other, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]

torch.library.register_fake("intact::fake_quantize", lambda x, *args: torch.empty_like(x), lib=_LIB)
torch.library.register_fake(
    "intact::fake_quantize_backward",
    lambda grad, x, *args: torch.empty_like(x, dtype=grad.dtype),
    lib=_LIB,
)
torch.library.register_vmap("intact::fake_quantize", _quantize_batch, lib=_LIB)
torch.library.register_autograd("intact::fake_quantize", _gradient, setup_context=_save, lib=_LIB)
torch.library.register_autograd(
    "intact::fake_quantize_backward", _second_gradient, setup_context=_save_backward, lib=_LIB
)

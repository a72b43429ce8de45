"""Fake-quantization whose gradient reaches the ends of the range, so that ranges are learned.

Forward is `intact::fake_quantize`, bit for bit, so that a learned range is an ordinary scale for a
checkpoint, a file and the engine. What is stored and learned are the ends of the range, ``amax`` (and
``amin`` of an asymmetric one); the papers learn the step `s` and the offset `b` of the grid with codes n..p:
``amax = p * s + b``, ``amin = n * s + b``. With ``y = fake_quantize(x)`` and g its gradient:

    inside (n * s + b < x < p * s + b):  dy/ds = (y - x) / s   dy/db = 0
    outside:                             dy/ds = (y - b) / s   dy/db = 1     (y is the end that x is beyond)

- "lsq": Esser et al. 2020, equation 3, and the gradient of s times ``1 / sqrt(N * p)``, section 2.2, where N
  counts the features (without the batch) or weights that share s.
- "lsq+": Bhalgat et al. 2020, equations 4 and 5; the same factor for s and b. b is -zero_point * s, a whole
  number of steps, as a file needs it; rounding it passes the gradient straight through.
- "pact": Choi et al. 2018, equation 3: the derivative of the clip alone, by its ends, without a factor.

The gradient that "lsq" and "lsq+" give to the ends is the one with which SGD on the ends, momentum
included, moves s and b exactly as SGD on s and b does: ``grad(amax) = p * grad(s) + grad(b)``. The ends are
in the unit of the tensor whatever the number of bits, so that Adam's steps suit 2 and 8 bits alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from intact import kernels
from intact.calib import Ends, Histogram, range_of
from intact.spec import INT8, Format, QuantSpec
from intact.torch import fake_quantize_formula as formula
from intact.torch.operators import fake_quantize as ops
from intact.torch.private_torch import is_jit_tracing

SMALLEST = 2 * ops.TINY
"""A learned amax below this acts as this: at 2**-24 the scale would jump to 1."""

_CALL = "str format, int[]? axis, bool narrow, str kind, int features"
_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define(f"fake_quantize_learned(Tensor x, Tensor amax, Tensor? amin, {_CALL}) -> Tensor")  # type: ignore[no-untyped-call]
_LIB.define(  # type: ignore[no-untyped-call]
    "fake_quantize_learned_backward(Tensor grad, Tensor x, Tensor y, Tensor amax, Tensor? amin, "
    f"{_CALL}) -> (Tensor, Tensor, Tensor)"
)


def fake_quantize(
    x: Tensor,
    amax: Tensor,
    amin: Tensor | None = None,
    *,
    kind: str,
    format: str = "int8",
    axis: Sequence[int] | None = None,
    narrow: bool = False,
    features: int = 1,
) -> Tensor:
    """Fake-quantize as `ops.fake_quantize`, with a gradient to `amax` and `amin` besides that to `x`.

    Args:
        x, amax, amin, format, axis, narrow: As for `ops.fake_quantize`, an integer format. An `amax` below
            `SMALLEST` acts as `SMALLEST` and an `amin` above 0 as 0; the gradient passes.
        kind: "lsq", "lsq+" or "pact".
        features: N of the gradient's factor; see `features_of`.
    Returns:
        Shape and dtype of `x`.
    Gradient: to `x` strictly between the ends of the grid, as the papers have it; to the ends as this
        module's description says.
    """
    learns = amax.requires_grad or (amin is not None and amin.requires_grad)
    # A graph that leaves PyTorch has the operator that exporters know.
    exported = torch.compiler.is_exporting() or is_jit_tracing()
    if learns and torch.is_grad_enabled() and not exported:
        call = (format, None if axis is None else list(axis), narrow, kind, features)
        return torch.ops.intact.fake_quantize_learned.default(x, amax, amin, *call)  # type: ignore[no-any-return]
    return ops.fake_quantize(x, *usable(amax, amin), format=format, axis=axis, narrow=narrow)


def features_of(x: Tensor, axes: Sequence[int], is_weight: bool) -> int:
    """Return how many features of `x` share a range.

    All weights count, but only one sample of activations [batch, ...].

    Args:
        x: The tensor.
        axes: The axes that keep a range of their own, from the front.
        is_weight: No axis of `x` is a batch.
    """
    shared = [n for a, n in enumerate(x.shape) if a not in axes and (is_weight or a > 0 or x.dim() == 1)]
    return max(math.prod(shared), 1)


def usable(amax: Tensor, amin: Tensor | None) -> tuple[Tensor, Tensor | None]:
    return amax.detach().clamp(min=SMALLEST), None if amin is None else amin.detach().clamp(max=0)


def _forward(x: Tensor, amax: Tensor, amin: Tensor | None, *call: Any) -> Tensor:
    format, axis, narrow, *_ = call
    return ops.fake_quantize(x, *usable(amax, amin), format=format, axis=axis, narrow=narrow)


def _backward(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    amax: Tensor,
    amin: Tensor | None,
    format: str,
    axis: list[int] | None,
    narrow: bool,
    kind: str,
    features: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients to `x`, `amax` and `amin` (zeros where there is none)."""
    amax, amin = usable(amax, amin)
    spec = QuantSpec(Format.parse(format), symmetric=amin is None, narrow=narrow)
    n, p = float(spec.qmin), float(spec.qmax)
    scale, zero_point = ops.scale_and_zero_point(x, amax, amin, format=format, axis=axis, narrow=narrow)
    offset = -zero_point * scale
    terms = (
        _terms if x.device.type == "cpu" and torch.float64 not in (x.dtype, grad.dtype) else _terms_composed
    )
    to_x, inner, outer, shift = terms(grad, x, y, n * scale + offset, p * scale + offset)
    d_step = outer if kind == "pact" else outer + inner
    d_offset = torch.zeros_like(shift) if amin is None else shift
    d_step = (d_step - offset * d_offset) / scale
    if kind == "pact":  # s = (amax - amin) / (p - n), or amax / p
        width = p - n if amin is not None else p
        to_high = (d_step - n * d_offset) / width
        to_low = (p * d_offset - d_step) / width
    else:
        factor = 1 / math.sqrt(features * p)
        to_high, to_low = factor * (p * d_step + d_offset), factor * (n * d_step + d_offset)
    shaped = [end.reshape(amax.shape).to(amax.dtype) for end in (to_high, to_low)]
    return to_x, shaped[0], shaped[1] if amin is not None else torch.zeros_like(amax)


def _terms(grad: Tensor, x: Tensor, y: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, ...]:
    """Compute the gradient to `x`, as dense as `x`, and the three sums for those to the ends.

    The sums are of ``grad * (y - x)`` where low < x < high, and of ``grad * y`` and `grad` elsewhere,
    float64, in the shape of `low`, which broadcasts to `x`.
    """
    out = torch.empty_like(x, dtype=grad.dtype)
    axes = ops.broadcast_axes(low.shape, x.dim())
    granule = [x.shape[a] for a in axes]
    g, real, quantized = (ops.as_numpy(formula.with_layout_of(array, out)) for array in (grad, x, y))
    least, most = (ops.as_numpy(end).reshape(granule) for end in (low, high))
    _, sums = kernels.learned_range_grad(
        g, real, quantized, least, most, QuantSpec(INT8, axis=tuple(axes) or None),
        out=ops.writable(out), threads=torch.get_num_threads(),
    )  # fmt: skip
    return out, *torch.from_numpy(sums).reshape(3, *low.shape).unbind()


def _terms_composed(grad: Tensor, x: Tensor, y: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, ...]:
    """Compute `_terms` on any device, in the dtype of `x` and 32 bits at least."""
    to_x = torch.empty_like(x, dtype=grad.dtype).copy_(torch.where((x > low) & (x < high), grad, 0))
    work = torch.promote_types(x.dtype, torch.float32)
    g, inner, x, y = (t.to(work) for t in (grad, to_x, x, y))
    outer = g - inner
    # Not sum(g * y) - sum(inner * x), which is the same and loses its digits.
    return to_x, _sums(inner, y - x, low), _sums(outer, y, low), _sums(outer, None, low)


def _sums(a: Tensor, b: Tensor | None, like: Tensor) -> Tensor:
    """Sum ``a * b`` (or `a`) over the axes along which `like` has size 1, in its shape."""
    if like.numel() > 1:
        product = a if b is None else a * b
        return product.sum([d for d, size in enumerate(like.shape) if size == 1], keepdim=True)
    if b is None:
        return a.sum().reshape(like.shape)
    # In the order of memory, so that nothing is copied.
    order = sorted(range(a.dim()), key=a.stride().__getitem__, reverse=True)
    return torch.dot(a.permute(order).reshape(-1), b.permute(order).reshape(-1)).reshape(like.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, amax, amin, *ctx.call = inputs
    ctx.save_for_backward(x, output, amax, amin)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    backward = torch.ops.intact.fake_quantize_learned_backward.default
    to_x, to_high, to_low = backward(grad, *ctx.saved_tensors, *ctx.call)
    has_low = ctx.saved_tensors[3] is not None
    return to_x, to_high, to_low if has_low else None, None, None, None, None, None


for _name, _run in (("fake_quantize_learned", _forward), ("fake_quantize_learned_backward", _backward)):
    _LIB.impl(_name, _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]

torch.library.register_fake("intact::fake_quantize_learned", lambda x, *args: torch.empty_like(x), lib=_LIB)
torch.library.register_fake(
    "intact::fake_quantize_learned_backward",
    lambda grad, x, y, amax, amin, *call: (
        torch.empty_like(x, dtype=grad.dtype),
        torch.empty_like(amax),
        torch.empty_like(amax),
    ),
    lib=_LIB,
)
torch.library.register_autograd("intact::fake_quantize_learned", _gradient, setup_context=_save, lib=_LIB)


# ---- where to start ----


def start(x: Tensor, spec: QuantSpec, kind: str, is_weight: bool) -> Ends | None:
    """Return the range at which the paper of `kind` starts to learn; None where it is the calibrated one.

    Args:
        x: The weight, or the activations of the first batch; any device.
        spec: Grid and granularity.
        kind: "lsq": step ``2 * mean|x| / sqrt(p)``. "lsq+": for a symmetric grid of a weight the step
            ``max(|mean - 3 std|, |mean + 3 std|) / 2**(bits - 1)``; for other symmetric grids as "lsq"; for
            an asymmetric grid the range of least mean squared error. "pact": calibrated.
        is_weight: `x` is a weight.
    Returns:
        Low and high end, float32, in the granule shape of `spec`; low is -high for a symmetric grid.
    Source: Esser et al. 2020, section 2.1; Bhalgat et al. 2020, section 3.2.
    """
    x = x.detach()
    if kind == "pact":
        return None
    if not spec.symmetric:
        return _least_squares(x, spec)
    kept_axes = ops.positive_axes(spec.axis, x.dim())
    reduced = [a for a in range(x.dim()) if a not in kept_axes]
    work = x.to(torch.promote_types(x.dtype, torch.float32))
    if kind == "lsq+" and is_weight:
        mean, three = work.mean(reduced), 3 * work.std(reduced, correction=0)
        step = torch.maximum((mean - three).abs(), (mean + three).abs()) / 2 ** (spec.format.bits - 1)
    else:
        step = 2 * work.abs().mean(reduced) / math.sqrt(spec.qmax)
    high = (step * spec.qmax).to("cpu", torch.float32).clamp(min=SMALLEST).numpy()
    return -high, high


def _least_squares(x: Tensor, spec: QuantSpec) -> Ends:
    histogram = Histogram(spec.axis)  # type: ignore[arg-type]
    histogram.collect(ops.as_numpy(x.to("cpu", torch.float32)), threads=torch.get_num_threads())
    return range_of(histogram, spec, "mse")

"""Makers of the native steps that compute in floats, and of the product of two tensors of codes.

Each returns a step for `Program.add`. A tensor of floats is float32, or bytes with the scale and the zero
point that make them floats: bytes are dequantized on the way in (N12) and quantized on the way out (N11).
Views may lie in any order and broadcast (strides of 0). Makers raise ValueError for what is unsafe to
run (csrc/base/check.h); they are called by `intact.engine.cpu.steps`, which knows what fits.
"""

from __future__ import annotations

from dataclasses import dataclass

from intact.kernels import _native
from intact.kernels.epilogue import BoundEpilogue
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen

REALS, MATMUL, FAKE_QUANTIZE = "float_steps", "matmul", "fake_quantize"
TRANSPOSE, REDUCE = "transpose", "reduce"


@dataclass(frozen=True)
class Real:
    """A tensor of floats.

    Attributes:
        view: float32, or uint8.
        scale, zero: A byte means ``(byte - zero) * scale``.
        low, high: Bounds of the bytes that are written.
    """

    view: View
    scale: float = 1.0
    zero: int = 0
    low: int = 0
    high: int = 255

    def read(self) -> _native.RealIn:
        """As native code takes an input."""
        return _native.RealIn(self.view, self.zero, self.scale)

    def written(self) -> _native.RealOut:
        """As native code takes an output."""
        return _native.RealOut(self.view, self.scale, (self.zero, self.low, self.high))


def functions(kernels: Kernels | None = None) -> list[str]:
    """Names of the functions of one real: those of `numerics.FUNCTIONS`."""
    return _native.real_functions(kernels_or_chosen(kernels)[REALS])


def smooth_functions(kernels: Kernels | None = None) -> dict[str, list[float]]:
    """Functions whose codes kernels may tell by bounds, and what those rest upon.

    Returns:
        By name: bounds of the fifth derivative, of the error as a share of ``max(1, |value|)``, of the slope
        and of that below -2; and the magnitude below which the function is 0, or 0.
    """
    return _native.smooth_functions(kernels_or_chosen(kernels)[REALS])


def function(x: Real, y: Real, name: str, kernels: Kernels | None = None) -> NativeStep:
    """``y = name(x)``, one of `functions` (N38). y may be the memory of x where both have one dtype."""
    k = kernels_or_chosen(kernels)
    return _native.step_function(k[REALS], k[TRANSPOSE], x.read(), y.written(), name)


def clip(x: Real, y: Real, low: float, high: float, kernels: Kernels | None = None) -> NativeStep:
    """``y = min(max(x, low), high)`` (N49). y may be the memory of x where both have one dtype."""
    k = kernels_or_chosen(kernels)
    return _native.step_clip(k[REALS], k[TRANSPOSE], x.read(), y.written(), low, high)


def fake_quantize(
    x: Real, y: Real, scale: float, low: int, high: int, kernels: Kernels | None = None
) -> NativeStep:
    """The nearest ``n * scale``, n a whole number from `low` to `high`, at most 65535 from 0 (N56).

    y may be the memory of x where both have one dtype.
    """
    k = kernels_or_chosen(kernels)
    return _native.step_fake_quantize(
        k[REALS], k[TRANSPOSE], k[FAKE_QUANTIZE], x.read(), y.written(), scale, low, high
    )


def binary(a: Real, b: Real, y: Real, name: str, kernels: Kernels | None = None) -> NativeStep:
    """``y = a (add | sub | mul | div | max | min | slope) b``; the views have the sizes of y."""
    k = kernels_or_chosen(kernels)
    return _native.step_binary(k[REALS], k[TRANSPOSE], a.read(), b.read(), y.written(), name)


def softmax(
    x: Real, y: Real, gain: float = 1.0, mask: Real | None = None, kernels: Kernels | None = None
) -> NativeStep:
    """Along the last axis of the views (N40); `mask` has the sizes of x."""
    k, hidden = kernels_or_chosen(kernels), None if mask is None else mask.read()
    return _native.step_softmax(k[REALS], k[TRANSPOSE], x.read(), y.written(), gain, hidden)


def reduce(x: Real, y: Real, function: str, kernels: Kernels | None = None) -> NativeStep:
    """One number ("sum", "mean") along those last axes of x that y does not have (N50)."""
    k = kernels_or_chosen(kernels)
    return _native.step_reduce(k[REALS], k[REDUCE], k[TRANSPOSE], x.read(), y.written(), function)


def layer_norm(
    x: Real,
    y: Real,
    epsilon: float,
    *,
    weight: View | None = None,
    bias: View | None = None,
    residual: Real | None = None,
    codes: Real | None = None,
    factors: View | None = None,
    kernels: Kernels | None = None,
) -> NativeStep:
    """Over the last axis of the views, of x + residual (N41); `weight` and `bias` are float32 [n].

    Where y is float32, `codes` may be a second output: bytes, of y or of ``y * factors``, float32 [n].
    """
    k, other = kernels_or_chosen(kernels), None if residual is None else residual.read()
    also = None if codes is None else codes.written()
    return _native.step_layer_norm(
        k[REALS], k[TRANSPOSE], x.read(), y.written(), epsilon, other, weight, bias, also, factors
    )


@dataclass(frozen=True)
class Product:
    """``[..., i, k]`` by ``[..., k, j]``, both bytes, leading sizes those of y (N19, N22, N25).

    Attributes:
        a, b: Only their zero points count; the scales are part of the multiplier.
        y: Bytes, or float32.
        epilogue: Its multiplier is M of N21; bounds, and nothing else.
    """

    a: Real
    b: Real
    y: Real
    epilogue: BoundEpilogue

    def spec(self) -> _native.MatMulSpec:
        """As native code takes it."""
        zeros = self.a.zero, self.b.zero
        return _native.MatMulSpec(self.a.view, self.b.view, self.y.view, zeros, self.epilogue.native)


def matmul(product: Product, kernels: Kernels | None = None) -> NativeStep:
    """A product of two tensors of codes."""
    return _native.step_matmul(kernels_or_chosen(kernels)[MATMUL], product.spec())


def attention(
    scores: Product,
    product: Product,
    *,
    gain: float = 1.0,
    mask: Real | None = None,
    kernels: Kernels | None = None,
) -> NativeStep:
    """``softmax(scores * gain + mask)``, as codes, times values: the bits of three steps.

    Args:
        scores: Its `y` says what the scores are: only sizes, dtype and grid of that view count.
        product: Its `a` says the grid of the probabilities: of that view only the sizes count.
        gain, mask: As for `softmax`.
    """
    k, p = kernels_or_chosen(kernels), product.a
    hidden = None if mask is None else mask.read()
    return _native.step_attention(
        k[MATMUL],
        k[REALS],
        scores.spec(),
        scores.y.scale,
        gain,
        hidden,
        p.scale,
        (p.zero, p.low, p.high),
        product.spec(),
    )

"""Makers of native steps in floats, and of products of two tensors of codes.

Each returns a step for `Program.add`. A tensor of floats is float32, or bytes with a scale and a zero point.
A step dequantizes bytes that it reads (N12), and quantizes bytes that it writes (N11). Views may have any
order of axes and broadcast (strides of 0). Makers raise ValueError for a step that is unsafe to run
(csrc/base/check.h).
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
        """Return the record of an input for native code."""
        return _native.RealIn(self.view, self.zero, self.scale)

    def write(self) -> _native.RealOut:
        """Return the record of an output for native code."""
        return _native.RealOut(self.view, self.scale, (self.zero, self.low, self.high))


def functions(kernels: Kernels | None = None) -> list[str]:
    """Return the names of the functions of one float, those of `numerics.FUNCTIONS`."""
    return _native.real_functions(kernels_or_chosen(kernels)[REALS])


def smooth_functions(kernels: Kernels | None = None) -> dict[str, list[float]]:
    """Return the functions whose codes kernels compute by bounds, and the constants of those bounds.

    Returns:
        By name: bounds of the fifth derivative, of the error as a share of ``max(1, |value|)``, of the slope
        and of that below -2; and the magnitude below which the function is 0, or 0.
    """
    return _native.smooth_functions(kernels_or_chosen(kernels)[REALS])


def function(x: Real, y: Real, name: str, kernels: Kernels | None = None) -> NativeStep:
    """Make the step ``y = name(x)``, one of `functions` (N38).

    y may be the memory of x where both have one dtype.
    """
    k = kernels_or_chosen(kernels)
    return _native.step_function(k[REALS], k[TRANSPOSE], x.read(), y.write(), name)


def clip(x: Real, y: Real, low: float, high: float, kernels: Kernels | None = None) -> NativeStep:
    """Make the step ``y = min(max(x, low), high)`` (N49).

    y may be the memory of x where both have one dtype.
    """
    k = kernels_or_chosen(kernels)
    return _native.step_clip(k[REALS], k[TRANSPOSE], x.read(), y.write(), low, high)


def fake_quantize(
    x: Real, y: Real, scale: float, low: int, high: int, kernels: Kernels | None = None
) -> NativeStep:
    """Make the step for the nearest ``n * scale``, n an integer in [low, high], at most 65535 from 0 (N56).

    y may be the memory of x where both have one dtype.
    """
    k = kernels_or_chosen(kernels)
    return _native.step_fake_quantize(
        k[REALS], k[TRANSPOSE], k[FAKE_QUANTIZE], x.read(), y.write(), scale, low, high
    )


def binary(a: Real, b: Real, y: Real, name: str, kernels: Kernels | None = None) -> NativeStep:
    """Make the step ``y = a (add | sub | mul | div | max | min | slope) b``.

    The views have the sizes of y.
    """
    k = kernels_or_chosen(kernels)
    return _native.step_binary(k[REALS], k[TRANSPOSE], a.read(), b.read(), y.write(), name)


def softmax(
    x: Real, y: Real, gain: float = 1.0, mask: Real | None = None, kernels: Kernels | None = None
) -> NativeStep:
    """Make the step for softmax along the last axis of the views (N40); `mask` has the sizes of x."""
    k, hidden = kernels_or_chosen(kernels), None if mask is None else mask.read()
    return _native.step_softmax(k[REALS], k[TRANSPOSE], x.read(), y.write(), gain, hidden)


def reduce(x: Real, y: Real, function: str, kernels: Kernels | None = None) -> NativeStep:
    """Reduce the last axes of x, which y lacks, by one of `numerics.floats.reduce.REDUCTIONS` (N50)."""
    k = kernels_or_chosen(kernels)
    return _native.step_reduce(k[REALS], k[REDUCE], k[TRANSPOSE], x.read(), y.write(), function)


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
    """Make the step for layer normalization of x + residual over the last axis of the views (N41).

    Args:
        x, y: Input and output.
        epsilon: Added to the variance.
        weight, bias, factors: float32 [n].
        residual: Sizes of x.
        codes: A second output, where y is float32: bytes of y, or of ``y * factors``.
        kernels: The kernel of each family.
    """
    k, added = kernels_or_chosen(kernels), None if residual is None else residual.read()
    second = None if codes is None else codes.write()
    return _native.step_layer_norm(
        k[REALS], k[TRANSPOSE], x.read(), y.write(), epsilon, added, weight, bias, second, factors
    )


@dataclass(frozen=True)
class Product:
    """A product of codes ``[..., i, k]`` and ``[..., k, j]``, with leading sizes of y (N19, N22, N25).

    Attributes:
        a, b: Operands; their scales are not used, as they are part of the multiplier.
        y: Bytes, or float32.
        epilogue: The multiplier M of N21, and bounds.
    """

    a: Real
    b: Real
    y: Real
    epilogue: BoundEpilogue

    def spec(self) -> _native.MatMulSpec:
        """Return the record for native code."""
        zeros = self.a.zero, self.b.zero
        return _native.MatMulSpec(self.a.view, self.b.view, self.y.view, zeros, self.epilogue.native)


def matmul(product: Product, kernels: Kernels | None = None) -> NativeStep:
    """Make a product of two tensors of codes."""
    return _native.step_matmul(kernels_or_chosen(kernels)[MATMUL], product.spec())


def attention(
    scores: Product,
    product: Product,
    *,
    gain: float = 1.0,
    mask: Real | None = None,
    kernels: Kernels | None = None,
) -> NativeStep:
    """Make the step ``softmax(scores * gain + mask)``, as codes, times values, with the bits of three steps.

    Args:
        scores: The product that gives the scores; of its `y` only sizes, dtype and grid are used.
        product: The product with the values; of its `a` only sizes and the grid of the probabilities are
            used.
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

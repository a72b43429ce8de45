"""The bare quantization functions of `pytorch_quantization.tensor_quant`, and the predefined descriptors.

Codes and floats follow docs/numerics.md: true division by ``scale = amax / qmax``. The old library multiplied
by ``qmax / amax``: its codes differ within a few ulp of a tie, its floats by 1 ulp. What it calls "scale" is
that inverse, and `tensor_quant` returns it.

Where amax is at or below 2**-24 these functions return zeros, as the library did (`TensorQuantizer`, the
exported file and the engine use scale 1 there instead).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function

from intact.errors import QuantValueError, UnsupportedError
from intact.spec import Format, QuantSpec
from intact.torch import fake_quantize_formula as formula
from intact.torch._errors import NotOfferedError
from intact.torch.descriptor import (
    FLOAT_FORMATS,
    QuantDescriptor,
    ScaledQuantDescriptor,
    float_formats,
    format_name,
)
from intact.torch.operators import fake_quantize as ops

__all__ = [
    "FakeAffineTensorQuantFunction",
    "FakeTensorQuantFunction",
    "LegacyFakeTensorQuantFunction",
    "QUANT_DESC_8BIT_CONV1D_WEIGHT_PER_CHANNEL",
    "QUANT_DESC_8BIT_CONV2D_WEIGHT_PER_CHANNEL",
    "QUANT_DESC_8BIT_CONV3D_WEIGHT_PER_CHANNEL",
    "QUANT_DESC_8BIT_CONVTRANSPOSE1D_WEIGHT_PER_CHANNEL",
    "QUANT_DESC_8BIT_CONVTRANSPOSE2D_WEIGHT_PER_CHANNEL",
    "QUANT_DESC_8BIT_CONVTRANSPOSE3D_WEIGHT_PER_CHANNEL",
    "QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW",
    "QUANT_DESC_8BIT_PER_TENSOR",
    "QUANT_DESC_UNSIGNED_8BIT_PER_TENSOR",
    "QuantDescriptor",
    "ScaledE4M3Function",
    "ScaledQuantDescriptor",
    "TensorQuantFunction",
    "fake_affine_tensor_quant",
    "fake_tensor_quant",
    "legacy_fake_tensor_quant",
    "scaled_e4m3",
    "tensor_quant",
]

QUANT_DESC_8BIT_PER_TENSOR = QuantDescriptor(num_bits=8)
QUANT_DESC_UNSIGNED_8BIT_PER_TENSOR = QuantDescriptor(num_bits=8, unsigned=True)
QUANT_DESC_8BIT_CONV1D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=0)
QUANT_DESC_8BIT_CONV2D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=0)
QUANT_DESC_8BIT_CONV3D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=0)
QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW = QuantDescriptor(num_bits=8, axis=0)
QUANT_DESC_8BIT_CONVTRANSPOSE1D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=1)
QUANT_DESC_8BIT_CONVTRANSPOSE2D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=1)
QUANT_DESC_8BIT_CONVTRANSPOSE3D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=1)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_HALF_MAX = torch.finfo(torch.float16).max


class TensorQuantFunction(Function):
    """Quantize to codes; see `tensor_quant`."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        amax: Tensor,
        num_bits: int = 8,
        unsigned: bool = False,
        narrow_range: bool = True,
    ) -> tuple[Tensor, Tensor]:
        _require_switches(unsigned, narrow_range)
        amax = _tensor(amax)
        if unsigned:
            amax = refuse_negative(inputs, amax)
        format = format_name(num_bits, unsigned)
        _save(ctx, inputs, amax, format, narrow_range)
        scale = formula.inverse_scale(amax, QuantSpec(Format.parse(format), narrow=narrow_range))
        if inputs.dtype == torch.float16 and ops.is_readable(scale) and float(scale.max()) > _HALF_MAX:
            raise QuantValueError(
                "tensor_quant",
                f"scale is too large for FP16 with amax={float(amax.min()):.4g}",
                f"qmax / amax at most {_HALF_MAX:.0f}",
                "quantize in float32, inputs.float()",
            )
        codes = ops.quantize(inputs, amax, format=format, narrow=narrow_range)
        return _zero_where_tiny(codes, amax), scale.to(inputs.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return _mask_gradient(ctx, grad), None, None, None, None


class FakeTensorQuantFunction(Function):
    """Quantize and dequantize; see `fake_tensor_quant`."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        amax: Tensor,
        num_bits: int = 8,
        unsigned: bool = False,
        narrow_range: bool = True,
    ) -> Tensor:
        _require_switches(unsigned, narrow_range)
        amax = _tensor(amax)
        if unsigned:
            amax = refuse_negative(inputs, amax)
        format = format_name(num_bits, unsigned)
        _save(ctx, inputs, amax, format, narrow_range)
        return _zero_where_tiny(ops.fake_quantize(inputs, amax, format=format, narrow=narrow_range), amax)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _mask_gradient(ctx, grad), None, None, None, None


class LegacyFakeTensorQuantFunction(FakeTensorQuantFunction):
    """The same function under the name of the old library's Python reference."""


class FakeAffineTensorQuantFunction(Function):
    """Quantize and dequantize with a zero point; see `fake_affine_tensor_quant`."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, min_range: Tensor, max_range: Tensor, num_bits: int = 8) -> Tensor:
        low, high = _tensor(min_range), _tensor(max_range)
        format = format_name(num_bits, False)
        _save(ctx, inputs, high, format, False, low)
        return ops.fake_quantize(inputs, high, low, format=format)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _mask_gradient(ctx, grad), None, None, None


class ScaledE4M3Function(Function):
    """FP8 quantize and dequantize; see `scaled_e4m3`."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, amax: Tensor | None = None, E: int = 4, M: int = 3) -> Tensor:
        if (E, M) not in float_formats():
            offered = " or ".join(f"E={e}, M={m}" for e, m in float_formats())
            raise NotOfferedError("scaled_e4m3", f"E={E}, M={M}", offered, "choose a format that is offered")
        format = FLOAT_FORMATS[E, M]
        # Without amax the values are cast as they are: the range whose scale is 1.
        high = _tensor(Format.parse(format).qmax if amax is None else amax)
        ctx.cast_only = amax is None
        _save(ctx, inputs, high, format, False)
        return _zero_where_tiny(ops.fake_quantize(inputs, high, format=format), high)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad if ctx.cast_only else _mask_gradient(ctx, grad), None, None, None


def _in_either_order(function: _Function) -> _Function:
    """Let a function also be called as the library's guide lists it: ``output_dtype`` in front of
    ``unsigned``.
    """

    @functools.wraps(function)
    def in_either_order(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 3 and isinstance(args[3], torch.dtype):
            kwargs["output_dtype"], args = args[3], (*args[:3], *args[4:])
        return function(*args, **kwargs)

    return in_either_order  # type: ignore[return-value]


def _require_switches(unsigned: Any, narrow_range: Any) -> None:
    for name, value in (("unsigned", unsigned), ("narrow_range", narrow_range)):
        if not isinstance(value, bool) and (not isinstance(value, int) or value not in (0, 1)):
            raise QuantValueError(
                name, f"{value!r:.60}", "True or False", "name the arguments behind num_bits"
            )


def _to_dtype(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    return x if dtype is None else x.to(dtype)


@_in_either_order
def tensor_quant(
    inputs: Tensor, amax: Tensor, num_bits: int = 8, unsigned: bool = False, narrow_range: bool = True, *,
    output_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Quantize `inputs` to codes, kept in the dtype of `inputs`.

    Args:
        inputs: Reals of any shape.
        amax: Largest magnitude, any shape that broadcasts to `inputs`.
        num_bits: Width of a code.
        unsigned: True: codes 0 .. 2**num_bits - 1.
        narrow_range: True: signed codes start at -(2**(num_bits - 1) - 1).
        output_dtype: Of the codes; a float type is that of the scale, too. None: that of `inputs`. It may
            also stand in the fourth place, as older versions of the library have it.
    Returns:
        The codes, and ``qmax / amax`` in the shape of `amax`: the old library's "scale", its inverse here.
    Raises:
        UnsupportedError: (a TypeError) Negative values in unsigned quantization.
        QuantValueError: (a ValueError) A negative amax, or a scale beyond float16 for float16 inputs.
    """
    codes, scale = TensorQuantFunction.apply(  # type: ignore[no-untyped-call]
        inputs, amax, num_bits, unsigned, narrow_range
    )
    is_real = output_dtype is not None and output_dtype.is_floating_point
    return _to_dtype(codes, output_dtype), _to_dtype(scale, output_dtype if is_real else None)


@_in_either_order
def fake_tensor_quant(
    inputs: Tensor, amax: Tensor, num_bits: int = 8, unsigned: bool = False, narrow_range: bool = True, *,
    output_dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """Quantize and dequantize `inputs`, in their dtype; arguments and errors as for `tensor_quant`."""
    values = FakeTensorQuantFunction.apply(  # type: ignore[no-untyped-call]
        inputs, amax, num_bits, unsigned, narrow_range
    )
    return _to_dtype(values, output_dtype)


@_in_either_order
def legacy_fake_tensor_quant(
    inputs: Tensor, amax: Tensor, num_bits: int = 8, unsigned: bool = False, narrow_range: bool = True, *,
    output_dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """Run `fake_tensor_quant` under its older name."""
    values = LegacyFakeTensorQuantFunction.apply(  # type: ignore[no-untyped-call]
        inputs, amax, num_bits, unsigned, narrow_range
    )
    return _to_dtype(values, output_dtype)


def fake_affine_tensor_quant(
    inputs: Tensor, min_range: Tensor, max_range: Tensor, num_bits: int = 8
) -> Tensor:
    """Quantize and dequantize over [min_range, max_range], widened to contain 0, with a zero point.

    Args:
        inputs: Reals of any shape.
        min_range, max_range: Ends of the range, numbers or tensors that broadcast to `inputs`.
        num_bits: Width of a code.
    Returns:
        Shape and dtype of `inputs`. The gradient passes where the grid reaches the value.
    """
    return FakeAffineTensorQuantFunction.apply(  # type: ignore[no-any-return,no-untyped-call]
        inputs, min_range, max_range, num_bits
    )


def scaled_e4m3(inputs: Tensor, amax: Tensor | None = None, E: int = 4, M: int = 3) -> Tensor:
    """Quantize and dequantize to FP8: E4M3, or E5M2 with ``E=5, M=2``.

    Args:
        inputs: Reals of any shape.
        amax: Largest magnitude, laid onto the format's largest number (448 or 57344); None: cast as they are.
        E, M: Bits of exponent and mantissa.
    Raises:
        NotOfferedError: (a NotImplementedError and TypeError) Any other E and M.
    """
    return ScaledE4M3Function.apply(inputs, amax, E, M)  # type: ignore[no-any-return,no-untyped-call]


def refuse_negative(inputs: Tensor, amax: Tensor) -> Tensor:
    """Return the range for `inputs` on an unsigned grid, and refuse negative values, which it would clip.

    Returns:
        `amax`. Where looking at values would wait for a device and one is negative: NaN, and so is what it
        quantizes. There is nothing to look at while a graph is traced.
    Raises:
        UnsupportedError: A value is negative.
    """
    if ops.is_tracing() or not inputs.numel():
        return amax
    smallest = ops.min_max(inputs)[0]
    if not ops.is_readable(smallest):
        return torch.where(smallest < 0, math.nan, amax.to(smallest.device))
    if smallest < 0:
        raise UnsupportedError(
            "inputs",
            f"Negative values encountered in unsigned quantization: {float(smallest):.6g}",
            "values >= 0",
            "quantize with unsigned=False, or put the quantizer behind the ReLU",
        )
    return amax


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float32)


def _zero_where_tiny(result: Tensor, amax: Tensor) -> Tensor:
    tiny = amax <= ops.TINY
    if ops.is_readable(tiny) and not bool(tiny.any()):
        return result
    return torch.where(tiny, torch.zeros_like(result), result)


def _save(
    ctx: Any, inputs: Tensor, high: Tensor, format: str, narrow: bool, low: Tensor | None = None
) -> None:
    ctx.save_for_backward(inputs, high, low)
    ctx.call = (format, ops.broadcast_axes(high.shape, inputs.dim()) or None, narrow)


def _mask_gradient(ctx: Any, grad: Tensor) -> Tensor:
    inputs, high, low = ctx.saved_tensors
    backward = torch.ops.intact.fake_quantize_backward.default
    return backward(grad, inputs, high, low, *ctx.call)  # type: ignore[no-any-return]

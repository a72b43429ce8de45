"""Records of element-wise functions of one tensor, each with its definition in float64.

Tables are formed of these, and activations that exporters write as several nodes are known by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.graph.ops.function_record import Function, Variant, Variants

Curve = NDArray[Any]
Reals = NDArray[np.float32]
_erf = np.vectorize(math.erf, otypes=[np.float64])


class Activation(Function, shared=True):
    """A function that engines fuse with the weighted layer in front of it."""

    fuses: ClassVar[bool] = True


class Abs(Function):
    exact: ClassVar[bool] = True

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.abs(x))


@dataclass(frozen=True)
class Celu(Function):
    alpha: float = 1.0

    def curve(self, x: Any) -> Curve:
        below = self.alpha * np.expm1(np.minimum(x, 0) / self.alpha)
        return np.asarray(np.maximum(x, 0) + np.minimum(0, below))


@dataclass(frozen=True)
class Clip(Function):
    """Inputs: data, low, high. `min` and `max` are its ends before opset 11."""

    composes: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    min: float | None = None
    max: float | None = None

    def curve(self, x: Any, low: Any = -np.inf, high: Any = np.inf) -> Curve:
        ends = low if self.min is None else self.min, high if self.max is None else self.max
        return np.asarray(np.clip(x, *ends))


@dataclass(frozen=True)
class Elu(Activation):
    variants: ClassVar[Variants] = (Variant("elu", {"alpha": 1.0}, torch=("elu",)),)
    alpha: float = 1.0

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.where(x > 0, x, self.alpha * np.expm1(np.minimum(x, 0))))

    def compute(self, x: Reals) -> Reals:
        curve = numerics.FUNCTIONS["elu"](x)
        return curve if self.step else numerics.apply_slope(curve, np.float32(self.alpha))


class Erf(Function):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (Variant("erf", torch=("erf",), of_integers=True),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(_erf(x))


class Exp(Function):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (Variant("exp", torch=("exp",), of_integers=True),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.exp(x))


@dataclass(frozen=True)
class Gelu(Activation):
    variants: ClassVar[Variants] = (
        Variant(
            "gelu", {"approximate": "none"}, torch=("gelu",), models=("gelu", "gelu_python"), composed=True
        ),
        Variant(
            "gelu_tanh", {"approximate": "tanh"}, name="Gelu(tanh)", torch=("gelu",),
            torch_keywords={"approximate": "tanh"}, composed=True,
            models=("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu_python_tanh"),
        ),
    )  # fmt: skip
    approximate: str = "none"

    @property
    def display_name(self) -> str:
        """The two forms are two functions."""
        return "Gelu" if self.approximate == "none" else f"Gelu({self.approximate})"

    def curve(self, x: Any) -> Curve:
        if self.approximate == "none":
            return np.asarray(x * 0.5 * (1 + _erf(x / np.sqrt(2.0))))
        return np.asarray(x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


@dataclass(frozen=True)
class HardSigmoid(Activation):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (
        Variant("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}, torch=("hardsigmoid",), composed=True),
    )
    alpha: float = 0.2
    beta: float = 0.5

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.clip(self.alpha * x + self.beta, 0, 1))

    def compute(self, x: Reals) -> Reals | None:
        if self.step:
            return super().compute(x)
        line = x * np.float32(self.alpha) + np.float32(self.beta)
        return np.asarray(np.clip(line, np.float32(0), np.float32(1)))


class HardSwish(Activation):
    variants: ClassVar[Variants] = (Variant("hard_swish", torch=("hardswish",), composed=True),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(x * np.clip(x / 6 + 0.5, 0, 1))


@dataclass(frozen=True)
class IsInf(Function):
    exact: ClassVar[bool] = True
    detect_negative: int = 1
    detect_positive: int = 1


@dataclass(frozen=True)
class LeakyRelu(Activation):
    variants: ClassVar[Variants] = (Variant("leaky_relu", {"alpha": 0.01}),)
    exact: ClassVar[bool] = True
    alpha: float = 0.01

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.where(x < 0, self.alpha * x, x))

    def compute(self, x: Reals) -> Reals:
        return numerics.apply_slope(x, np.float32(self.alpha))


class Log(Function):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (Variant("log", torch=("log",), of_integers=True),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.log(x))


class Mish(Activation):
    not_fused_by: ClassVar[frozenset[str]] = frozenset({"tensorrt"})
    variants: ClassVar[Variants] = (Variant("mish", torch=("mish",), models=("mish",), composed=True),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(x * np.tanh(np.logaddexp(x, 0)))


class Neg(Function):
    composes: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def curve(self, x: Any) -> Curve:
        return np.asarray(-x)


class PRelu(Activation):
    """Inputs: data, slope."""

    not_fused_by: ClassVar[frozenset[str]] = frozenset({"tensorrt"})
    exact: ClassVar[bool] = True

    def curve(self, x: Any, slope: Any) -> Curve:
        return np.asarray(np.where(x < 0, slope * x, x))


class Relu(Function):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (Variant("relu", models=("relu",)),)
    exact: ClassVar[bool] = True

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.maximum(x, 0))


@dataclass(frozen=True)
class Selu(Activation):
    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805

    def curve(self, x: Any) -> Curve:
        return np.asarray(self.gamma * np.where(x > 0, x, self.alpha * np.expm1(np.minimum(x, 0))))


class Sigmoid(Activation):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (
        Variant("sigmoid", torch=("sigmoid", "expit"), of_integers=True, models=("sigmoid",)),
    )

    def curve(self, x: Any) -> Curve:
        return np.asarray(1 / (1 + np.exp(-x)))


class Softplus(Activation):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (Variant("softplus", torch=("softplus",), composed=True),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.logaddexp(x, 0))


class Softsign(Activation):
    variants: ClassVar[Variants] = (Variant("softsign"),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(x / (1 + np.abs(x)))


class Sqrt(Function):
    variants: ClassVar[Variants] = (Variant("sqrt", torch=("sqrt",), of_integers=True),)
    exact: ClassVar[bool] = True

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.sqrt(x))


@dataclass(frozen=True)
class Swish(Activation):
    variants: ClassVar[Variants] = (
        Variant(
            "silu", {"alpha": 1.0}, name="Silu", torch=("silu",), models=("silu", "swish"), composed=True
        ),
        Variant("quick_gelu", {"alpha": 1.702}, name="QuickGelu", models=("quick_gelu",), composed=True),
    )
    alpha: float = 1.0

    def curve(self, x: Any) -> Curve:
        return np.asarray(x / (1 + np.exp(-self.alpha * x)))


class Tanh(Activation):
    composes: ClassVar[bool] = True
    variants: ClassVar[Variants] = (Variant("tanh", torch=("tanh",), of_integers=True, models=("tanh",)),)

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.tanh(x))


@dataclass(frozen=True)
class ThresholdedRelu(Function):
    exact: ClassVar[bool] = True
    alpha: float = 1.0

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.where(x > self.alpha, x, 0))


class FloatFunction(Function, shared=True):
    """Computed in floats, without a curve for a table of codes.

    None counts as exact, not even the roundings: quantized files name all as float steps.
    """


class Acos(FloatFunction):
    variants: ClassVar[Variants] = (Variant("acos", torch=("acos", "arccos"), of_integers=True),)


class Acosh(FloatFunction):
    variants: ClassVar[Variants] = (Variant("acosh", torch=("acosh", "arccosh"), of_integers=True),)


class Asin(FloatFunction):
    variants: ClassVar[Variants] = (Variant("asin", torch=("asin", "arcsin"), of_integers=True),)


class Asinh(FloatFunction):
    variants: ClassVar[Variants] = (Variant("asinh", torch=("asinh", "arcsinh"), of_integers=True),)


class Atan(FloatFunction):
    variants: ClassVar[Variants] = (Variant("atan", torch=("atan", "arctan"), of_integers=True),)


class Atanh(FloatFunction):
    variants: ClassVar[Variants] = (Variant("atanh", torch=("atanh", "arctanh"), of_integers=True),)


class Ceil(FloatFunction):
    pass


class Cos(FloatFunction):
    variants: ClassVar[Variants] = (Variant("cos", torch=("cos",), of_integers=True),)


class Cosh(FloatFunction):
    variants: ClassVar[Variants] = (Variant("cosh", torch=("cosh",), of_integers=True),)


class Floor(FloatFunction):
    pass


class Reciprocal(FloatFunction):
    pass


class Round(FloatFunction):
    """To the nearest, ties to even."""


class Sign(FloatFunction):
    pass


class Sin(FloatFunction):
    variants: ClassVar[Variants] = (Variant("sin", torch=("sin",), of_integers=True),)


class Sinh(FloatFunction):
    variants: ClassVar[Variants] = (Variant("sinh", torch=("sinh",), of_integers=True),)


class Tan(FloatFunction):
    pass

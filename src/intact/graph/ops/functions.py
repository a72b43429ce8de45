"""Records of element-wise functions of one tensor, each with its definition in float64.

Tables are formed of these, and activations that exporters write as several nodes are known by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact.graph.ops.record import Kind, Operator

Curve = NDArray[Any]
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True)
class Function(Operator, shared=True):
    """Function of the first input; the others, if any, are its parameters."""

    kind: ClassVar[Kind] = "function"


@dataclass(frozen=True)
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

    exact: ClassVar[bool] = True
    min: float | None = None
    max: float | None = None

    def curve(self, x: Any, low: Any = -np.inf, high: Any = np.inf) -> Curve:
        ends = low if self.min is None else self.min, high if self.max is None else self.max
        return np.asarray(np.clip(x, *ends))


@dataclass(frozen=True)
class Elu(Function):
    alpha: float = 1.0

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.where(x > 0, x, self.alpha * np.expm1(np.minimum(x, 0))))


@dataclass(frozen=True)
class Erf(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(_erf(x))


@dataclass(frozen=True)
class Exp(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(np.exp(x))


@dataclass(frozen=True)
class Gelu(Function):
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
class HardSigmoid(Function):
    alpha: float = 0.2
    beta: float = 0.5

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.clip(self.alpha * x + self.beta, 0, 1))


@dataclass(frozen=True)
class HardSwish(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(x * np.clip(x / 6 + 0.5, 0, 1))


@dataclass(frozen=True)
class IsInf(Function):
    exact: ClassVar[bool] = True
    detect_negative: int = 1
    detect_positive: int = 1


@dataclass(frozen=True)
class LeakyRelu(Function):
    exact: ClassVar[bool] = True
    alpha: float = 0.01

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.where(x < 0, self.alpha * x, x))


@dataclass(frozen=True)
class Log(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(np.log(x))


@dataclass(frozen=True)
class Mish(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(x * np.tanh(np.logaddexp(x, 0)))


@dataclass(frozen=True)
class Neg(Function):
    exact: ClassVar[bool] = True

    def curve(self, x: Any) -> Curve:
        return np.asarray(-x)


@dataclass(frozen=True)
class PRelu(Function):
    """Inputs: data, slope."""

    exact: ClassVar[bool] = True

    def curve(self, x: Any, slope: Any) -> Curve:
        return np.asarray(np.where(x < 0, slope * x, x))


@dataclass(frozen=True)
class Relu(Function):
    exact: ClassVar[bool] = True

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.maximum(x, 0))


@dataclass(frozen=True)
class Selu(Function):
    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805

    def curve(self, x: Any) -> Curve:
        return np.asarray(self.gamma * np.where(x > 0, x, self.alpha * np.expm1(np.minimum(x, 0))))


@dataclass(frozen=True)
class Sigmoid(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(1 / (1 + np.exp(-x)))


@dataclass(frozen=True)
class Softplus(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(np.logaddexp(x, 0))


@dataclass(frozen=True)
class Softsign(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(x / (1 + np.abs(x)))


@dataclass(frozen=True)
class Sqrt(Function):
    exact: ClassVar[bool] = True

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.sqrt(x))


@dataclass(frozen=True)
class Swish(Function):
    alpha: float = 1.0

    def curve(self, x: Any) -> Curve:
        return np.asarray(x / (1 + np.exp(-self.alpha * x)))


@dataclass(frozen=True)
class Tanh(Function):
    def curve(self, x: Any) -> Curve:
        return np.asarray(np.tanh(x))


@dataclass(frozen=True)
class ThresholdedRelu(Function):
    exact: ClassVar[bool] = True
    alpha: float = 1.0

    def curve(self, x: Any) -> Curve:
        return np.asarray(np.where(x > self.alpha, x, 0))

"""Records of element-wise operators of several tensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact.graph.ops.record import Kind, Operator


class Arithmetic(Operator, shared=True):
    """Of all its inputs, which broadcast."""

    kind: ClassVar[Kind] = "arithmetic"
    data: ClassVar[tuple[int, ...] | None] = None
    exact: ClassVar[bool] = True


class Add(Arithmetic):
    def curve(self, a: Any, b: Any) -> NDArray[Any]:
        return np.asarray(a + b)


class Sub(Arithmetic):
    def curve(self, a: Any, b: Any) -> NDArray[Any]:
        return np.asarray(a - b)


class Mul(Arithmetic):
    def curve(self, a: Any, b: Any) -> NDArray[Any]:
        return np.asarray(a * b)


class Div(Arithmetic):
    def curve(self, a: Any, b: Any) -> NDArray[Any]:
        return np.asarray(a / b)


class Pow(Arithmetic):
    exact: ClassVar[bool] = False

    def curve(self, a: Any, b: Any) -> NDArray[Any]:
        return np.asarray(a**b)


class Max(Arithmetic):
    def curve(self, *operands: Any) -> NDArray[Any]:
        return np.asarray(reduce(np.maximum, operands))


class Min(Arithmetic):
    def curve(self, *operands: Any) -> NDArray[Any]:
        return np.asarray(reduce(np.minimum, operands))


@dataclass(frozen=True)
class Mod(Arithmetic):
    """`fmod`: the sign is that of the dividend."""

    fmod: int = 0


class Where(Arithmetic):
    """Selects elements. Inputs: condition, values where it holds, values elsewhere."""


class Sums(Arithmetic, shared=True):
    """Sums any number of tensors, in no order that ONNX fixes."""

    exact: ClassVar[bool] = False


class Mean(Sums):
    pass


class Sum(Sums):
    pass

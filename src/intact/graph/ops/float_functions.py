"""Records of functions of one tensor that kernels compute in floats, without a table of codes.

None of them counts as exact, not even the roundings: quantized files name all as float steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from intact.graph.ops.functions import Function


@dataclass(frozen=True)
class FloatFunction(Function, shared=True):
    """Without a curve."""


@dataclass(frozen=True)
class Acos(FloatFunction):
    pass


@dataclass(frozen=True)
class Acosh(FloatFunction):
    pass


@dataclass(frozen=True)
class Asin(FloatFunction):
    pass


@dataclass(frozen=True)
class Asinh(FloatFunction):
    pass


@dataclass(frozen=True)
class Atan(FloatFunction):
    pass


@dataclass(frozen=True)
class Atanh(FloatFunction):
    pass


@dataclass(frozen=True)
class Ceil(FloatFunction):
    pass


@dataclass(frozen=True)
class Cos(FloatFunction):
    pass


@dataclass(frozen=True)
class Cosh(FloatFunction):
    pass


@dataclass(frozen=True)
class Floor(FloatFunction):
    pass


@dataclass(frozen=True)
class Reciprocal(FloatFunction):
    pass


@dataclass(frozen=True)
class Round(FloatFunction):
    """To the nearest, ties to even."""


@dataclass(frozen=True)
class Sign(FloatFunction):
    pass


@dataclass(frozen=True)
class Sin(FloatFunction):
    pass


@dataclass(frozen=True)
class Sinh(FloatFunction):
    pass


@dataclass(frozen=True)
class Tan(FloatFunction):
    pass

"""Records of comparisons and logical operators."""

from __future__ import annotations

from dataclasses import dataclass

from intact.graph.ops.arithmetic import Arithmetic
from intact.graph.ops.function_record import Function


@dataclass(frozen=True)
class Comparison(Arithmetic, shared=True):
    """Of two tensors that broadcast; makes no floats."""


@dataclass(frozen=True)
class Logic(Arithmetic, shared=True):
    """Of two tensors of truth values that broadcast."""


@dataclass(frozen=True)
class Equal(Comparison):
    pass


@dataclass(frozen=True)
class Greater(Comparison):
    pass


@dataclass(frozen=True)
class GreaterOrEqual(Comparison):
    pass


@dataclass(frozen=True)
class Less(Comparison):
    pass


@dataclass(frozen=True)
class LessOrEqual(Comparison):
    pass


@dataclass(frozen=True)
class And(Logic):
    pass


@dataclass(frozen=True)
class Or(Logic):
    pass


@dataclass(frozen=True)
class Xor(Logic):
    pass


@dataclass(frozen=True)
class BitwiseAnd(Arithmetic):
    """Of two tensors of integers that broadcast."""


@dataclass(frozen=True)
class Not(Function):
    pass


@dataclass(frozen=True)
class IsNaN(Function):
    pass

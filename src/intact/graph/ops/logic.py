"""Records of comparisons and logical operators."""

from __future__ import annotations

from intact.graph.ops.arithmetic import Arithmetic
from intact.graph.ops.function_record import Function


class Comparison(Arithmetic, shared=True):
    """Of two tensors that broadcast; makes no floats."""


class Logic(Arithmetic, shared=True):
    """Of two tensors of truth values that broadcast."""


class Equal(Comparison):
    pass


class Greater(Comparison):
    pass


class GreaterOrEqual(Comparison):
    pass


class Less(Comparison):
    pass


class LessOrEqual(Comparison):
    pass


class And(Logic):
    pass


class Or(Logic):
    pass


class Xor(Logic):
    pass


class BitwiseAnd(Arithmetic):
    """Of two tensors of integers that broadcast."""


class Not(Function):
    pass


class IsNaN(Function):
    pass

"""Names of torch functions: one for each, whichever way a model's code writes it."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch._ops import OpOverload

from intact.torch.operators.grouped_matmul import GROUPED

__all__ = ["KnownFunction", "function_of"]

_AUGMENTED = {"add_", "sub_", "mul_", "div_", "pow_", "matmul_"}
_TRANSPOSED = {"T", "mT", "H", "mH"}  # attributes that compute
_builtin: dict[Any, KnownFunction] = {}


@dataclass(frozen=True)
class KnownFunction:
    """What is to be known of a torch function.

    Attributes:
        name: The same whichever way it is written: `x + y`, `x.add_(y)`, `torch.add` and an operator of
            an exported program, ``torch.ops.aten.add.Tensor``, are "add".
        writes: Whether it may write into its first operand.
        rebinds: Whether Python may bind the result to that operand's name: ``x += y``.
    """

    name: str
    writes: bool
    rebinds: bool


def function_of(func: Any) -> KnownFunction:
    """What is to be known of `func`."""
    if isinstance(func, FunctionType):
        return _called(func.__name__)
    known = _builtin.get(func)  # torch.compile follows a look-up, not the name of a built-in function
    if known is None:
        named = func.overloadpacket if isinstance(func, OpOverload) else func  # "add_", not "add_.Tensor"
        name = str(getattr(named, "__name__", type(func).__name__))
        read = getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else ""
        known = _builtin[func] = _called(read if read in _TRANSPOSED else name)
    return known


def _called(name: str) -> KnownFunction:
    writes = name == "__setitem__" or (name.endswith("_") and not name.startswith("__"))
    plain = name.strip("_")
    return KnownFunction(GROUPED.get(plain, plain), writes, name in _AUGMENTED)

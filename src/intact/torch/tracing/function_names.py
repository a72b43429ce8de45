"""Give each torch function one name, whichever way a model's code writes it."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

from intact.torch.operators.grouped_matmul import GROUPED
from intact.torch.private_torch import OpOverload

__all__ = ["FunctionInfo", "function_of"]

_AUGMENTED = {"add_", "sub_", "mul_", "div_", "pow_", "matmul_"}
_TRANSPOSED = {"T", "mT", "H", "mH"}  # attributes that compute
_builtin: dict[Any, FunctionInfo] = {}


@dataclass(frozen=True)
class FunctionInfo:
    """Describes a torch function.

    Attributes:
        name: One name for all spellings: `x + y`, `x.add_(y)`, `torch.add` and the operator of an exported
            program, ``torch.ops.aten.add.Tensor``, are "add".
        writes: Whether it may write into its first operand.
        rebinds: Whether Python may bind the result to that operand's name: ``x += y``.
    """

    name: str
    writes: bool
    rebinds: bool


def function_of(func: Any) -> FunctionInfo:
    """Return the description of `func`."""
    if isinstance(func, FunctionType):
        return _info_of(func.__name__)
    info = _builtin.get(func)  # torch.compile follows a look-up, not the name of a built-in function
    if info is None:
        packet = func.overloadpacket if isinstance(func, OpOverload) else func  # "add_", not "add_.Tensor"
        name = str(getattr(packet, "__name__", type(func).__name__))
        read = getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else ""
        info = _builtin[func] = _info_of(read if read in _TRANSPOSED else name)
    return info


def _info_of(name: str) -> FunctionInfo:
    writes = name == "__setitem__" or (name.endswith("_") and not name.startswith("__"))
    plain = name.strip("_").removeprefix("special_")
    return FunctionInfo(GROUPED.get(plain, plain), writes, name in _AUGMENTED)

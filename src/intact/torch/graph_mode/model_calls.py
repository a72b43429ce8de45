"""The calls that a model's code makes, each with a name: in whose forward, which function, the how-manieth.

A name holds for every input, in training and in evaluation: it says nothing about sizes. What PyTorch's own
modules do inside is one call, the module's.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from intact.torch.private_torch import code_before_graph_break, mark_constant_result, pytree
from intact.torch.tracing.function_decompositions import BODIES, DECOMPOSITIONS, takes_into

_PROMOTING = {"add", "sub", "mul", "div"}
_TORCH = Path(torch.__file__).parent
_WRITTEN = str(_TORCH / "nn" / "modules") + "/"
_BETWEEN = (f"{_TORCH}/", str(Path(__file__).parents[1]) + "/")


Kind = tuple[str, str, str]
"""Module, function and site of calls."""


@dataclass(frozen=True, order=True)
class ModelCall:
    """One call in a run of the model.

    Attributes:
        module: Path of the module whose forward makes it; of the module itself where that is what is called.
        function: Name of the function; "" for a module.
        number: How many calls of that name, from that place, there were in that module before it, of those
            that read floats.
        site: The place in the code, "forward:12", of functions that another run calls at other places, too.
    """

    module: str
    function: str = ""
    number: int = 0
    site: str = ""

    @property
    def kind(self) -> Kind:
        """All but the number."""
        return self.module, self.function, self.site

    @property
    def label(self) -> str:
        """What users read, and what quantizers are called after: "layer1.0.add"."""
        name = ".".join(part for part in (self.module, self.function) if part)
        name = f"{name}@{self.site}" if self.site else name
        return f"{name}_{self.number}" if self.number else name


class Calls(TorchFunctionMode):
    """While it is open, every call of a torch function goes to `perform`, unless a module is one call.

    Frames say whose forward is running; None: that of a module which is one call.
    """

    def __init__(self) -> None:
        super().__init__()
        self._frames: list[Any] = []
        self._made: dict[Kind, int] = {}

    def enter(self, frame: Any) -> None:
        """From here on calls belong to `frame`."""
        self._frames.append(frame)

    def leave(self) -> None:
        """Calls belong to the frame before again."""
        self._frames.pop()

    def count(self, module: str, function: str = "", site: str = "") -> int:
        """How many calls of this name were made."""
        return self._made.get((module, function, site), 0)

    def numbered(self, module: str, function: str = "", site: str = "") -> ModelCall:
        """The name of the call that is being made."""
        number = self.count(module, function, site)
        self._made[module, function, site] = number + 1
        return ModelCall(module, function, number, site)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        frame = self._frames[-1] if self._frames else None
        if frame is None:
            return func(*args, **(kwargs or {}))
        if isinstance(func, FunctionType) and func.__name__ in BODIES:
            with self:
                return BODIES[func.__name__](*args, **(kwargs or {}))
        return self.perform(frame, "", func, args, kwargs or {})

    def perform(
        self, frame: Any, inside: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make the call of `func` in `frame`; `inside`: the function that it is a part of, with a dot."""
        raise NotImplementedError

    def perform_opened(
        self, frame: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, writes: bool
    ) -> Any:
        """Make the calls that the opened function `name` is made of; `writes`: into its first operand."""

        def run(part: Any, *args: Any, **kwargs: Any) -> Any:
            return self.perform(frame, f"{name}.", part, args, kwargs)

        into = {"into": True} if writes and takes_into(name) else {}
        return DECOMPOSITIONS[name](run, *args, **kwargs, **into)


def site_of_call() -> str:
    """Where the code of a model makes the call that is being made: the function and the line in it."""
    if torch.compiler.is_dynamo_compiling():
        return _site_in_dynamo()
    frame: Any = sys._getframe(1)
    while frame is not None and _is_between(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else _site(frame.f_code, frame.f_lineno)


def _site_in_dynamo() -> str:
    """The same while torch.compile reads the code, which has no frames then: its readers stand for them."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        reader = frame.f_locals.get("self")
        code, line = getattr(reader, "f_code", None), getattr(reader, "lineno", -1)
        if isinstance(code, CodeType) and line >= 0 and not _is_between(code.co_filename):
            return _site(code, line)
        frame = frame.f_back
    return ""


mark_constant_result(_site_in_dynamo)


def _site(code: CodeType, line: int) -> str:
    while (original := code_before_graph_break(code)) is not None:
        code = original
    return f"{code.co_name}:{line - code.co_firstlineno}"


@functools.cache
def _is_between(file: str) -> bool:
    """Whether code of `file` stands between a model's and us: PyTorch's, but for that of its modules."""
    if file.startswith(_WRITTEN):
        return file == f"{_WRITTEN}module.py"
    return file.startswith(_BETWEEN)


def reads_floats(value: Any) -> bool:
    """Whether there is a tensor of a floating type in a call's arguments: others count masks and indices."""
    if isinstance(value, Tensor):
        return value.is_floating_point()
    return isinstance(value, (tuple, list)) and any(map(reads_floats, value))


def promoted(function: str, args: tuple[Any, ...]) -> torch.dtype | None:
    """The type that `function` brings masks and integers among its operands to; None where it reads none."""
    if function not in _PROMOTING or not all(isinstance(x, Tensor) and x.dim() for x in args[:2]):
        return None
    kinds = [x.dtype for x in args[:2] if x.is_floating_point()]
    return kinds[0] if len(kinds) == 1 and len(args) > 1 else None


def exchanged(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[int, Tensor], Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments with ``change(i, x)`` for the i-th tensor x among them."""
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    place = 0
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            leaves[index] = change(place, leaf)
            place += 1
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return args, kwargs if out is None else kwargs | {"out": out}

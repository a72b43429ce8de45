"""Name the calls that a model's code makes: by the module in whose forward, by function, and by number.

A name holds for every input, in training and in evaluation, because it does not depend on sizes. A module of
PyTorch's own is one call, whatever it does inside.
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
_TORCH_MODULES = str(_TORCH / "nn" / "modules") + "/"
_NOT_THE_MODELS = (f"{_TORCH}/", str(Path(__file__).parents[1]) + "/")


CallKind = tuple[str, str, str]
"""Module, function and call site of calls."""


@dataclass(frozen=True, order=True)
class ModelCall:
    """Names one call in a run of the model.

    Attributes:
        module: Path of the module whose forward makes it. For a call of a module, the path of that module.
        function: Name of the function; "" for a module.
        number: How many calls of that function from that call site the module made before, counting those
            that read floats.
        site: The call site, "forward:12", for functions that another run also calls at other sites.
    """

    module: str
    function: str = ""
    number: int = 0
    site: str = ""

    @property
    def kind(self) -> CallKind:
        """Return everything but the number."""
        return self.module, self.function, self.site

    @property
    def label(self) -> str:
        """Return the name that users read, after which quantizers are named: "layer1.0.add"."""
        name = ".".join(part for part in (self.module, self.function) if part)
        name = f"{name}@{self.site}" if self.site else name
        return f"{name}_{self.number}" if self.number else name


class CallMode(TorchFunctionMode):
    """Sends every call of a torch function to `perform` inside the context, unless it is inside of a module
    that is one call.

    The stack of frames holds the modules whose forward is running; None stands for a module that is one call.
    """

    def __init__(self) -> None:
        super().__init__()
        self._frames: list[Any] = []
        self._counts: dict[CallKind, int] = {}

    def enter(self, frame: Any) -> None:
        """Assign the calls that follow to `frame`."""
        self._frames.append(frame)

    def leave(self) -> None:
        """Assign the calls that follow to the previous frame again."""
        self._frames.pop()

    def count(self, module: str, function: str = "", site: str = "") -> int:
        """Return how many calls of this kind were made."""
        return self._counts.get((module, function, site), 0)

    def next_call(self, module: str, function: str = "", site: str = "") -> ModelCall:
        """Return the name of the call that is being made, and count it."""
        number = self.count(module, function, site)
        self._counts[module, function, site] = number + 1
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
        """Make the call of `func` in `frame`.

        Args:
            frame: The running module.
            inside: Name of the function that the call is a part of, with a dot behind it; or "".
            func: The function.
            args: Its positional arguments.
            kwargs: Its named arguments.
        """
        raise NotImplementedError

    def perform_decomposed(
        self, frame: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, writes: bool
    ) -> Any:
        """Make the calls of which the function `name` consists; with `writes`, into its first operand."""

        def run(part: Any, *args: Any, **kwargs: Any) -> Any:
            return self.perform(frame, f"{name}.", part, args, kwargs)

        into = {"into": True} if writes and takes_into(name) else {}
        return DECOMPOSITIONS[name](run, *args, **kwargs, **into)


def site_of_call() -> str:
    """Return the call site in the model's code: the function and the line in it."""
    if torch.compiler.is_dynamo_compiling():
        return _site_in_dynamo()
    frame: Any = sys._getframe(1)
    while frame is not None and _is_not_the_models(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else _site(frame.f_code, frame.f_lineno)


def _site_in_dynamo() -> str:
    """Return the call site while Dynamo traces; its tracer holds the line, because there are no Python
    frames.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        reader = frame.f_locals.get("self")
        code, line = getattr(reader, "f_code", None), getattr(reader, "lineno", -1)
        if isinstance(code, CodeType) and line >= 0 and not _is_not_the_models(code.co_filename):
            return _site(code, line)
        frame = frame.f_back
    return ""


mark_constant_result(_site_in_dynamo)


def _site(code: CodeType, line: int) -> str:
    while (original := code_before_graph_break(code)) is not None:
        code = original
    return f"{code.co_name}:{line - code.co_firstlineno}"


@functools.cache
def _is_not_the_models(file: str) -> bool:
    """Return whether code of `file` lies between a model's code and ours: torch's, except its modules."""
    if file.startswith(_TORCH_MODULES):
        return file == f"{_TORCH_MODULES}module.py"
    return file.startswith(_NOT_THE_MODELS)


def reads_floats(value: Any) -> bool:
    """Return whether a call reads a floating-point tensor. Calls on masks and indices are not numbered."""
    if isinstance(value, Tensor):
        return value.is_floating_point()
    return isinstance(value, (tuple, list)) and any(map(reads_floats, value))


def promoted_type(function: str, args: tuple[Any, ...]) -> torch.dtype | None:
    """Return the type to which `function` converts masks and integers among its operands.

    None for no conversion.
    """
    if function not in _PROMOTING or not all(isinstance(x, Tensor) and x.dim() for x in args[:2]):
        return None
    kinds = [x.dtype for x in args[:2] if x.is_floating_point()]
    return kinds[0] if len(kinds) == 1 and len(args) > 1 else None


def map_tensors(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[int, Tensor], Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments with ``change(i, x)`` for the i-th tensor x among them."""
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

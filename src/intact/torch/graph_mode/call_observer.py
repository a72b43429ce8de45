"""Run a model and observe every call and what it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize

from intact.torch.graph_mode.model_calls import (
    CallMode,
    ModelCall,
    map_tensors,
    promoted_type,
    reads_floats,
    site_of_call,
)
from intact.torch.nn.modules._utils import QuantizedModule
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.tracing.function_decompositions import is_decomposed
from intact.torch.tracing.function_names import function_of

_READ_SHAPE = {
    "get",
    "set",
    "size",
    "dim",
    "stride",
    "numel",
    "is_floating_point",
    "is_contiguous",
    "len",
    "hash",
}
"""Functions that ask about a tensor and compute nothing."""

_VIEWS = {
    "getitem", "view", "view_as", "reshape", "flatten", "unflatten", "transpose", "swapaxes", "swapdims",
    "permute", "movedim", "moveaxis", "T", "mT", "t", "select", "narrow", "chunk", "split",
    "split_with_sizes", "tensor_split", "unbind", "squeeze", "unsqueeze", "expand", "expand_as", "diagonal",
    "unfold", "contiguous", "to", "real", "imag", "view_as_real", "view_as_complex",
}  # fmt: skip
"""Functions whose result may share memory with an operand. Writing into the result writes into the
operand.
"""

_TRANSPARENT = (
    nn.Sequential, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder, nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer, nn.MultiheadAttention, nn.GELU, nn.GLU, nn.SiLU,
)  # fmt: skip
"""Modules of PyTorch that contain other modules, or call a function that is decomposed."""

_NORMS = {"batch_norm", "instance_norm", "group_norm", "layer_norm", "rms_norm"}
"""Functions whose operands behind the first are statistics and factors that stay in float."""


def is_one_call(module: nn.Module) -> bool:
    """Return whether `module` is one call: PyTorch's own or ours, and not in `_TRANSPARENT`.

    A module with parametrizations (weight_norm) has no quantized class. It is not one call, so that the
    function in it reads the computed weight.
    """
    place = type(module).__module__
    own = place.startswith(("torch.nn.", "torch.ao.nn.")) and not isinstance(module, _TRANSPARENT)
    own = own and not parametrize.is_parametrized(module)
    return own or isinstance(module, (TensorQuantizer, QuantizedModule))


@dataclass(frozen=True)
class _Frame:
    path: str


class Observer(CallMode):
    """A run of `model` that passes every floating-point tensor that a call reads to `read`.

    Args:
        model: It gets hooks inside of `observing`.
        leaves: Paths of modules that are one call besides those of PyTorch.
        careful: 1: ``x += y`` may change a tensor that has other names; 2: ``x[1:3].zero_()`` may, too.
    """

    def __init__(self, model: nn.Module, leaves: Mapping[str, str], *, careful: int) -> None:
        super().__init__()
        self._model, self.leaves, self.careful = model, leaves, careful
        self.calls: dict[ModelCall, str] = {}
        """Each call -> its call site, which its name leaves out."""
        self.visited: set[str] = set()

    @property
    def path(self) -> str:
        """Return the module whose forward is running, or was running when an error ended it."""
        return next((frame.path for frame in reversed(self._frames) if frame is not None), "")

    def read(self, call: ModelCall, operand: int, x: Tensor) -> Tensor:
        """Return the tensor that `call` gets in place of x, its `operand`-th tensor."""
        raise NotImplementedError

    def note_result(self, call: ModelCall, output: Any) -> None:
        """Note the result of `call`."""

    def note_module_result(self, path: str, output: Any) -> None:
        """Note the output of a module whose calls are seen, when its forward ends."""

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Observe calls inside the context."""
        with ExitStack() as stack:
            for path, module in self._model.named_modules():
                if path and (path in self.leaves or is_one_call(module)):
                    hooks = self._hook_leaf(path, module)
                else:
                    hooks = self._hook_module(path, module)
                for hook in hooks:
                    stack.callback(hook.remove)
            stack.enter_context(self)
            yield

    def _hook_module(self, path: str, module: nn.Module) -> tuple[Any, Any]:
        def enter(_: nn.Module, args: Any) -> None:
            self.visited.add(path)
            self.enter(_Frame(path))

        def leave(_: nn.Module, args: Any, output: Any) -> None:
            self.leave()
            self.note_module_result(path, output)

        before = module.register_forward_pre_hook(enter)
        return before, module.register_forward_hook(leave, prepend=True)

    @contextmanager
    def unwinding(self) -> Iterator[None]:
        """Restore the stack of frames where an error leaves inner forwards."""
        depth = len(self._frames)
        try:
            yield
        except BaseException:
            del self._frames[depth:]
            raise

    def _hook_leaf(self, path: str, module: nn.Module) -> tuple[Any, Any]:
        running: list[ModelCall | None] = []

        def enter(_: nn.Module, args: Any, kwargs: Any) -> Any:
            counted = bool(self._frames) and self._frames[-1] is not None
            call = self.next_call(path) if counted else None
            self.enter(None)
            running.append(call)
            return call and self._read_arguments(call, args, kwargs, first=self._may_read_first(module))

        def leave(_: nn.Module, args: Any, output: Any) -> None:
            if (call := running.pop()) is not None:
                self.note_result(call, output)
            self.leave()

        before = module.register_forward_pre_hook(enter, with_kwargs=True)
        return before, module.register_forward_hook(leave, prepend=True)

    def _may_read_first(self, module: nn.Module) -> bool:
        return not (self.careful and getattr(module, "inplace", False))

    def perform(
        self, frame: _Frame, inside: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        info = function_of(func)
        name = inside + info.name
        if name in _READ_SHAPE or not reads_floats((*args, *kwargs.values())):
            return func(*args, **kwargs)
        if is_decomposed(name, info.writes, kwargs, careful=bool(self.careful)):
            return self.perform_decomposed(frame, name, args, kwargs, writes=info.writes)
        first = not info.writes or (info.rebinds and not self.careful)
        first = first and not (self.careful > 1 and info.name in _VIEWS)
        call = self.next_call(frame.path, name)
        args, kwargs = self._read_arguments(call, args, kwargs, first=first)
        result = func(*args, **kwargs)
        self.note_result(call, result)
        return result

    def _read_arguments(self, call: ModelCall, args: Any, kwargs: Any, *, first: bool) -> Any:
        self.calls[call] = site_of_call() if call.function else ""

        kind = promoted_type(call.function, args)

        def read(operand: int, x: Tensor) -> Tensor:
            readable = first if operand == 0 else call.function not in _NORMS
            if kind is not None and readable and not (x.is_floating_point() or x.is_complex()):
                x = x.to(kind)  # as the function would, and as files have it
            return self.read(call, operand, x) if readable and x.dim() and x.is_floating_point() else x

        return map_tensors(args, kwargs, read)

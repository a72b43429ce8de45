"""Runs of a model in which somebody sees every call and what it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize

from intact.torch.graph_mode.model_calls import (
    Calls,
    ModelCall,
    exchanged,
    promoted,
    reads_floats,
    site_of_call,
)
from intact.torch.nn.modules._utils import QuantizedModule
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.tracing.function_decompositions import is_decomposed
from intact.torch.tracing.function_names import function_of

_QUESTIONS = {
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
"""Functions whose answer may be a part of what they read: who writes into it writes into that."""

_SEEN = (
    nn.Sequential, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder, nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer, nn.MultiheadAttention, nn.GELU, nn.GLU, nn.SiLU,
)  # fmt: skip
"""Modules of PyTorch that hold others, or call a function that is opened."""

_NORMS = {"batch_norm", "instance_norm", "group_norm", "layer_norm", "rms_norm"}
"""What they read besides their data are statistics and factors that stay in float."""


def is_one_call(module: nn.Module) -> bool:
    """Whether `module` is PyTorch's own, or ours, and not one whose calls are seen.

    One with parametrizations (weight_norm) has no quantized class: the function in it reads what they make.
    """
    place = type(module).__module__
    own = place.startswith(("torch.nn.", "torch.ao.nn.")) and not isinstance(module, _SEEN)
    own = own and not parametrize.is_parametrized(module)
    return own or isinstance(module, (TensorQuantizer, QuantizedModule))


@dataclass(frozen=True)
class _Frame:
    path: str


class Observer(Calls):
    """A run of `model`; `read` is asked about every tensor of a floating type that a call reads.

    Args:
        model: It gets hooks while `watching`.
        leaves: Paths of modules that are one call besides those of PyTorch.
        careful: 1: ``x += y`` may change a tensor that others know as well; 2: ``x[1:3].zero_()`` too.
    """

    def __init__(self, model: nn.Module, leaves: Mapping[str, str], *, careful: int) -> None:
        super().__init__()
        self._model, self.leaves, self.careful = model, leaves, careful
        self.calls: dict[ModelCall, str] = {}
        """Each with its site, which its name leaves out."""
        self.visited: set[str] = set()

    @property
    def path(self) -> str:
        """The module whose forward is running, or was when an error ended it."""
        return next((frame.path for frame in reversed(self._frames) if frame is not None), "")

    def read(self, call: ModelCall, operand: int, x: Tensor) -> Tensor:
        """What `call` gets in place of x, its `operand`-th tensor."""
        raise NotImplementedError

    def answered(self, call: ModelCall, output: Any) -> None:
        """`call` has answered."""

    def ran(self, path: str, output: Any) -> None:
        """The forward of a module has ended whose calls are seen."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe what happens inside."""
        with ExitStack() as stack:
            for path, module in self._model.named_modules():
                if path and (path in self.leaves or is_one_call(module)):
                    hooks = self._around_leaf(path, module)
                else:
                    hooks = self._around(path, module)
                for hook in hooks:
                    stack.callback(hook.remove)
            stack.enter_context(self)
            yield

    def _around(self, path: str, module: nn.Module) -> tuple[Any, Any]:
        def enter(_: nn.Module, args: Any) -> None:
            self.visited.add(path)
            self.enter(_Frame(path))

        def leave(_: nn.Module, args: Any, output: Any) -> None:
            self.leave()
            self.ran(path, output)

        before = module.register_forward_pre_hook(enter)
        return before, module.register_forward_hook(leave, prepend=True)

    @contextmanager
    def unwinding(self) -> Iterator[None]:
        """The same forward runs as before behind an error that left it inside of others."""
        depth = len(self._frames)
        try:
            yield
        except BaseException:
            del self._frames[depth:]
            raise

    def _around_leaf(self, path: str, module: nn.Module) -> tuple[Any, Any]:
        running: list[ModelCall | None] = []

        def enter(_: nn.Module, args: Any, kwargs: Any) -> Any:
            called = bool(self._frames) and self._frames[-1] is not None
            call = self.numbered(path) if called else None
            self.enter(None)
            running.append(call)
            return call and self._reading(call, args, kwargs, first=self._may_read_first(module))

        def leave(_: nn.Module, args: Any, output: Any) -> None:
            if (call := running.pop()) is not None:
                self.answered(call, output)
            self.leave()

        before = module.register_forward_pre_hook(enter, with_kwargs=True)
        return before, module.register_forward_hook(leave, prepend=True)

    def _may_read_first(self, module: nn.Module) -> bool:
        return not (self.careful and getattr(module, "inplace", False))

    def perform(
        self, frame: _Frame, inside: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        known = function_of(func)
        name = inside + known.name
        if name in _QUESTIONS or not reads_floats((*args, *kwargs.values())):
            return func(*args, **kwargs)
        if is_decomposed(name, known.writes, kwargs, careful=bool(self.careful)):
            return self.perform_opened(frame, name, args, kwargs, writes=known.writes)
        first = not known.writes or (known.rebinds and not self.careful)
        first = first and not (self.careful > 1 and known.name in _VIEWS)
        call = self.numbered(frame.path, name)
        args, kwargs = self._reading(call, args, kwargs, first=first)
        answer = func(*args, **kwargs)
        self.answered(call, answer)
        return answer

    def _reading(self, call: ModelCall, args: Any, kwargs: Any, *, first: bool) -> Any:
        self.calls[call] = site_of_call() if call.function else ""

        kind = promoted(call.function, args)

        def read(operand: int, x: Tensor) -> Tensor:
            wanted = first if operand == 0 else call.function not in _NORMS
            if kind is not None and wanted and not (x.is_floating_point() or x.is_complex()):
                x = x.to(kind)  # as the function would, and as files have it
            return self.read(call, operand, x) if wanted and x.dim() and x.is_floating_point() else x

        return exchanged(args, kwargs, read)

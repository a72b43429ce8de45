"""Find the parts of a model that are reconstructed: its layers, or blocks of them (Li et al.

2021, section 3.2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from intact.errors import QuantValueError
from intact.patterns import exact
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.training.collect_statistics import enabled_quantizers, evaluating, weights_of

MOST_LAYERS = 8
"""Most weights in a block. A residual block has 2 to 4, a transformer's layer 6."""


@dataclass(frozen=True)
class ReconstructionBlock:
    """A module that is reconstructed as one.

    Attributes:
        path: Its path in the model; a run of the model calls it once.
        weights: Path of each weight quantizer -> path of the parameter that it quantizes.
        activations: Paths of the quantizers of activations that no other part of the model calls.
    """

    path: str
    weights: dict[str, str]
    activations: tuple[str, ...]


@dataclass
class _CallRecord:
    """Records which modules one run of a model called, and from where.

    Attributes:
        total: Path -> number of calls, in the order of the first.
        inside: Path -> what was called while it ran, itself included.
        callers: Path of a quantizer -> the modules that called it.
        parameters: Path of a quantizer -> the parameter that it was given, by path.
    """

    total: Counter[str] = field(default_factory=Counter)
    inside: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    callers: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    parameters: dict[str, str] = field(default_factory=dict)


def find_blocks(
    model: nn.Module, run: Callable[[], Any], method: str, patterns: Sequence[str] | None = None
) -> tuple[list[ReconstructionBlock], dict[str, str]]:
    """Return the parts of `model` to reconstruct, in the order in which a run calls them.

    Args:
        model: Calibrated.
        run: Runs `model` on one batch.
        method: "adaround": each layer by itself. "brecq": the largest module around a layer that holds at
            most `MOST_LAYERS` of them, is no `nn.Sequential`, and is called once; else the layer itself.
        patterns: For "brecq": shell patterns of the modules' paths that are blocks, instead of that rule.
    Returns:
        The blocks, and for each quantized weight that is in none why; both may be empty.
    Raises:
        QuantValueError: A pattern fits no module that can be a block.
    """
    weights = set(weights_of(model))
    quantizers = enabled_quantizers(model)
    with evaluating(model), _recording(model) as calls:
        run()
    left = {name: reason for name in weights if (reason := _refusal(name, quantizers[name], calls))}
    finder = _Finder(model, calls, weights - left.keys(), patterns)
    parts: dict[str, dict[str, str]] = defaultdict(dict)
    for name in sorted(weights - left.keys()):
        block_path = finder.layer(name) if method == "adaround" else finder.block(name)
        if block_path is None:
            left[name] = "no module around it, but the model itself, is called once in a run"
        else:
            parts[block_path][name] = calls.parameters[name]
    finder.require_used()
    order = list(calls.total)
    found_blocks = [
        ReconstructionBlock(path, parts[path], _own_activations(calls, path, quantizers, weights))
        for path in sorted(parts, key=order.index)
    ]
    return found_blocks, left


class _Finder:
    """Finds the block of each layer."""

    def __init__(
        self, model: nn.Module, calls: _CallRecord, weights: set[str], patterns: Sequence[str] | None
    ) -> None:
        self._modules = dict(model.named_modules())
        self._calls, self._weights = calls, weights
        self._patterns = patterns
        self._used: set[str] = set()

    def layer(self, weight: str) -> str | None:
        """Return the module that reads `weight`; None where it cannot run by itself."""
        (caller,) = self._calls.callers[weight]
        return caller if self._stands_alone(caller) else None

    def block(self, weight: str) -> str | None:
        """Return the largest block around `weight`, or else its layer."""
        (caller,) = self._calls.callers[weight]
        parts = caller.split(".")
        around = [".".join(parts[: i + 1]) for i in range(len(parts))]
        largest = next((path for path in around if self._stands_alone(path) and self._is_block(path)), None)
        return largest or self.layer(weight)

    def require_used(self) -> None:
        """Raise where a pattern of the user made nothing a block.

        Raises:
            QuantValueError: Names the pattern.
        Raises:
            QuantValueError: A pattern made nothing a block.
        """
        for pattern in self._patterns or ():
            if pattern not in self._used:
                raise QuantValueError(
                    "reconstruct: blocks", f"pattern {pattern!r}, which fits no block",
                    "paths of modules with quantized weights that a run calls once",
                    "correct the pattern, or leave blocks out",
                )  # fmt: skip

    def _is_block(self, path: str) -> bool:
        if self._patterns is not None:
            fitting = [p for p in self._patterns if fnmatchcase(path, exact(p, self._modules))]
            self._used.update(fitting)
            return bool(fitting)
        if isinstance(self._modules[path], nn.Sequential):
            return False
        return sum(name in self._weights for name in self._calls.inside[path]) <= MOST_LAYERS

    def _stands_alone(self, path: str) -> bool:
        """Return whether a run calls the module once, and nowhere else calls what it calls."""
        if not path or self._calls.total[path] != 1:
            return False
        inside = self._calls.inside[path].items()
        return all(
            self._calls.total[name] == number
            for name, number in inside
            if not isinstance(self._modules[name], TensorQuantizer) or name in self._weights
        )


def _refusal(name: str, quantizer: TensorQuantizer, calls: _CallRecord) -> str | None:
    """Return why the rounding of a weight cannot be learned; None where it can."""
    if name not in calls.callers:
        return "no batch reached it"
    if name not in calls.parameters:
        return "what it quantizes is no parameter as a whole"
    shared = [other for other, path in calls.parameters.items() if path == calls.parameters[name]]
    if len(shared) > 1 or len(calls.callers[name]) > 1:
        return f"its parameter '{calls.parameters[name]}' is read in several places"
    if isinstance(quantizer.num_bits, tuple):
        return "a float grid has no neighbours one code apart"
    if quantizer._learn_amax is True or quantizer.pre_quant_scale is not None:
        return "the weight is changed before it is quantized, by a learned clip or a pre_quant_scale"
    return None


def _own_activations(
    calls: _CallRecord, path: str, quantizers: dict[str, TensorQuantizer], weights: set[str]
) -> tuple[str, ...]:
    inside = calls.inside[path]
    return tuple(
        name
        for name in inside
        if name in quantizers and name not in weights and calls.total[name] == inside[name]
    )


@contextmanager
def _recording(model: nn.Module) -> Iterator[_CallRecord]:
    """Record the calls that `model` makes inside the context."""
    calls, stack = _CallRecord(), list[str]()
    parameters = {_memory(p): name for name, p in model.named_parameters()}

    def enter(path: str, module: nn.Module, args: tuple[Any, ...]) -> None:
        if isinstance(module, TensorQuantizer):
            calls.callers[path].add(stack[-1] if stack else "")
            if args and (name := parameters.get(_memory(args[0]))) is not None:
                calls.parameters[path] = name
        stack.append(path)
        calls.total[path] += 1
        for around in set(stack):
            calls.inside[around][path] += 1

    def hooks_of(path: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def leave(*_: Any) -> None:
            stack.pop()

        return lambda module, args: enter(path, module, args), leave

    handles: list[Any] = []
    try:
        for path, module in model.named_modules():
            entered, left = hooks_of(path)
            # In front of graph mode's own hooks, so that quantizers that these call count as the module's.
            handles.append(module.register_forward_pre_hook(entered, prepend=True))
            handles.append(module.register_forward_hook(left))
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _memory(x: Tensor) -> tuple[Any, ...]:
    return x.data_ptr(), x.shape, x.stride()

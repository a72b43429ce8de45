"""Run graphs of quantized modules in the engine, for ``torch.compile(model, backend="intact")``.

Dynamo traces a module's code, with one `intact::fake_quantize` for each quantizer. The inputs of its graphs
are the module's tensors, parameters and buffers among them. A graph is compiled at its first call, when its
tensors exist and nothing is being traced. A graph that cannot be compiled runs in PyTorch, with a warning
that says why. Its numbers are the same, but it is not faster.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from intact.engine import Engine, Port
from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.processes import renew_in_child
from intact.torch.compile_module import engine_of
from intact.torch.dynamo.graph import DynamoGraph, holds_quantizers, is_constant
from intact.torch.private_torch import DYNAMO_BACKENDS, REGISTER_DYNAMO_BACKEND, version_of

__all__ = ["NAME", "backend", "register"]

NAME = "intact"
OPTIONS = ("threads", "deterministic", "backend")
MAX_ENGINES = 8
"""Most engines of one graph, for input sizes that one engine cannot take."""

_NUMPY = {
    torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
}  # fmt: skip


def backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return a callable on tensors for a graph; Dynamo calls this.

    Args:
        gm: What Dynamo traced; its parameters and buffers are inputs.
        example_inputs: One of each input.
        options: `threads`, `deterministic` and `backend`, as for `intact.compile`, from
            ``torch.compile(..., options={...})``.
    Raises:
        QuantValueError: There is no such option.
    """
    for name, value in (options or {}).items():
        if name not in OPTIONS:
            raise QuantValueError(
                f"torch.compile: option '{name}'", f"{value!r:.60}", f"one of {', '.join(OPTIONS)}",
                "leave it out",
            )  # fmt: skip
    return _Compiled(gm, options or {}) if holds_quantizers(gm) else gm.forward


def register() -> None:
    """Register the name with Dynamo, where the package's entry point is not installed."""
    if NAME not in (DYNAMO_BACKENDS.find() or ()):
        REGISTER_DYNAMO_BACKEND.require()(backend, name=NAME)


class _Compiled:
    """A graph with quantizers, with its engines and the constants that they were built with."""

    def __init__(self, gm: fx.GraphModule, options: Mapping[str, Any]) -> None:
        self._graph, self._options, self._lock = DynamoGraph(gm), dict(options), threading.Lock()
        self._engines: list[tuple[tuple[int, ...], Engine]] = []
        self._made_with: list[tuple[weakref.ref[Tensor], int]] = []
        self._in_torch, self._warned = False, set[str]()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Renew the lock."""
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        """Run the graph and return its outputs, a tuple."""
        if self._in_torch:
            return self._graph.gm(*args)
        if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in args):
            fix = "leave it so to train; else call it under torch.no_grad() or torch.inference_mode()"
            return self._eager(args, "grad mode is on, and its tensors want gradients", fix)
        try:
            with self._lock:
                engine = self._engine(args)
            return _run(engine, args)
        except IntactError as error:
            self._in_torch = True
            return self._eager(args, f"{error.where}: got {error.got}, want {error.want}", error.fix)

    def _eager(self, args: Sequence[Any], why: str, fix: str) -> Any:
        if why not in self._warned:
            self._warned.add(why)
            message = f"torch.compile(backend='{NAME}'): a part of the model runs in PyTorch, fake-quantized"
            warnings.warn(f"{message}: {why}. Fix: {fix}", stacklevel=3)
        return self._graph.gm(*args)

    def _engine(self, args: Sequence[Any]) -> Engine:
        """Return the engine for these inputs, an earlier one where it fits.

        Raises:
            IntactError: There can be none.
        """
        constants = [x for x in args if is_constant(x)]
        if not self._has_same_constants(constants):
            self._engines.clear()
        tensors, numbers = _tensors(args), self._graph.numbers(args)
        for engine_numbers, engine in self._engines:
            if engine_numbers == numbers and all(
                _takes(port, x) for port, x in zip(engine.inputs, tensors, strict=True)
            ):
                return engine
        first = not self._engines
        if first:
            _check(self._graph.gm, args)
        # A size that Dynamo left open may turn out fixed. Then each size gets its own engine.
        sizes = {"dynamic_shapes": self._graph.open_sizes(args)} if first else {"dynamic_batch": False}
        new_engine = engine_of(self._graph.module(args), (tensors, {}), sizes, **self._options)
        assert new_engine is not None, "it has quantizers"
        self._made_with = [(weakref.ref(x), _version(x)) for x in constants]
        self._engines = [(numbers, new_engine), *self._engines][:MAX_ENGINES]
        return new_engine

    def _has_same_constants(self, constants: Sequence[Tensor]) -> bool:
        """Return whether the constants are still those of the engines: parameters may be trained, buffers
        set.
        """
        return len(constants) == len(self._made_with) and all(
            reference() is x and version == _version(x)
            for x, (reference, version) in zip(constants, self._made_with, strict=True)
        )


def _run(engine: Engine, args: Sequence[Any]) -> tuple[Tensor, ...]:
    feeds = {port.name: x.detach() for port, x in zip(engine.inputs, _tensors(args), strict=True)}
    outputs = engine.run(feeds)
    return tuple(torch.from_numpy(outputs[port.name]) for port in engine.outputs)


def _tensors(args: Sequence[Any]) -> tuple[Tensor, ...]:
    return tuple(x for x in args if isinstance(x, Tensor) and not is_constant(x))


def _takes(port: Port, x: Tensor) -> bool:
    return len(port.shape) == x.dim() and all(
        isinstance(want, str) or want == size for want, size in zip(port.shape, x.shape, strict=True)
    )


def _version(x: Tensor) -> int:
    """Return a count of writes to a tensor, without those through `.data`; 0 for tensors of
    inference mode.
    """
    return 0 if x.is_inference() else version_of(x)


def _check(gm: fx.GraphModule, args: Sequence[Any]) -> None:
    """Refuse a graph that does more than compute tensors on the CPU: run it once, and check its effects.

    Raises:
        UnsupportedError: It writes into its inputs, draws random numbers, or has other tensors.
    """
    inputs = [x for x in args if isinstance(x, Tensor)]
    free = [x for x in inputs if not x.requires_grad]
    before, versions = [x.clone() for x in free], [_version(x) for x in inputs]
    random_state = torch.get_rng_state()
    outputs = gm(*args)
    writes = versions != [_version(x) for x in inputs] or not all(map(_equal, before, free))
    if writes or not torch.equal(random_state, torch.get_rng_state()):
        what = "writes into its inputs or buffers" if writes else "draws random numbers"
        raise UnsupportedError(
            "torch.compile", f"a graph that {what}", "one whose outputs follow from its inputs",
            "call model.eval() first; a model in training is trained as it is",
        )  # fmt: skip
    for x in (*inputs, *(x for x in outputs if isinstance(x, Tensor))):
        if x.device.type != "cpu" or x.dtype not in _NUMPY:
            raise UnsupportedError(
                "torch.compile", f"a tensor of {x.dtype} on {x.device}", "types of NumPy, on the CPU",
                "move the model to the CPU, and to float32",
            )  # fmt: skip


def _equal(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have equal values, where NaN equals NaN."""
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())

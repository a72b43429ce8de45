"""``torch.compile(model, backend="intact")``: what Dynamo finds in a quantized module runs in the engine.

Dynamo follows a module's code, sees one `intact::fake_quantize` for each quantizer, and hands over graphs
whose inputs are the module's tensors, parameters and buffers among them. A graph is compiled when it is first
called: then its tensors are there, and nobody is tracing. What cannot be compiled runs in PyTorch as it is,
with a warning that says why: the same fake-quantized numbers, without the speed.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from intact.engine import Engine
from intact.engine.engine import Port
from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.torch.compile_module import engine_of
from intact.torch.dynamo.graph import DynamoGraph, holds_quantizers, is_constant
from intact.torch.private_torch import DYNAMO_BACKENDS, REGISTER_DYNAMO_BACKEND, version_of

__all__ = ["NAME", "backend", "register"]

NAME = "intact"
OPTIONS = ("threads", "deterministic", "backend")
KEPT = 8
"""Engines of one graph, for sizes that do not go together."""

_NUMPY = {
    torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
}  # fmt: skip


def backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Dynamo's entry: a callable on tensors for a graph.

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
    """Let torch know the name, where the package's entry point is not installed."""
    if NAME not in (DYNAMO_BACKENDS.find() or ()):
        REGISTER_DYNAMO_BACKEND.require()(backend, name=NAME)


class _Compiled:
    """A graph with quantizers: its engines, and the constants that they were made with."""

    def __init__(self, gm: fx.GraphModule, options: Mapping[str, Any]) -> None:
        self._graph, self._options, self._lock = DynamoGraph(gm), dict(options), threading.Lock()
        self._engines: list[tuple[tuple[int, ...], Engine]] = []
        self._made_with: list[tuple[weakref.ref[Tensor], int]] = []
        self._in_torch, self._said = False, set[str]()

    def __call__(self, *args: Any) -> Any:
        """The graph's outputs, a tuple."""
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
        if why not in self._said:
            self._said.add(why)
            said = f"torch.compile(backend='{NAME}'): a part of the model runs in PyTorch, fake-quantized"
            warnings.warn(f"{said}: {why}. Fix: {fix}", stacklevel=3)
        return self._graph.gm(*args)

    def _engine(self, args: Sequence[Any]) -> Engine:
        """The engine for these inputs; one that was made before, where it fits.

        Raises:
            IntactError: There can be none.
        """
        constants = [x for x in args if is_constant(x)]
        if not self._unchanged(constants):
            self._engines.clear()
        tensors, numbers = _tensors(args), self._graph.numbers(args)
        for known, engine in self._engines:
            if known == numbers and all(
                _takes(port, x) for port, x in zip(engine.inputs, tensors, strict=True)
            ):
                return engine
        first = not self._engines
        if first:
            _check(self._graph.gm, args)
        # What Dynamo calls open may turn out fixed: then there is one engine for each size.
        sizes = {"dynamic_shapes": self._graph.open_sizes(args)} if first else {"dynamic_batch": False}
        made = engine_of(self._graph.module(args), (tensors, {}), sizes, **self._options)
        assert made is not None, "it has quantizers"
        self._made_with = [(weakref.ref(x), _version(x)) for x in constants]
        self._engines = [(numbers, made), *self._engines][:KEPT]
        return made

    def _unchanged(self, constants: Sequence[Tensor]) -> bool:
        """Whether the constants are still those of the engines: parameters are trained, buffers set."""
        return len(constants) == len(self._made_with) and all(
            known() is x and version == _version(x)
            for x, (known, version) in zip(constants, self._made_with, strict=True)
        )


def _run(engine: Engine, args: Sequence[Any]) -> tuple[Tensor, ...]:
    given = {port.name: x.detach() for port, x in zip(engine.inputs, _tensors(args), strict=True)}
    made = engine.run(given)
    return tuple(torch.from_numpy(made[port.name]) for port in engine.outputs)


def _tensors(args: Sequence[Any]) -> tuple[Tensor, ...]:
    return tuple(x for x in args if isinstance(x, Tensor) and not is_constant(x))


def _takes(port: Port, x: Tensor) -> bool:
    return len(port.shape) == x.dim() and all(
        isinstance(want, str) or want == size for want, size in zip(port.shape, x.shape, strict=True)
    )


def _version(x: Tensor) -> int:
    """Counts what is written to a tensor; not through `.data`, and not to one of inference mode."""
    return 0 if x.is_inference() else version_of(x)


def _check(gm: fx.GraphModule, args: Sequence[Any]) -> None:
    """Refuse a graph that does more than make tensors on the CPU: run it once, and see what it leaves.

    Raises:
        UnsupportedError: It writes into its inputs, draws random numbers, or has other tensors.
    """
    given = [x for x in args if isinstance(x, Tensor)]
    free = [x for x in given if not x.requires_grad]
    before, versions = [x.clone() for x in free], [_version(x) for x in given]
    drawn = torch.get_rng_state()
    made = gm(*args)
    writes = versions != [_version(x) for x in given] or not all(map(_equal, before, free))
    if writes or not torch.equal(drawn, torch.get_rng_state()):
        what = "writes into its inputs or buffers" if writes else "draws random numbers"
        raise UnsupportedError(
            "torch.compile", f"a graph that {what}", "one whose outputs follow from its inputs",
            "call model.eval() first; a model in training is trained as it is",
        )  # fmt: skip
    for x in (*given, *(x for x in made if isinstance(x, Tensor))):
        if x.device.type != "cpu" or x.dtype not in _NUMPY:
            raise UnsupportedError(
                "torch.compile", f"a tensor of {x.dtype} on {x.device}", "types of NumPy, on the CPU",
                "move the model to the CPU, and to float32",
            )  # fmt: skip


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same; a NaN is a NaN."""
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())

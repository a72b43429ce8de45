"""Run the modules of a model with their own code and quantizers between the calls that it makes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from types import MethodType
from typing import Any

import torch
from torch import Tensor, fx, nn

from intact.errors import QuantValueError, UnsupportedError
from intact.torch.descriptor import QuantDescriptor
from intact.torch.exact import exact_functions
from intact.torch.graph_mode.activation_checkpointing import resume_checkpoints
from intact.torch.graph_mode.model_calls import (
    CallMode,
    ModelCall,
    map_tensors,
    reads_floats,
    site_of_call,
)
from intact.torch.graph_mode.record import GraphModeRecord, InsertedQuantizer
from intact.torch.graph_mode.symbolic_trace_signature import record_as
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.private_torch import forward_pre_hooks, version_of
from intact.torch.tracing.function_decompositions import is_decomposed
from intact.torch.tracing.function_names import function_of
from intact.torch.tracing.graph_modules import ClassPlaceholder, RunsGraph

_local = threading.local()


# ---- what stands where ----


@dataclass(frozen=True)
class _Use:
    """One use of a quantizer at a call.

    The quantizer is an attribute of `owner`, so that users can replace it.

    Attributes:
        number: Position among the tensors that the call reads, or returns.
        tensor: One number for all uses on the same tensor.
        uses: How many uses there are on it.
    """

    owner: nn.Module
    name: str
    number: int
    tensor: int
    uses: int


@dataclass
class _Around:
    """The quantizers in front of one call, and behind it."""

    front: list[_Use] = field(default_factory=list)
    behind: list[_Use] = field(default_factory=list)


@dataclass
class _Scope:
    """Quantizers of one module's forward, by function, call site and number.

    Attributes:
        path: Path of the module.
        around: Function, call site and number -> the quantizers of that call.
        call_counts: Function and call site -> how many calls of it a run makes.
        functions: The functions of these calls.
        sited: Functions whose calls are named by their call sites.
        decomposed: Functions with quantizers inside.
    """

    path: str
    around: dict[tuple[str, str, int], _Around] = field(default_factory=dict)
    call_counts: dict[tuple[str, str], int] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    sited: set[str] = field(default_factory=set)
    decomposed: set[str] = field(default_factory=set)


class _QuantizedRun(CallMode):
    """One run of a model, or of a part of it, with quantizers."""

    def __init__(self) -> None:
        super().__init__()
        self._quantized: dict[int, tuple[Tensor, int, Tensor, int]] = {}
        self._visited: dict[str, _Scope] = {}

    @contextmanager
    def inside(self, scope: _Scope) -> Iterator[None]:
        depth = len(self._frames)
        self._visited[scope.path] = scope
        self.enter(scope)
        try:
            yield
        finally:
            del self._frames[depth:]

    @contextmanager
    def isolate(self) -> Iterator[None]:
        """Share no quantized tensors between the inside of the context and the rest of the run."""
        before, self._quantized = self._quantized, {}
        try:
            yield
        finally:
            self._quantized = before

    def snapshot(self) -> Callable[[], AbstractContextManager[None]]:
        """Return a function that opens a run from the present state, so that calls get the numbers that they
        get now.
        """
        frames, counts = [*self._frames], dict(self._counts)

        def open_run() -> AbstractContextManager[None]:
            run = _QuantizedRun()
            run._frames, run._counts = [*frames], dict(counts)
            return _as_running(run)

        return open_run

    def perform(
        self, frame: _Scope, inside: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        info = function_of(func)
        name = inside + info.name
        if name in frame.decomposed and is_decomposed(name, info.writes, kwargs):
            return self.perform_decomposed(frame, name, args, kwargs, writes=info.writes)
        if name not in frame.functions or not reads_floats((*args, *kwargs.values())):
            return func(*args, **kwargs)
        site = site_of_call() if name in frame.sited else ""
        around = frame.around.get((name, site, self.next_call(frame.path, name, site).number))
        if around is None:
            return func(*args, **kwargs)
        args, kwargs = self.read(around.front, args, kwargs, writes=info.writes)
        return self.quantize_results(around.behind, func(*args, **kwargs))

    def read(self, uses: Sequence[_Use], args: Any, kwargs: Any, *, writes: bool = False) -> tuple[Any, Any]:
        """Return the arguments of a call with some of them quantized.

        With `writes`, the call writes into the first one.
        """
        if not uses:
            return args, kwargs

        def quantize_operand(number: int, x: Tensor) -> Tensor:
            use = next((use for use in uses if use.number == number), None)
            if use is None:
                return x
            if not x.is_floating_point():  # a mask, which the function would bring to this type
                x = x.to(next(y.dtype for y in args if isinstance(y, Tensor) and y.is_floating_point()))
            return self._quantize(use, x, alone=writes and not number)

        return map_tensors(args, kwargs, quantize_operand)

    def quantize_results(self, uses: Sequence[_Use], results: Any) -> Any:
        """Return the results of a call with some of them quantized."""
        return self.read(uses, (results,), {})[0][0]

    def _quantize(self, use: _Use, x: Tensor, *, alone: bool) -> Tensor:
        """Return x quantized, computed once for all its uses."""
        earlier = self._quantized.pop(use.tensor, None)
        if earlier is not None and earlier[0] is x and earlier[1] == _version(x):
            _, _, quantized, left = earlier
        else:
            # Not by getattr: in a model that holds a module twice, torch.export takes what it answers for
            # a module of the root, and the file gets a name that is no quantizer's.
            quantized, left = use.owner._modules[use.name](x), use.uses  # type: ignore[misc]
        if left > 1:
            self._quantized[use.tensor] = x, _version(x), quantized, left - 1
            return quantized.clone() if alone else quantized
        return quantized

    def check(self) -> None:
        """Raise where a forward made other calls than when quantizers were placed.
        Raises:
            QuantValueError: A forward made other calls than when quantizers were placed.
        """
        for path, scope in self._visited.items():
            for (function, site), number in scope.call_counts.items():
                if (count := self.count(path, function, site)) != number:
                    raise QuantValueError(
                        f"graph mode: forward of '{path or 'the model'}'", f"{count} calls of '{function}'",
                        f"{number}, as when the model was quantized",
                        "build the model with the code that was quantized, and pass an example with the same"
                        " arguments to intact.torch.quantize",
                    )  # fmt: skip


def _version(x: Tensor) -> int:
    """Return a number that changes when x is written to, where PyTorch counts it."""
    return 0 if torch.compiler.is_dynamo_compiling() or x.is_inference() else version_of(x)


@contextmanager
def running_part() -> Iterator[None]:
    """Quantize a submodule that is called by itself as inside of the model.

    It works for calls that a run of the model makes nowhere else, because names hold the number of a call.
    """
    with _as_running(_QuantizedRun()):
        yield


@contextmanager
def _as_running(run: _QuantizedRun) -> Iterator[None]:
    """Make `run` the run of this thread inside the context."""
    before = _current_run()
    _local.running = run
    try:
        with run:
            yield
    finally:
        _local.running = before


def _current_run() -> _QuantizedRun | None:
    """Return the run that this thread is in; None outside of runs."""
    return getattr(_local, "running", None)


resume_checkpoints(_current_run)


# ---- modules whose forward has quantizers in it ----


class RunsQuantized(nn.Module):
    """Base of the class that `install` gives a module: ``class QuantizedNet(RunsQuantized, Net)``.

    Submodules, parameters, buffers, hooks, methods and the code of its forward are the module's own. Where
    the module runs a method of its own as its forward, `_instance_forward`, the forward of the class calls
    it.
    """

    _float_class: type[nn.Module]
    _scope: _Scope
    _graph_record: GraphModeRecord | None = None
    _instance_forward: Callable[..., Any] | None = None

    def quantized_weights(self) -> dict[str, Tensor]:
        """Return fake-quantized values of the parameters that functions read, by name of the parameter."""
        return {
            item.weight: self.get_submodule(item.name)(attrgetter(item.weight)(self))
            for item in (self._graph_record.inserted if self._graph_record else ())
            if item.weight
        }

    def computed_weight_quantizers(self) -> list[TensorQuantizer]:
        """Return the quantizers of weights that calls compute from parameters."""
        record = self._graph_record
        modules = (
            [self.get_submodule(item.name) for item in record.inserted if item.computed] if record else []
        )
        return [module for module in modules if isinstance(module, TensorQuantizer)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = self._float_class
        return (
            _new_instance,
            (ClassPlaceholder(kind, self) if issubclass(kind, fx.GraphModule) else kind,),
            self.__dict__,
        )


def _new_instance(float_class: type[nn.Module] | ClassPlaceholder) -> nn.Module:
    kind = _class_of(float_class.kind if isinstance(float_class, ClassPlaceholder) else float_class)  # type: ignore[arg-type]
    return kind.__new__(kind)


def _refuse_proxies(scope: _Scope, args: Sequence[Any]) -> None:
    """Raise where torch.fx.symbolic_trace runs a forward with quantizers between its calls.

    Raises:
        UnsupportedError: Operators such as + on its proxies call no function that a function mode sees.
    """
    if (scope.around or scope.call_counts) and any(isinstance(arg, fx.Proxy) for arg in args):
        raise UnsupportedError(
            f"torch.fx.symbolic_trace: forward of '{scope.path or 'the model'}'",
            "quantizers between its calls, which this tracer does not see", "quantizers inside modules",
            "record the model by torch.export.export(model, args)",
        )  # fmt: skip


@functools.cache
def _class_of(float_class: type[nn.Module]) -> type[RunsQuantized]:
    @functools.wraps(float_class.forward)
    def forward(self: RunsQuantized, *args: Any, **kwargs: Any) -> Any:
        own = self._instance_forward or functools.partial(float_class.forward, self)
        _refuse_proxies(self._scope, (*args, *kwargs.values()))
        run = _current_run()
        if run is not None:
            with run.inside(self._scope):
                return own(*args, **kwargs)
        _pass_over_new_modules(self)
        run = _QuantizedRun()
        with exact_functions(self), _as_running(run), run.inside(self._scope):
            output = own(*args, **kwargs)
        run.check()
        return output

    record_as(forward, float_class.forward, lambda self, args: _refuse_proxies(self._scope, args))
    members: dict[str, Any] = {
        "forward": forward, "_float_class": float_class,
        "__module__": float_class.__module__, "__doc__": float_class.__doc__,
    }  # fmt: skip
    own: type[nn.Module] = float_class
    if issubclass(float_class, fx.GraphModule):
        own, members["_graph_class"] = RunsGraph, float_class
    # transformers writes the name of a model's class into its files, and looks for that when it loads them.
    name = (
        float_class.__name__
        if hasattr(float_class, "from_pretrained")
        else f"Quantized{float_class.__name__}"
    )
    return type(name, (RunsQuantized, own), members)


# ---- modules that are one call ----


@dataclass
class _Enter:
    """Hook in front of a module that is one call: quantizes its inputs, by number of visit."""

    path: str
    around: dict[int, _Around]

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        run = _current_run()
        if run is None:
            return None
        run.enter(None)
        if not self.around:
            return None
        around = self.around.get(run.next_call(self.path).number)
        return None if around is None else run.read(around.front, args, kwargs)


@dataclass
class _Leave:
    """Hook behind such a module: quantizes its outputs."""

    path: str
    around: dict[int, _Around]

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        run = _current_run()
        if run is None:
            return None
        result = None
        if self.around and output is not None:
            around = self.around.get(run.count(self.path) - 1)
            result = None if around is None else run.quantize_results(around.behind, output)
        run.leave()
        return result


def _pass_over_new_modules(model: nn.Module) -> None:
    """Let the calls of modules that came in after quantization, as adapters do, be none of the model's.

    Modules inside of them that were quantized run with their quantizers.
    """
    for module in model.modules():
        if not isinstance(module, (RunsQuantized, TensorQuantizer)) and not any(
            isinstance(hook, _Enter) for hook in forward_pre_hooks(module).values()
        ):
            _hook(module, "", {})


def _hook(module: nn.Module, path: str, around: dict[int, _Around]) -> None:
    """Make a module one call, with quantizers around each visit by its number."""
    module.register_forward_pre_hook(_Enter(path, around), with_kwargs=True)
    module.register_forward_hook(_Leave(path, around), prepend=True, always_call=True)


# ---- putting it in ----


def record_of(model: nn.Module) -> GraphModeRecord | None:
    """Return the record installed in `model`; None for another model."""
    return model._graph_record if isinstance(model, RunsQuantized) else None


def install(model: nn.Module, record: GraphModeRecord) -> None:
    """Make `model` and its submodules call the quantizers of `record`, which it must hold already.

    Args:
        model: Changed in place: classes of modules become subclasses of these classes.
        record: The quantizers and their places.
    Raises:
        QuantValueError: The record is not of a model with these modules.
    """
    try:
        around = _around(model, record)
        paths = {"", *(call.module for call in around if call.function)}
        scopes = {model.get_submodule(path): _scope(path, around, record) for path in paths}
    except AttributeError as error:
        raise _wrong_model(str(error)) from error
    for path, module in model.named_modules():
        if module in scopes:
            _store_forward(module)
            module.__class__ = _class_of(type(module))  # type: ignore[arg-type]
            module._scope = scopes[module]
        elif not isinstance(module, TensorQuantizer):
            _hook(
                module, path, {c.number: a for c, a in around.items() if c.module == path and not c.function}
            )
    model._graph_record = record  # type: ignore[assignment]


def has_method_as_forward(module: nn.Module) -> bool:
    """Return whether `module` runs a method of its own as its forward: ``self.forward =
    self.forward_deploy``.
    """
    method = vars(module).get("forward")
    return isinstance(method, MethodType) and method.__self__ is module


def _store_forward(module: nn.Module) -> None:
    """Store the method that `module` runs as its forward where the forward of its new class looks for it."""
    method = vars(module).pop("forward", None)
    if method is not None and method.__func__ is not type(module).forward:
        object.__setattr__(module, "_instance_forward", method)


def _around(model: nn.Module, record: GraphModeRecord) -> dict[ModelCall, _Around]:
    by_call: dict[ModelCall, _Around] = {}
    tensors = ((item, spots) for item in record.inserted for spots in item.tensors)
    for tensor, (item, spots) in enumerate(tensors):
        path, _, name = item.name.rpartition(".")
        owner = model.get_submodule(path)
        for spot in spots:
            around = by_call.setdefault(spot.call, _Around())
            uses = around.behind if spot.behind else around.front
            uses.append(_Use(owner, name, spot.number, tensor, len(spots)))
    return by_call


def _scope(path: str, around: Mapping[ModelCall, _Around], record: GraphModeRecord) -> _Scope:
    counts = {(f, site): number for (module, f, site), number in record.call_counts.items() if module == path}
    own = {(c.function, c.site, c.number): a for c, a in around.items() if c.module == path and c.function}
    functions, sited = {function for function, _ in counts}, {function for function, site in counts if site}
    decomposed = {name.partition(".")[0] for name in functions if "." in name}
    return _Scope(path, own, counts, functions, sited, decomposed)


def restore(model: nn.Module, record: GraphModeRecord | None) -> None:
    """Give a float `model` the quantizers and the forward of `record`; None: check that it has no such
    forward.

    Raises:
        QuantValueError: The record is of another model, or `model` has another one already.
    """
    present = record_of(model)
    if present is not None or record is None:
        if present != record:
            raise QuantValueError(
                "graph mode", "a model that was quantized in another way",
                "the float model, or one quantized with the same arguments", "load it into the float model",
            )  # fmt: skip
        return
    for item in record.inserted:
        add_quantizer(model, item)
    install(model, record)


def add_quantizer(
    model: nn.Module, item: InsertedQuantizer, descriptor: QuantDescriptor | None = None
) -> None:
    """Create the quantizer of `item` in `model`, on the device of the tensors near it."""
    path, _, name = item.name.rpartition(".")
    try:
        owner = model.get_submodule(path)
    except AttributeError as error:
        raise _wrong_model(f"no module '{path}'") from error
    quantizer = TensorQuantizer(descriptor)
    quantizer.train(owner.training)
    device = next((t.device for t in chain(owner.parameters(), model.parameters())), None)
    owner.add_module(name, quantizer.to(device))


def _wrong_model(got: str) -> QuantValueError:
    return QuantValueError(
        "graph mode record", got, "the model that it was made of",
        "build the model with the code that was quantized, and with the same arguments",
    )  # fmt: skip

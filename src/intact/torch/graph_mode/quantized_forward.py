"""The modules of a model run their own code, with quantizers between the calls that it makes."""

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
    Calls,
    ModelCall,
    exchanged,
    reads_floats,
    site_of_call,
)
from intact.torch.graph_mode.record import GraphModeRecord, Inserted
from intact.torch.graph_mode.symbolic_trace_signature import record_as
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.private_torch import version_of
from intact.torch.tracing.function_decompositions import is_decomposed
from intact.torch.tracing.function_names import function_of
from intact.torch.tracing.graph_modules import ClassPlaceholder, RunsGraph

_local = threading.local()


# ---- what stands where ----


@dataclass(frozen=True)
class _Use:
    """One use of a quantizer at a call; it is an attribute of `owner`, for users to exchange.

    Attributes:
        number: Which of the tensors that the call reads, or makes.
        tensor: One number for all uses on the same tensor.
        uses: How many they are.
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
    """What is to be done in one module's forward: quantizers by function, site and number.

    Attributes:
        made: Function and site -> how many calls of it a run makes.
        functions: Those of these calls.
        sited: Those whose calls are known by their sites.
        opened: Functions with quantizers inside.
    """

    path: str
    around: dict[tuple[str, str, int], _Around] = field(default_factory=dict)
    made: dict[tuple[str, str], int] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    sited: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)


class _Pass(Calls):
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
    def apart(self) -> Iterator[None]:
        """No tensor that is quantized inside is one that was quantized before, and none that will be."""
        before, self._quantized = self._quantized, {}
        try:
            yield
        finally:
            self._quantized = before

    def kept(self) -> Callable[[], AbstractContextManager[None]]:
        """What opens a run that goes on from here, so that calls get the numbers that they get now."""
        frames, made = [*self._frames], dict(self._made)

        def opened() -> AbstractContextManager[None]:
            run = _Pass()
            run._frames, run._made = [*frames], dict(made)
            return _as_running(run)

        return opened

    def perform(
        self, frame: _Scope, inside: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        known = function_of(func)
        name = inside + known.name
        if name in frame.opened and is_decomposed(name, known.writes, kwargs):
            return self.perform_opened(frame, name, args, kwargs, writes=known.writes)
        if name not in frame.functions or not reads_floats((*args, *kwargs.values())):
            return func(*args, **kwargs)
        site = site_of_call() if name in frame.sited else ""
        around = frame.around.get((name, site, self.numbered(frame.path, name, site).number))
        if around is None:
            return func(*args, **kwargs)
        args, kwargs = self.read(around.front, args, kwargs, writes=known.writes)
        return self.made(around.behind, func(*args, **kwargs))

    def read(self, uses: Sequence[_Use], args: Any, kwargs: Any, *, writes: bool = False) -> tuple[Any, Any]:
        """The arguments of a call, some of them quantized; `writes`: it writes into the first."""
        if not uses:
            return args, kwargs

        def quantized(number: int, x: Tensor) -> Tensor:
            use = next((use for use in uses if use.number == number), None)
            if use is None:
                return x
            if not x.is_floating_point():  # a mask, which the function would bring to this type
                x = x.to(next(y.dtype for y in args if isinstance(y, Tensor) and y.is_floating_point()))
            return self._quantize(use, x, alone=writes and not number)

        return exchanged(args, kwargs, quantized)

    def made(self, uses: Sequence[_Use], answer: Any) -> Any:
        """The answer of a call, some of it quantized."""
        return self.read(uses, (answer,), {})[0][0]

    def _quantize(self, use: _Use, x: Tensor, *, alone: bool) -> Tensor:
        """x, quantized; once for all its uses."""
        kept = self._quantized.pop(use.tensor, None)
        if kept is not None and kept[0] is x and kept[1] == _version(x):
            _, _, quantized, left = kept
        else:
            # Not by getattr: in a model that holds a module twice, torch.export takes what it answers for
            # a module of the root, and the file gets a name that is no quantizer's.
            quantized, left = use.owner._modules[use.name](x), use.uses  # type: ignore[misc]
        if left > 1:
            self._quantized[use.tensor] = x, _version(x), quantized, left - 1
            return quantized.clone() if alone else quantized
        return quantized

    def check(self) -> None:
        """
        Raises:
            QuantValueError: A forward made other calls than when quantizers were placed.
        """
        for path, scope in self._visited.items():
            for (function, site), number in scope.made.items():
                if (made := self.count(path, function, site)) != number:
                    raise QuantValueError(
                        f"graph mode: forward of '{path or 'the model'}'", f"{made} calls of '{function}'",
                        f"{number}, as when the model was quantized",
                        "build the model with the code that was quantized, and pass an example with the same"
                        " arguments to intact.torch.quantize",
                    )  # fmt: skip


def _version(x: Tensor) -> int:
    """What changes when x is written to, where PyTorch counts it."""
    return 0 if torch.compiler.is_dynamo_compiling() or x.is_inference() else version_of(x)


@contextmanager
def running_part() -> Iterator[None]:
    """A part of a model, called by itself meanwhile, quantizes what it quantizes inside the model.

    Only calls that a run of the model makes nowhere else: names say the how-manieth call it is.
    """
    with _as_running(_Pass()):
        yield


@contextmanager
def _as_running(run: _Pass) -> Iterator[None]:
    """This thread is in `run`."""
    before = _running()
    _local.running = run
    try:
        with run:
            yield
    finally:
        _local.running = before


def _running() -> _Pass | None:
    """The run that this thread is in."""
    return getattr(_local, "running", None)


resume_checkpoints(_running)


# ---- modules whose forward has quantizers in it ----


class RunsQuantized(nn.Module):
    """Base of the class that `install` gives a module: ``class QuantizedNet(RunsQuantized, Net)``.

    Submodules, parameters, buffers, hooks, methods and the code of its forward are the module's own; a method
    that it runs as its forward, `_instance_forward`, is called by that of the class.
    """

    _float_class: type[nn.Module]
    _scope: _Scope
    _graph_record: GraphModeRecord | None = None
    _instance_forward: Callable[..., Any] | None = None

    def quantized_weights(self) -> dict[str, Tensor]:
        """Fake-quantized values of the parameters that functions read, by name of the parameter."""
        return {
            item.weight: self.get_submodule(item.name)(attrgetter(item.weight)(self))
            for item in (self._graph_record.inserted if self._graph_record else ())
            if item.weight
        }

    def computed_weights(self) -> list[TensorQuantizer]:
        """The quantizers of weights that calls make of parameters."""
        record = self._graph_record
        found = [self.get_submodule(item.name) for item in record.inserted if item.computed] if record else []
        return [one for one in found if isinstance(one, TensorQuantizer)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = self._float_class
        return (
            _blank,
            (ClassPlaceholder(kind, self) if issubclass(kind, fx.GraphModule) else kind,),
            self.__dict__,
        )


def _blank(float_class: type[nn.Module] | ClassPlaceholder) -> nn.Module:
    kind = _class_of(float_class.kind if isinstance(float_class, ClassPlaceholder) else float_class)  # type: ignore[arg-type]
    return kind.__new__(kind)


def _refuse_proxies(scope: _Scope, args: Sequence[Any]) -> None:
    """
    Raises:
        UnsupportedError: torch.fx.symbolic_trace runs a forward with quantizers between its calls: operators
            such as + come to no function that could be seen.
    """
    if (scope.around or scope.made) and any(isinstance(one, fx.Proxy) for one in args):
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
        running = _running()
        if running is not None:
            with running.inside(self._scope):
                return own(*args, **kwargs)
        running = _Pass()
        with exact_functions(self), _as_running(running), running.inside(self._scope):
            answer = own(*args, **kwargs)
        running.check()
        return answer

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
    """Hook in front of a module that is one call; quantizes what it reads, by number of visit."""

    path: str
    around: dict[int, _Around]

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        running = _running()
        if running is None:
            return None
        running.enter(None)
        if not self.around:
            return None
        around = self.around.get(running.numbered(self.path).number)
        return None if around is None else running.read(around.front, args, kwargs)


@dataclass
class _Leave:
    """Hook behind it; quantizes what it makes."""

    path: str
    around: dict[int, _Around]

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        running = _running()
        if running is None:
            return None
        answer = None
        if self.around and output is not None:
            around = self.around.get(running.count(self.path) - 1)
            answer = None if around is None else running.made(around.behind, output)
        running.leave()
        return answer


# ---- putting it in ----


def record_of(model: nn.Module) -> GraphModeRecord | None:
    """What was installed in `model`; None for another model."""
    return model._graph_record if isinstance(model, RunsQuantized) else None


def install(model: nn.Module, record: GraphModeRecord) -> None:
    """Let `model` and what is in it call the quantizers of `record`, which it must hold already.

    Args:
        model: Changed in place: classes of modules become subclasses of these classes.
        record: What stands where.
    Raises:
        QuantValueError: The record is not of a model with these modules.
    """
    try:
        around = _around(model, record)
        paths = {"", *(call.module for call in around if call.function)}
        scopes = {model.get_submodule(path): _scope(path, around, record) for path in paths}
    except AttributeError as error:
        raise _stranger(str(error)) from error
    for path, module in model.named_modules():
        if module in scopes:
            _keep_forward(module)
            module.__class__ = _class_of(type(module))  # type: ignore[arg-type]
            module._scope = scopes[module]
        elif not isinstance(module, TensorQuantizer):
            own = {c.number: a for c, a in around.items() if c.module == path and not c.function}
            module.register_forward_pre_hook(_Enter(path, own), with_kwargs=True)
            module.register_forward_hook(_Leave(path, own), prepend=True, always_call=True)
    model._graph_record = record  # type: ignore[assignment]


def has_method_as_forward(module: nn.Module) -> bool:
    """Whether `module` runs a method of its own as its forward: ``self.forward = self.forward_deploy``."""
    found = vars(module).get("forward")
    return isinstance(found, MethodType) and found.__self__ is module


def _keep_forward(module: nn.Module) -> None:
    """Put the method that `module` runs as its forward where the forward of its new class looks for it."""
    found = vars(module).pop("forward", None)
    if found is not None and found.__func__ is not type(module).forward:
        object.__setattr__(module, "_instance_forward", found)


def _around(model: nn.Module, record: GraphModeRecord) -> dict[ModelCall, _Around]:
    found: dict[ModelCall, _Around] = {}
    tensors = ((item, spots) for item in record.inserted for spots in item.tensors)
    for tensor, (item, spots) in enumerate(tensors):
        path, _, name = item.name.rpartition(".")
        owner = model.get_submodule(path)
        for spot in spots:
            around = found.setdefault(spot.call, _Around())
            uses = around.behind if spot.behind else around.front
            uses.append(_Use(owner, name, spot.number, tensor, len(spots)))
    return found


def _scope(path: str, around: Mapping[ModelCall, _Around], record: GraphModeRecord) -> _Scope:
    made = {(f, site): number for (module, f, site), number in record.made.items() if module == path}
    own = {(c.function, c.site, c.number): a for c, a in around.items() if c.module == path and c.function}
    functions, sited = {function for function, _ in made}, {function for function, site in made if site}
    opened = {name.partition(".")[0] for name in functions if "." in name}
    return _Scope(path, own, made, functions, sited, opened)


def restore(model: nn.Module, record: GraphModeRecord | None) -> None:
    """Give a float `model` the quantizers and the forward of `record`; None: it must have no such forward.

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


def add_quantizer(model: nn.Module, item: Inserted, descriptor: QuantDescriptor | None = None) -> None:
    """Create the quantizer of `item` in `model`, on the device of what is around it."""
    path, _, name = item.name.rpartition(".")
    try:
        owner = model.get_submodule(path)
    except AttributeError as error:
        raise _stranger(f"no module '{path}'") from error
    quantizer = TensorQuantizer(descriptor)
    quantizer.train(owner.training)
    device = next((t.device for t in chain(owner.parameters(), model.parameters())), None)
    owner.add_module(name, quantizer.to(device))


def _stranger(got: str) -> QuantValueError:
    return QuantValueError(
        "graph mode record", got, "the model that it was made of",
        "build the model with the code that was quantized, and with the same arguments",
    )  # fmt: skip

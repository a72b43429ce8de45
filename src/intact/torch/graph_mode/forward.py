"""A model whose forward is its trace with quantizers in it; everything else about it stays."""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable, Mapping
from itertools import chain, count
from operator import attrgetter
from typing import Any, Self

from torch import Tensor, fx, nn

from intact.errors import QuantValueError
from intact.torch.descriptor import QuantDescriptor
from intact.torch.graph_mode.record import GraphModeRecord, Inserted
from intact.torch.graph_mode.tracing import Traced, Untraceable, trace
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer

_serial = count()


class GraphMode(nn.Module):
    """Base of the class that `install` gives a model: ``class QuantizedNet(GraphMode, Net)``.

    Submodules, parameters, buffers, hooks and methods are the model's own. Its forward is generated from the
    trace: what the forward of a submodule said is in it, and later changes of that code are not.
    """

    _graph_record: GraphModeRecord
    _float_class: type[nn.Module]

    def quantized_weights(self) -> dict[str, Tensor]:
        """Fake-quantized values of the parameters that functions read, by name of the parameter."""
        return {
            item.weight: self.get_submodule(item.name)(attrgetter(item.weight)(self))
            for item in self._graph_record.inserted
            if item.weight
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        clone = type(self).__new__(type(self))
        memo[id(self)] = clone
        clone.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return clone

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, (self._float_class, self.__dict__)


def _restored(float_class: type[nn.Module], state: Mapping[str, Any]) -> nn.Module:
    model: nn.Module = float_class.__new__(float_class)
    model.__dict__.update(state)
    install(model, state["_graph_record"])
    return model


def record_of(model: nn.Module) -> GraphModeRecord | None:
    """What was installed in `model`; None for another model."""
    return model._graph_record if isinstance(model, GraphMode) else None


def install(model: nn.Module, record: GraphModeRecord, traced: Traced | None = None) -> None:
    """Let `model`'s forward be its trace with the quantizers of `record`, which it must hold already.

    Args:
        model: Changed in place: its class becomes a subclass of its class.
        record: What to insert.
        traced: Its trace, where it is known.
    Raises:
        QuantValueError: The record is not of a model with this code.
    """
    try:
        graph = (traced or trace(model, record.fixed, record.leaves)).graph
    except Untraceable as error:
        raise _stranger(str(error)) from error
    insert(graph, record)
    float_class = type(model)
    members = {
        "forward": compiled(graph), "_float_class": float_class,
        "__module__": float_class.__module__, "__doc__": float_class.__doc__,
    }  # fmt: skip
    model.__class__ = type(f"Quantized{float_class.__name__}", (GraphMode, float_class), members)
    model._graph_record = record  # type: ignore[assignment]


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


def insert(graph: fx.Graph, record: GraphModeRecord) -> None:
    """Put the calls of quantizers into `graph`, in place, each in front of its first reader."""
    nodes = {node.name: node for node in graph.nodes}
    order = {name: position for position, name in enumerate(nodes)}
    changes: dict[str, dict[int, fx.Node]] = {}
    for item in record.inserted:
        for call in item.calls:
            if unknown := {call.source, *(reader for reader, _ in call.readers)} - nodes.keys():
                raise _stranger(f"no call '{min(unknown)}', next to which {item.name} stands")
            first = min((reader for reader, _ in call.readers), key=order.__getitem__)
            with graph.inserting_before(nodes[first]):
                quantized = graph.call_module(item.name, (nodes[call.source],))
            for reader, place in call.readers:
                changes.setdefault(reader, {})[place] = quantized
    for reader, places in changes.items():
        node, numbers = nodes[reader], count()

        def exchanged(
            source: fx.Node, places: dict[int, fx.Node] = places, numbers: Any = numbers
        ) -> fx.Node:
            return places.get(next(numbers), source)

        node.args, node.kwargs = fx.node.map_arg((node.args, node.kwargs), exchanged)


def _stranger(got: str) -> QuantValueError:
    return QuantValueError(
        "graph mode record", got, "the model that it was made of",
        "build the model with the code that was quantized, and with the same arguments",
    )  # fmt: skip


def compiled(graph: fx.Graph) -> Callable[..., Any]:
    """`graph` as a function of the model and its inputs."""
    code = graph.python_code("self")
    name = f"<graph mode {next(_serial)}>"
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(True), name)
    scope = dict(code.globals)
    exec(compile(code.src, name, "exec"), scope)  # the code that torch.fx writes for a graph
    forward: Callable[..., Any] = scope["forward"]
    return forward

"""Finds shapes of a network that depend on values, and makes an engine for them.

INTact's engine knows every shape before it runs. A network with NonZero, or with a slice whose bounds come
from an input, runs in ONNX Runtime as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine, Plan, Port, as_input
from intact.engine.steps import FallbackSubgraph, Tensor
from intact.errors import QuantValueError
from intact.graph import TypedComposer, output_types, to_bytes
from intact.processes import cached_property
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import ITensor
from intact.trt.base.operation_enums import TripLimit
from intact.trt.layers import ILayer, ITripLimitLayer
from intact.trt.network import INetworkDefinition

LARGEST_SHAPE = 64
"""Elements of an input that can hold sizes."""
WHOLE = "intact.trt: the whole network"


@dataclass(frozen=True)
class Dependence:
    """Inputs and outputs of a network whose sizes depend on values.

    Attributes:
        hosts: Inputs whose values say sizes.
        valued: Outputs whose sizes those values say.
        unknown: Outputs whose sizes only a run tells.
        endless: Whether a run on made-up data might not end, as with a loop that runs while something holds.
        inside: Whether there are tensors whose sizes only a run tells, be they outputs or not.
    """

    hosts: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    endless: bool = False
    inside: bool = False

    def __bool__(self) -> bool:
        return bool(self.hosts or self.valued or self.unknown or self.endless or self.inside)


def dependence_of(network: INetworkDefinition) -> Dependence:
    """Find the tensors of `network` whose sizes depend on values."""
    hosts: dict[ITensor, None] = {}
    sources: dict[ITensor, set[ITensor]] = {}
    free: set[ITensor] = set()
    for layer in network.layers:
        for index in layer.VALUES:
            tensor = layer.get_input(index)
            for source in _sources(tensor, set()) if tensor is not None else ():
                if _holds_sizes(source):
                    hosts[source] = None
                    sources.setdefault(source, set()).update(layer._outputs)
                else:
                    free.update(layer._outputs)
        if layer.DATA_DEPENDENT and any(_sources(t, set()) for t in layer._inputs if t is not None):
            free.update(layer._outputs)
    endless = any(isinstance(la, ITripLimitLayer) and la.kind is TripLimit.WHILE for la in network.layers)
    open_ones = set(network.tensors) if endless else _behind(network, free)
    valued = _behind(network, {t for outputs_of_source in sources.values() for t in outputs_of_source})
    outputs = [t for t in network.outputs if -1 in t.shape]
    return Dependence(
        tuple(t.name for t in network.inputs if t in hosts),
        tuple(t.name for t in outputs if t in valued and t not in open_ones),
        tuple(t.name for t in outputs if t in open_ones),
        endless,
        bool(free),
    )


def _holds_sizes(tensor: ITensor) -> bool:
    small = -1 not in tensor.shape and int(np.prod(tensor.shape, dtype=np.int64)) <= LARGEST_SHAPE
    return small and len(tensor.shape) < 2 and tensor.dtype in (DataType.INT32, DataType.INT64, DataType.BOOL)


def _sources(tensor: ITensor, seen: set[ITensor]) -> set[ITensor]:
    """Return the inputs of the network whose values `tensor` depends on."""
    inputs: set[ITensor] = set()
    stack = [tensor]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        layer = current._producer
        if layer is None:
            inputs.add(current)
        elif isinstance(layer, ILayer) and not layer.OF_SHAPES:
            stack += [t for t in layer._inputs if t is not None]
    return inputs


def only_shapes(tensor: ITensor) -> bool:
    """Return whether the values of `tensor` follow from shapes, and from inputs that hold sizes."""
    return all(_holds_sizes(source) for source in _sources(tensor, set()))


def _behind(network: INetworkDefinition, tensors: set[ITensor]) -> set[ITensor]:
    """Return `tensors` and every tensor that is computed from them."""
    reached, changed = set(tensors), True
    while changed:
        changed = False
        for layer in network.layers:
            if not reached.issuperset(layer._outputs) and any(t in reached for t in layer._inputs if t):
                reached.update(layer._outputs)
                changed = True
    return reached


def whole_plan(network: INetworkDefinition, composed: TypedComposer, hidden: list[ITensor]) -> Plan:
    """Make a plan of one step, in which ONNX Runtime runs the whole network."""
    model = composed.load()
    types = {value.name: value.dtype.numpy().name for value in model.graph.inputs} | output_types(model)
    data = np.frombuffer(to_bytes(model), np.uint8)
    ports = {t.name: t for t in (*network.inputs, *network.outputs, *hidden)}
    tensors = {
        name: Tensor(name, types[name] or t.dtype.numpy.name, tuple(
            n if n >= 0 else f"{name}.{i}" for i, n in enumerate(t.shape)
        ))
        for name, t in ports.items()
    }  # fmt: skip
    xs = tuple(t.name for t in network.inputs)
    ys = tuple(dict.fromkeys(t.name for t in (*network.outputs, *hidden)))
    nodes = tuple(layer.name for layer in network.layers)
    step = FallbackSubgraph(WHOLE, nodes, xs, ys, "network.onnx", "its shapes depend on values")
    note = "all of the network runs in ONNX Runtime: its shapes depend on values"
    return Plan((step,), tensors, {"network.onnx": data}, xs, ys, notes=(note,))


def engine_of(plan: Plan, threads: int | None, packed: Any) -> Engine | WholeEngine:
    """Return an engine that runs a plan."""
    if len(plan.steps) == 1 and plan.steps[0].name == WHOLE:
        return WholeEngine(plan)
    return Engine(plan, threads=threads, packed=dict(packed or {}))


class WholeEngine:
    """A plan of one step in ONNX Runtime; `Engine`'s calls, with shapes that each run tells.

    Attributes:
        plan: The plan.
        inputs, outputs: `Port`s, in the model's order.
    """

    packed_weights: Any = None

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.inputs, self.outputs = (
            tuple(Port(n, plan.tensors[n].stored_dtype, plan.tensors[n].shape) for n in names)
            for names in (plan.inputs, plan.outputs)
        )

    @cached_property
    def _session(self) -> Any:
        step = self.plan.steps[0]
        assert isinstance(step, FallbackSubgraph)
        return step.session(self.plan.constants, self.plan.tensors, threads=0)

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, NDArray]:
        """Run once; outputs that are given arrays are written there.

        Raises:
            QuantValueError: An array does not fit.
        """
        missing = [p.name for p in self.inputs if p.name not in inputs]
        if missing:
            raise QuantValueError(f"input '{missing[0]}'", "no array", "one", "pass every input once")
        feeds = {p.name: as_input(inputs[p.name], p.name, p.dtype) for p in self.inputs}
        try:
            results: dict[str, NDArray] = self._session.run(feeds)
        except Exception as error:  # ONNX Runtime's exceptions have no common public base
            raise QuantValueError(
                "a run", str(error).splitlines()[0][:300], "inputs that the network takes", "correct them"
            ) from error
        for name, array in (out or {}).items():
            array[...] = results[name]
        return results

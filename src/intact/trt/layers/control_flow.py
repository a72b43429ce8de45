"""Layers that bound loops and conditionals, and the objects that make those.

A layer of a loop writes itself here as if the loop ran once, which is enough to infer shapes.
`network.loop_bodies` writes the loop itself.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from intact.graph import TypedComposer
from intact.trt.base.host_interfaces import ILogger
from intact.trt.base.itensor import ITensor, Sizes
from intact.trt.base.operation_enums import LayerType, LoopOutput, TripLimit
from intact.trt.base.trt_object import Interface
from intact.trt.layers.base import ILayer, Nodes, rank_of, sizes_in

Kind = TypeVar("Kind", bound=ILayer)


class LayerAdder(Protocol):
    """The part of the network that a loop or a conditional needs."""

    @property
    def logger(self) -> ILogger: ...
    def add_layer(self, kind: type[Kind], inputs: tuple[ITensor | None, ...], **parameters: Any) -> Kind: ...


class ILoopBoundaryLayer(ILayer):
    """Base of all layers that bound a loop."""

    _loop: Any = None
    loop = property(lambda self: self._loop)


class ITripLimitLayer(ILoopBoundaryLayer):
    """Says how often a loop runs: a number from outside, or while a boolean from inside is true."""

    TYPE = LayerType.TRIP_LIMIT
    OUTPUTS = 0
    _limit = TripLimit.COUNT
    kind = property(lambda self: self._limit)

    def emit(self, c: TypedComposer) -> None:
        """Emit no node: `network.loops` reads the tensor."""


class IRecurrenceLayer(ILoopBoundaryLayer):
    """A value that a loop carries: input 0 at first, then input 1 of the previous run."""

    TYPE = LayerType.RECURRENCE

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node("Identity", x[:1], y, name=self.name)


class IIteratorLayer(ILoopBoundaryLayer):
    """Gives each run one slice of a tensor along an axis, from the first on, or from the last.

    Attributes:
        axis: The axis, which the slices do not have.
        reverse: Whether the last slice comes first.
    """

    TYPE = LayerType.ITERATOR
    axis: int = 0
    reverse: bool = False

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        n("Gather", x[0], n.ints(0, shape=()), to=y[0], axis=int(self.axis))


class ILoopOutputLayer(ILoopBoundaryLayer):
    """Returns a value of a loop: the last one, or all of them along an axis; input 1 says how many.

    Attributes:
        axis: Where the values are stacked.
    """

    TYPE = LayerType.LOOP_OUTPUT
    VALUES = (1,)
    axis: int = 0
    _output = LoopOutput.LAST_VALUE
    kind = property(lambda self: self._output)

    def _title(self) -> str:
        return "LoopOutput"

    def check(self) -> list[str]:
        """Check that kept values come with their number."""
        if self.kind is not LoopOutput.LAST_VALUE and self.get_input(1) is None:
            return [f"{self.kind} needs the number of values as input 1"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        if self.kind is LoopOutput.LAST_VALUE:
            return c.node("Identity", x[:1], y, name=self.name)
        n, rank, axis = Nodes(c, self.name), rank_of(self.get_input(0)), int(self.axis)
        stacked = n("Unsqueeze", x[0], n.ints(axis))
        if len(x) < 2 or not x[1]:
            return c.node("Identity", [stacked], y, name=self.name)
        count = self._vector(n, 1)
        shape = n("Concat", *[n.ints(1)] * axis, count, *[n.ints(1)] * (rank - axis), axis=0)
        n("Expand", stacked, shape, to=y[0])
        return None

    def _output_sizes(self, index: int) -> Sizes | None:
        data, counts = self.get_input(0), sizes_in(self.get_input(1))
        if self.kind is LoopOutput.LAST_VALUE or data is None or counts is None:
            return None
        axis = int(self.axis)
        return (*data.shape[:axis], counts[0], *data.shape[axis:])


class ILoop(Interface):
    """A loop; get one from ``INetworkDefinition.add_loop``.

    Attributes:
        name: Kept.
    """

    name: str = ""

    def __init__(self, network: LayerAdder) -> None:
        self._network, self._logger = network, network.logger
        self._limits: list[ITripLimitLayer] = []
        self._recurrences: list[IRecurrenceLayer] = []
        self._iterators: list[IIteratorLayer] = []
        self._results: list[ILoopOutputLayer] = []

    def add_trip_limit(self, tensor: ITensor, kind: TripLimit) -> ITripLimitLayer:
        """Set how often the loop runs: COUNT times, or WHILE `tensor` is true."""
        layer = self._network.add_layer(ITripLimitLayer, (tensor,), _limit=TripLimit(kind), _loop=self)
        self._limits.append(layer)
        return layer

    def add_recurrence(self, initial_value: ITensor) -> IRecurrenceLayer:
        """Add a value that the loop carries; wire input 1 to what the next run begins with."""
        layer = self._network.add_layer(IRecurrenceLayer, (initial_value,), _loop=self)
        self._recurrences.append(layer)
        return layer

    def add_iterator(self, tensor: ITensor, axis: int = 0, reverse: bool = False) -> IIteratorLayer:
        """Add an iterator, which gives one slice of `tensor` in each run."""
        layer = self._network.add_layer(
            IIteratorLayer, (tensor,), axis=int(axis), reverse=bool(reverse), _loop=self
        )
        self._iterators.append(layer)
        return layer

    def add_loop_output(self, tensor: ITensor, kind: LoopOutput, axis: int = 0) -> ILoopOutputLayer:
        """Add an output of the loop."""
        layer = self._network.add_layer(
            ILoopOutputLayer, (tensor,), _output=LoopOutput(kind), axis=int(axis), _loop=self
        )
        self._results.append(layer)
        return layer

    @property
    def boundary(self) -> list[ILoopBoundaryLayer]:
        """All layers that bound it."""
        return [*self._limits, *self._recurrences, *self._iterators, *self._results]


class IIfConditionalBoundaryLayer(ILayer):
    """Base of all layers that bound a conditional."""

    _conditional: Any = None
    conditional = property(lambda self: self._conditional)


class IConditionLayer(IIfConditionalBoundaryLayer):
    """The condition of a conditional."""

    TYPE = LayerType.CONDITION
    OUTPUTS = 0

    def emit(self, c: TypedComposer) -> None:
        """Emit no node: the outputs of the conditional read the tensor."""


class IIfConditionalInputLayer(IIfConditionalBoundaryLayer):
    """A tensor that a conditional reads."""

    TYPE = LayerType.CONDITIONAL_INPUT
    TITLE = "Input"

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node("Identity", x[:1], y, name=self.name)


class IIfConditionalOutputLayer(IIfConditionalBoundaryLayer):
    """Returns input 0 where the condition holds, else input 1. Both are computed."""

    TYPE = LayerType.CONDITIONAL_OUTPUT
    TITLE = "Output"

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        condition = self._conditional.condition
        if condition is None:
            raise ValueError("the conditional has no condition: call set_condition")
        n = Nodes(c, self.name)
        branches = {}
        for side, name in (("then_branch", x[0]), ("else_branch", x[1])):
            with c.subgraph(f"{self.name}.{side}") as graph:
                c.output(n("Identity", name))
                branches[side] = graph
        n("If", n.scalar(condition.name), to=y[0], **branches)


class IIfConditional(Interface):
    """A conditional; get one from ``INetworkDefinition.add_if_conditional``.

    Attributes:
        name: Kept.
    """

    name: str = ""

    def __init__(self, network: LayerAdder) -> None:
        self._network, self._logger = network, network.logger
        self._condition: ITensor | None = None

    @property
    def condition(self) -> ITensor | None:
        """Return the condition layer; None where none was set."""
        return self._condition

    def set_condition(self, condition: ITensor) -> IConditionLayer:
        """Set the boolean scalar that decides."""
        self._condition = condition
        return self._network.add_layer(IConditionLayer, (condition,), _conditional=self)

    def add_input(self, input: ITensor) -> IIfConditionalInputLayer:
        """Add a tensor that the branches read."""
        return self._network.add_layer(IIfConditionalInputLayer, (input,), _conditional=self)

    def add_output(self, true_subgraph_output: ITensor, false_subgraph_output: ITensor) -> ILayer:
        """Add an output: the value of the true branch, or that of the false one."""
        return self._network.add_layer(
            IIfConditionalOutputLayer, (true_subgraph_output, false_subgraph_output), _conditional=self
        )

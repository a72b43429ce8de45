"""Read what a Loop or Scan does in each step: states, rows, limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import is_op
from intact.graph.ops import attributes

_ENDLESS = 2**31 - 1  # what exporters say where the condition alone ends a Loop


@dataclass(frozen=True)
class Carried:
    """A value that each step takes from the one before.

    Attributes:
        read: In the body: what comes in.
        next: In the body: what goes on to the next step.
        first: Around the body: what the first step reads.
        last: Around the body: what the last step made.
    """

    read: ir.Value
    next: ir.Value
    first: ir.Value
    last: ir.Value


@dataclass
class Repeat:
    """A Loop or a Scan over rows of tensors.

    Attributes:
        node: The Loop or Scan.
        backwards: The first step reads the last row, and makes the last one.
        limits: Numbers of steps, values around the body: the least counts. None of them: all rows.
        states: What changes from step to step, counters apart.
        rows: Value of the body -> what it is a row of, one for each step.
        outputs: Value of the body, and the tensor of what it is in each step.
        counted: Outputs that say how often the body ran.
    """

    node: ir.Node
    backwards: bool = False
    limits: list[ir.Value] = field(default_factory=list)
    states: list[Carried] = field(default_factory=list)
    rows: dict[ir.Value, ir.Value] = field(default_factory=dict)
    outputs: list[tuple[ir.Value, ir.Value]] = field(default_factory=list)
    counted: list[ir.Value] = field(default_factory=list)
    fixed: dict[ir.Value, ir.Value] = field(default_factory=dict)
    handed_on: list[tuple[ir.Value, ir.Value]] = field(default_factory=list)

    @property
    def body(self) -> ir.Graph:
        """Return the graph that runs in each step."""
        return ops.Control.body(self.node)

    def source(self, value: ir.Value | None) -> ir.Value | None:
        """Return the source of `value`, through Identity and values that every step passes on unchanged."""
        while value is not None:
            node = value.producer()
            if value in self.fixed:
                value = self.fixed[value]
            elif is_op(node, "Identity") and node is not None:
                value = node.inputs[0]
            else:
                break
        return value


def read_repeat(node: ir.Node, constants: Constants) -> Repeat | None:
    """Return the repetition of a Loop or Scan over rows of tensors; None where it is of another kind.

    Args:
        node: Of the main graph.
        constants: The main graph's.
    """
    if not is_op(node, "Loop", "Scan") or not attributes.subgraphs(node):
        return None
    return _read_loop(node, constants) if node.op_type == "Loop" else _read_scan(node)


def constant_array(value: ir.Value | None, constants: Constants) -> NDArray | None:
    """Return the constant of a value of the main graph, or of one in a body."""
    if value is None:
        return None
    node = value.producer()
    stored = ops.stored_tensor(node)
    if value.const_value is None and stored is not None:
        return stored.numpy()
    return constants(value) if value in constants else _initializer_array(value)


def _initializer_array(value: ir.Value) -> NDArray | None:
    is_stored = value.const_value is not None and not value.is_graph_input()
    return value.const_value.numpy() if is_stored and value.const_value is not None else None


def _read_scan(node: ir.Node) -> Repeat | None:
    """Match a Scan over rows along the first axis of all, in one direction."""
    repeat, form = Repeat(node), ops.Scan.of(node)
    count = form.num_scan_inputs
    body, states = repeat.body, len(node.inputs) - count
    turned = {*form.scan_input_directions, *form.scan_output_directions}
    axes = {*form.scan_input_axes, *form.scan_output_axes}
    inputs = [value for value in node.inputs if value is not None]
    if axes - {0} or len(turned) > 1 or len(inputs) < len(node.inputs) or not 0 < count <= len(inputs):
        return None
    if len(body.inputs) != len(inputs) or len(body.outputs) != len(node.outputs):
        return None
    if turned == {1} and not (form.scan_input_directions and form.scan_output_directions):
        return None  # left out: forwards
    repeat.backwards = turned == {1}
    read, body_outputs = list(body.inputs), list(body.outputs)
    _share_out(repeat, zip(read, body_outputs, inputs, node.outputs, strict=False), states)
    repeat.rows = dict(zip(read[states:], inputs[states:], strict=True))
    repeat.outputs = list(zip(body_outputs[states:], node.outputs[states:], strict=True))
    return repeat


def _read_loop(node: ir.Node, constants: Constants) -> Repeat | None:
    """Match a Loop whose body reads row number i of tensors in step i, as long as i is below a number."""
    repeat = Repeat(node)
    ports = len(node.inputs), len(node.outputs) + 1
    if min(ports) < 2 or (len(repeat.body.inputs), len(repeat.body.outputs)) != ports:
        return None
    trips, goes_on, *first = node.inputs
    count, condition, *read = repeat.body.inputs
    asks, *body_outputs = repeat.body.outputs
    if any(value is None for value in first):
        return None
    initial_values = [value for value in first if value is not None]
    _share_out(
        repeat, zip(read, body_outputs, initial_values, node.outputs, strict=False), len(initial_values)
    )
    repeat.outputs = list(
        zip(body_outputs[len(initial_values) :], node.outputs[len(initial_values) :], strict=True)
    )
    counters = {count: count}
    for state in list(repeat.states):
        start = constant_array(state.first, constants)
        if start is not None and start.size == 1 and start.item() == 0 and _is_next(repeat, state, constants):
            counters[state.read] = state.next
            repeat.states.remove(state)
            repeat.counted.append(state.last)
    most = constant_array(trips, constants)
    if trips is not None and (most is None or most.item() < _ENDLESS):
        repeat.limits.append(trips)
    tests = _Tests(repeat, constants, counters)
    if repeat.source(asks) is not condition:
        during = tests.bounds(asks, begun=True)
        before = tests.bounds(goes_on, begun=False)
        if during is None or before is None or (before and {*before} != {*during}):
            return None
        if not tests.late <= {*during, tests.number(trips)}:
            return None
        repeat.limits += during
    elif goes_on is not None and tests.bounds(goes_on, begun=False) != []:
        return None
    for inner in repeat.body:
        if is_op(inner, "Gather") and ops.Gather.of(inner).axis == 0 and inner.inputs[1] in counters:
            tensor = repeat.source(inner.inputs[0])
            if tensor is not None and not _is_inside(tensor, repeat.body):
                repeat.rows[inner.outputs[0]] = tensor
    return repeat if repeat.limits and repeat.rows else None


def _share_out(
    repeat: Repeat, each: Iterator[tuple[ir.Value, ir.Value, ir.Value, ir.Value]], count: int
) -> None:
    """Split the values of a loop into those that every step passes on unchanged and the others."""
    for _, (read, written, first, last) in zip(range(count), each, strict=False):
        if repeat.source(written) is read:
            repeat.fixed[read] = first
            repeat.handed_on.append((last, first))
        else:
            repeat.states.append(Carried(read, written, first, last))


def _is_inside(value: ir.Value, body: ir.Graph) -> bool:
    node = value.producer()
    return value in body.inputs or (node is not None and node.graph is body)


def _is_next(repeat: Repeat, state: Carried, constants: Constants) -> bool:
    """Return whether a state grows by 1 in each step."""
    node = (repeat.source(state.next) or state.next).producer()
    if node is None or not is_op(node, "Add"):
        return False
    for increment, other in (node.inputs, node.inputs[::-1]):
        step = constant_array(repeat.source(other), constants)
        if (
            repeat.source(increment) is state.read
            and step is not None
            and step.size == 1
            and step.item() == 1
        ):
            return True
    return False


@dataclass(frozen=True)
class _Tests:
    """Bounds that a condition compares the number of the next step with.

    Attributes:
        counters: What counts steps, and what it is in the step behind.
        late: Numbers that the body compares its own step with, not the step behind: alone they end a Loop one
            step later. Filled by `bounds`.
    """

    repeat: Repeat
    constants: Constants
    counters: dict[ir.Value, ir.Value]
    late: set[ir.Value | None] = field(default_factory=set)

    def bounds(self, value: ir.Value | None, *, begun: bool) -> list[ir.Value] | None:
        """Return the numbers that bound the counter; [] for none, None for another condition.

        Args:
            value: The condition.
            begun: It is the body's, which asks for the step behind; else the one before the first step.
        """
        value = self.repeat.source(value)
        always = constant_array(value, self.constants)
        if value is None or (always is not None and always.all()):
            return []
        node = value.producer()
        if is_op(node, "And") and node is not None:
            both = [self.bounds(operand, begun=begun) for operand in node.inputs]
            return (
                None if None in both else [operand for some in both if some is not None for operand in some]
            )
        if node is None or not is_op(node, "Less"):
            return None
        count, bound = (self.number(operand) for operand in node.inputs)
        if bound is None or _is_inside(bound, self.repeat.body):
            return None
        first = constant_array(count, self.constants)
        if begun:
            if count in self.counters and count not in self._next:
                self.late.add(bound)
                return []
            return [bound] if count in self._next else None
        return [bound] if first is not None and first.size == 1 and first.item() == 0 else None

    @property
    def _next(self) -> set[ir.Value]:
        return {written for read, written in self.counters.items() if written is not read}

    def number(self, value: ir.Value | None) -> ir.Value | None:
        """Return a number of steps before it was cast; floats hold all that are below 2^24."""
        value = self.repeat.source(value)
        while value is not None and is_op(value.producer(), "Cast"):
            node = value.producer()
            assert node is not None
            value = self.repeat.source(node.inputs[0])
        return value


def numbers_of(values: Sequence[ir.Value | None], constants: Constants) -> list[NDArray[np.int64] | None]:
    """Return the constants of `values`, as integers."""
    arrays = [constant_array(value, constants) for value in values]
    return [None if array is None else np.asarray(array, np.int64) for array in arrays]

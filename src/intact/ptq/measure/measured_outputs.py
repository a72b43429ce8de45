"""Chooses the tensors to measure errors on: the outputs, or what enters a selection in front of them.

NonMaxSuppression, TopK and NonZero choose rows by values: an error below any that matters lets two rows
change places, or one more pass a threshold. An output behind them would then count as lost, though every box
and score in front of them is right. Measured instead is what they select from and by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from intact.graph import Model, Node, Value, ops, part, size_inputs, subgraphs

_SELECT = frozenset({"Compress", "NonMaxSuppression", "NonZero", "TopK", "Unique"})
_INDEXED = "Gather"  # and GatherElements, GatherND
_SCATTERED = frozenset({"ScatterElements", "ScatterND"})
_SIZED = frozenset({"Shape", "Size"})
_LAYERS: tuple[ops.Kind, ...] = ("attention", "convolution", "product", "quantized", "recurrent")


@dataclass(frozen=True)
class MeasuredOutputs:
    """Names the tensors that errors are measured on.

    Attributes:
        names: The tensors, in order.
        unordered: Those of them whose rows may come in another order or number, as layers stand behind a
            selection.
        replaced: Output that is not measured itself -> the tensors that are.
    """

    names: tuple[str, ...]
    unordered: frozenset[str] = frozenset()
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """Sentences for the user about outputs that are not measured themselves."""
        return [
            f"output '{output}': values decide which rows it has, and in which order; "
            f"its accuracy is measured on what they are selected from: {', '.join(map(repr, names))}"
            for output, names in self.replaced.items()
        ]


def outputs_to_measure(model: Model) -> MeasuredOutputs:
    """Choose the tensors to measure of `model`, float or with Q/DQ pairs."""
    flow, names, replaced = _Flow(model), dict[str, bool](), dict[str, tuple[str, ...]]()
    for output in model.graph.outputs:
        name = output.name or ""
        if output not in flow.selected:
            names[name] = False
            continue
        entering = flow.entering(output)
        if not entering or output in entering:  # layers stand behind the selection: they tell all
            names[name] = True
            continue
        replaced[name] = tuple(value.name or "" for value in entering)
        for value, unordered in entering.items():
            names[value.name or ""] = names.get(value.name or "", False) or unordered
    return MeasuredOutputs(tuple(names), frozenset(name for name in names if names[name]), replaced)


def outputs_in_any_order(model: Model) -> list[int]:
    """Return the numbers of the float outputs whose rows a selection chose."""
    flow = _Flow(model)
    real = [value for value in model.graph.outputs if _is_float(value)]
    return [number for number, value in enumerate(real) if value in flow.selected]


def with_outputs(model: Model, names: Sequence[str]) -> Model:
    """Return `model` with the values `names` as its outputs, sharing its weights; itself where it has just
    these.

    Args:
        model: Not changed.
        names: Of values of its main graph.
    """
    if list(names) == [value.name for value in model.graph.outputs]:
        return model
    values_by_name = {value.name: value for node in model.graph for value in node.outputs}
    outputs = {value.name: value for value in model.graph.outputs}
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    shared = part(model, inputs, [outputs.get(name) or values_by_name[name] for name in names])
    shared.opset_imports.update(model.opset_imports)
    return shared


class _Flow:
    """Tracks which values depend on layers, and which rows selections chose by such values.

    Attributes:
        follows: Values that layers have computed, or that are computed from such ones.
        selected: Those whose rows a selection chose.
    """

    def __init__(self, model: Model) -> None:
        self.follows, self.selected = set[Value | None](), set[Value | None]()
        self._resized = set[Value | None]()
        self._selections = set[Node]()
        for node in model.graph:
            self._visit(node)

    def entering(self, output: Value) -> dict[Value, bool]:
        """Return the tensors that enter selections in front of `output`; True: with rows in any order."""
        entering, visited = dict[Value, bool](), set[Value]()
        waiting: list[tuple[Value, Value | None]] = [(output, output if _is_float(output) else None)]
        while waiting:
            value, candidate = waiting.pop()
            if value in visited or value not in self.follows:
                continue
            visited.add(value)
            node = value.producer()
            if value not in self.selected and _is_float(value):
                entering.setdefault(self._before_moves(value), False)
            elif node is not None and value in self.selected and _is_layer(node):
                entering[candidate or value] = True
            elif node is not None:
                anew = node in self._selections
                for read in reversed(list(_read_by(node))):
                    as_float = read if _is_float(read) else None
                    waiting.append((read, as_float if anew or candidate is None else candidate))
        return entering

    def _visit(self, node: Node) -> None:
        read, op_type = list(_read_by(node)), "" if node.domain else node.op_type
        selected = [value for value in read if value in self.selected]
        resized = [value for value in read if value in self._resized]
        if op_type in _SIZED:
            if resized:
                self.follows.update(node.outputs)
                self.selected.update(node.outputs)
            return
        follows = any(value in self.follows for value in read)
        if follows and self._selects(node, op_type):
            self._selections.add(node)
            self._resized.update(node.outputs if op_type != "Cast" else ())
        restored = (
            op_type in _SCATTERED and node.inputs[0] not in self.selected and node.inputs[1] in selected
        )
        if node in self._selections or (selected and not restored):
            self.selected.update(node.outputs)
        if resized and not restored:
            self._resized.update(node.outputs)
        if follows or _is_layer(node):
            self.follows.update(node.outputs)

    def _selects(self, node: Node, op_type: str) -> bool:
        """Return whether `node` chooses rows by computed values, or casts such choices to numbers."""
        if op_type in _SELECT or any(inner.op_type in _SELECT for inner in _inner_nodes(node)):
            return True
        if any(self._decides(node, index) for index in size_inputs(node)):
            return True
        if op_type.startswith(_INDEXED):
            return self._decides(node, 0) and self._decides(node, 1)
        return op_type == "Cast" and not _is_float(node.inputs[0]) and _is_float(node.outputs[0])

    def _decides(self, node: Node, index: int) -> bool:
        return index < len(node.inputs) and node.inputs[index] in self.follows

    def _before_moves(self, value: Value) -> Value:
        """Return the tensor in front of operators that only move the elements of `value`."""
        while not value.is_graph_output() and (node := value.producer()) is not None:
            if not ops.may_move(node, keeps_all=True) or node.inputs[0] not in self.follows:
                break
            assert node.inputs[0] is not None
            value = node.inputs[0]
        return value


def _read_by(node: Node) -> Iterator[Value]:
    """Yield the inputs of a node and of the nodes in its subgraphs."""
    for inner in (node, *_inner_nodes(node)):
        yield from (value for value in inner.inputs if value is not None)


def _inner_nodes(node: Node) -> Iterator[Node]:
    for graph in subgraphs(node):
        yield from graph.all_nodes()


def _is_layer(node: Node) -> bool:
    return any(ops.is_kind(inner, *_LAYERS) for inner in (node, *_inner_nodes(node)))


def _is_float(value: Value | None) -> bool:
    return value is not None and (value.dtype is None or value.dtype.is_floating_point())

"""Predicts the extra time of float and 16-bit layers from products and elements, without a clock.

A model has the same prediction on every machine, so that no file depends on where it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import prod

from intact.graph import Constants, Model, Node, Session, Value, is_op, ops
from intact.layer import Layer
from intact.placement import Placement
from intact.ptq.data.model_inputs import Feeds
from intact.ptq.data.parallel_runs import THREADS
from intact.ptq.measure.quantization_state import State
from intact.ptq.stages.int16_activations import Unit

# What a product takes, and an element that a layer reads or makes, with 8 bits, inputs of 16, and in float,
# relative to each other: as measured with AMX, where 8 bits gain most (docs/decisions/0039-float-layers.md).
_EIGHT, _SIXTEEN, _FLOAT = (1, 140), (2, 460), (18, 160)
_DYNAMIC = (
    1.2,
    160,
)  # in blocks of 64, measured with VNNI and AVX2: 0.8 to 1.2 times 8 bits for a row
_STATE = 45  # a product of a state, which is float in any form, and waits for the step before it

_Form = tuple[float, int]
Shapes = Mapping[str, tuple[int, ...]]


def elements(feeds: Feeds) -> float:
    """Count the elements of the inputs per sample."""
    return sum(array.size / max(len(array), 1) if array.ndim else 1 for array in feeds.values())


def shapes_of(model: Model, feeds: Feeds) -> Shapes:
    """Run the model once, and return the shapes of tensors by name, without control flow and compound
    or unknown operators.

    These may make sequences, say, which have no shape. The work of such nodes is not counted, so that what
    others take is a larger part of the whole.
    """
    nodes = [
        node for node in model.graph if (op := ops.read(node)) and op.kind not in ("control", "compound")
    ]
    values = (value for node in nodes for value in node.outputs)
    names = [value.name for value in values if value.name]
    session = Session(model, extra=names, folded=True, threads=THREADS)
    shapes = {name: array.shape for name, array in session.stream(feeds, names)}
    return shapes | {name: array.shape for name, array in feeds.items()}


class PredictedTime:
    """Predicts the time of the layers of a float model, relative to each other.

    Args:
        model: Float.
        placement: Its layers: those in int8, and those in float.
        shapes: Of its tensors, see `shapes_of`.
    """

    def __init__(self, model: Model, placement: Placement, shapes: Shapes) -> None:
        self._nodes = {node.name or "": node for node in model.graph}
        self._constants, self._shapes = Constants(model.graph), shapes
        self._layers = placement.layers
        inside = {name for layer in placement.layers for name in layer.nodes}
        alone = sum(self._of([node], _FLOAT) for name, node in self._nodes.items() if name not in inside)
        self.total = alone + sum(self._of_layer(layer, _form_of(layer)) for layer in self._layers)
        """Of all layers and of the nodes that are in none, which are float."""

    def time_difference(self, units: Iterable[Unit], wide: Container[str] = ()) -> float:
        """Return the extra time of the layers that read `units` when these are float, as a part of `total`.

        Args:
            units: Which.
            wide: Nodes that take inputs of 16 bits instead.
        """
        names = {name for unit in units for name in unit.nodes}
        return self._difference(names, lambda reading: self._form(reading, wide))

    def dynamic_difference(self, layers: Iterable[str]) -> float:
        """Return the extra time of linear layers with dynamic ranges, as a part of `total`."""
        return self._difference(set(layers), lambda _: _DYNAMIC)

    def _difference(self, names: set[str], form_of: Callable[[set[str]], _Form]) -> float:
        """Return what layers of 8 bits take more in other forms, by those of their nodes in `names`."""
        more = 0.0
        for layer in self._layers:
            if layer.precision != "float" and (reading := names.intersection(layer.nodes)):
                more += self._of_layer(layer, form_of(reading)) - self._of_layer(layer, _EIGHT)
        return more / self.total if self.total else 0.0

    def _form(self, reading: Iterable[str], wide: Container[str]) -> _Form:
        """Return the cost of a layer in which the nodes `reading` do not read 8 bits."""
        if any(name in wide for name in reading):
            return _SIXTEEN
        multiplied = any(self._products(self._nodes[name]) for name in reading if name in self._nodes)
        return _FLOAT if multiplied else (_EIGHT[0], _FLOAT[1])

    def _of_layer(self, layer: Layer, form: _Form) -> float:
        return self._of([self._nodes[name] for name in layer.nodes if name in self._nodes], form)

    def _of(self, nodes: Sequence[Node], form: _Form) -> float:
        """Return the time of nodes that run as one kernel."""
        outputs = {value for node in nodes for value in node.outputs}
        read = {v for node in nodes for v in node.inputs if v is not None and v not in outputs}
        inside = set(nodes)
        left = [v for v in outputs if v.is_graph_output() or any(use.node not in inside for use in v.uses())]
        elements = sum(map(self._size, [*read, *left]))
        product, element = form
        products = sum(min(product, self._most(node)) * self._products(node) for node in nodes)
        return element * elements + products + _STATE * sum(map(self._state_products, nodes))

    def _most(self, node: Node) -> int:
        """Return the largest time of one product; depthwise layers gain nothing by 8 bits."""
        weight = node.inputs[1] if is_op(node, "Conv") else None
        apart = weight is not None and ops.Conv.of(node).group > 1 and self._shape(weight)[1:2] == (1,)
        return 2 * _EIGHT[0] if apart else _FLOAT[0]

    def _size(self, value: Value) -> int:
        """Return the elements of a tensor that depends on the data; 0 for others."""
        return prod(self._shapes.get(value.name or "", (0,)))

    def _products(self, node: Node) -> int:
        """Count the products of `node`: output elements times the length of each sum."""
        op = ops.read(node)
        if op is None or op.kind not in ("convolution", "product", "recurrent") or len(node.inputs) < 2:
            return 0
        first, second = node.inputs[0], node.inputs[1]
        if first is None or second is None:
            return 0
        shape = self._shape(second)
        if isinstance(op, ops.Conv):
            return self._size(node.outputs[0]) * prod(shape[1:])
        if isinstance(op, ops.ConvTranspose):
            return self._size(first) * prod(shape[1:])
        if op.kind == "product":
            return self._size(node.outputs[0]) * (self._shape(first)[-1:] or (1,))[0]
        return self._size(first) * prod(shape[:2])

    def _state_products(self, node: Node) -> int:
        """Count the products that the states of a recurrent layer take, over all steps and directions."""
        if not is_op(node, *ops.RECURRENT) or len(node.inputs) < 3:
            return 0
        x, weight = node.inputs[0], node.inputs[2]
        if x is None or weight is None:
            return 0
        return prod(self._shape(x)[:2]) * prod(self._shape(weight))

    def _shape(self, value: Value) -> tuple[int, ...]:
        if (shape := self._shapes.get(value.name or "")) is not None:
            return shape
        array = self._constants(value)
        return () if array is None else array.shape


def _form_of(layer: Layer) -> _Form:
    return _FLOAT if layer.precision == "float" else _EIGHT


def predict_time(state: State) -> PredictedTime:
    """Predict the times of a state's model in front of the pairs, for its longest hold-out sample."""
    longest = max((sample.feeds for sample in state.runs), key=elements)
    return PredictedTime(state.model, state.placement, shapes_of(state.model, longest))

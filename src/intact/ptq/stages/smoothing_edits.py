"""Applies smoothing factors: into the parameters of the producer, or into a Mul behind it.

Parameters of a LayerNormalization, of a Mul or Add by constants, of a convolution take them at no cost; Relu
and LeakyRelu let positive factors through. A Mul behind another activation is part of the layer's epilogue in
the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from intact.graph import Constants, Inserter, Namer, Node, Value, set_initializer
from intact.placement import Layer, Placement
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_targets import Target
from intact.spec import QuantSpec

_PASSING = ("Relu", "LeakyRelu")


@dataclass(frozen=True)
class WeightProduct:
    """Describes a product with a constant that reads the tensor.

    Attributes:
        node: The name of the node.
        weight: The name of the weight's initializer, which nobody else reads.
        spec: The grid of the weight; None if it stays in float.
        outputs_first: Whether the weight is [outputs, inputs, ...] instead of [inputs, outputs].
        rank: The rank of a convolution's input; 0 for other products.
        groups: The groups of a convolution; 1 for other products.
    """

    node: str
    weight: str
    spec: QuantSpec | None
    outputs_first: bool
    rank: int = 0
    groups: int = 1

    def rows(self, array: NDArray) -> NDArray:
        """Return the weight as [groups, inputs, outputs, taps]."""
        first = array if self.outputs_first else array.T
        cut = first.reshape(self.groups, len(first) // self.groups, first.shape[1], -1)
        return np.swapaxes(cut, 1, 2)

    def scale_weight(self, array: NDArray, factor: NDArray[np.float64]) -> NDArray:
        """Multiply the weights of each input channel by `factor`."""
        if not self.outputs_first:
            return np.asarray(array * factor[:, None].astype(array.dtype))
        spread = factor.reshape(self.groups, 1, -1, *[1] * (array.ndim - 2)).astype(array.dtype)
        cut = array.reshape(self.groups, -1, *array.shape[1:])
        return np.asarray((cut * spread).reshape(array.shape))


@dataclass(frozen=True)
class SmoothableTensor:
    """Describes a tensor that only products with constants read quantized.

    Attributes:
        target: The tensor.
        products: Its readers.
        rank: Of an image, whose second axis counts channels; 0: the last one does.
    """

    target: Target
    products: tuple[WeightProduct, ...]
    rank: int

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self.target.site.value

    @property
    def axis(self) -> int:
        """The axis of the channels."""
        return 1 if self.rank else -1

    def along(self, numbers: NDArray) -> NDArray:
        """Reshape `numbers` of the channels, so that they multiply the tensor."""
        return numbers.reshape(-1, *[1] * (self.rank - 2)) if self.rank else numbers


def passing_input(node: Node, constants: Constants, calibrated: Collection[str]) -> Value | None:
    """Return the input of a node that lets channel factors through, if nobody else reads it; else None.

    Args:
        node: Of a float model.
        constants: Its graph's.
        calibrated: Tensors whose values are asked for: they stay.
    """
    if node.domain or node.op_type not in (*_PASSING, "Add", "Mul"):
        return None
    data = [value for value in node.inputs if constants(value) is None]
    if len(data) != 1 or data[0] is None or data[0].is_graph_output() or data[0].name in calibrated:
        return None
    if node.op_type in ("Add", "Mul"):
        (constant,) = [value for value in node.inputs if value is not data[0]]
        array = constants(constant)
        if array is None or array.size != 1:
            return None
    return data[0] if len(data[0].uses()) == 1 and data[0].producer() is not None else None


def apply_factors(
    state: State, tensors: Sequence[SmoothableTensor], factors: Mapping[str, NDArray[np.float64]]
) -> tuple[State, dict[str, str]]:
    """Return the state with smoothed tensors, and the new name of each by the old one.

    Args:
        state: In front of the pairs.
        tensors: What is smoothed.
        factors: Powers of two by name of the tensor, float64 [channels].
    """
    editor = _Editor(replace(state, model=state.model.clone()))
    for tensor in tensors:
        editor.smooth(tensor, factors[tensor.name])
    placement = _with_muls(state.placement, editor.renamed, editor.added)
    sites = {site.value: site for site in placement.sites}
    targets = tuple(
        replace(target, site=sites[editor.renamed[old]])
        if (old := target.site.value) in editor.renamed
        else target
        for target in state.targets
    )
    return replace(editor.state, placement=placement, targets=targets), editor.renamed


@dataclass
class _Editor:
    """Puts factors into a model, in place.

    Attributes:
        state: Its model is changed.
        renamed: The name of each smoothed tensor by that of the tensor as it was.
        added: The Mul that was put behind a node, by that node's name.
    """

    state: State
    renamed: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.state.model.graph
        self._names, self._constants = Namer(graph), Constants(graph)
        self._nodes = {node.name or "": node for node in graph}
        self._values = {v.name: v for node in graph for v in node.outputs}
        self._calibrated = set(self.state.tensors_to_calibrate)
        self._coarse = {
            reader
            for target in self.state.targets
            if target.site.role == "weight" and target.settings.axis != "channel"
            for reader in target.readers
        }

    def smooth(self, tensor: SmoothableTensor, factor: NDArray[np.float64]) -> None:
        """Divide the channels of a tensor, and multiply the weights that read it."""
        readers = [self._nodes[product.node] for product in tensor.products]
        for product in tensor.products:
            initializer = self.state.model.graph.initializers[product.weight].const_value
            assert initializer is not None
            set_initializer(
                self.state.model, product.weight, product.scale_weight(initializer.numpy(), factor)
            )
        value = self._values[tensor.name]
        is_read_by_products_only = not value.is_graph_output() and {use.node for use in value.uses()} == set(
            readers
        )
        if is_read_by_products_only and len(value.uses()) == len(readers):
            new_value = self._divide(value, 1 / factor, tensor)
        else:
            new_value = self._insert_mul(value, readers, 1 / factor, tensor)
        if new_value is value:
            value.name = self._names(f"{tensor.name}.smoothed")
        self.renamed[tensor.name] = new_value.name or ""

    def _divide(self, value: Value, inverse: NDArray[np.float64], tensor: SmoothableTensor) -> Value:
        """Scale `value` in its producer, or insert a Mul behind it; return the scaled value."""
        node = value.producer()
        assert node is not None
        if self._into_parameters(node, inverse, tensor):
            return value
        data = passing_input(node, self._constants, self._calibrated)
        if data is None:
            return self._insert_mul(value, [use.node for use in value.uses()], inverse, tensor)
        if node.op_type in ("Add", "Mul"):
            self._exchange(node, 1 - list(node.inputs).index(data), tensor.along(inverse), tensor)
        if node.op_type != "Mul":
            self._divide(data, inverse, tensor)
        return value

    def _into_parameters(self, node: Node, inverse: NDArray[np.float64], tensor: SmoothableTensor) -> bool:
        """Return whether the factors went into constants of a LayerNormalization or convolution."""
        if node.domain or (node.op_type, tensor.axis) not in (("LayerNormalization", -1), ("Conv", 1)):
            return False
        inputs = [
            (index, self._constants(value)) for index, value in enumerate(node.inputs) if index and value
        ]
        if any(array is None or array.shape[:1] != inverse.shape for _, array in inputs):
            return False
        weight = node.inputs[1]
        assert weight is not None
        if node.op_type == "Conv" and ((node.name or "", 1) in self._coarse or len(weight.uses()) > 1):
            return False
        for index, array in inputs:
            assert array is not None
            self._exchange(node, index, inverse.reshape(-1, *[1] * (array.ndim - 1)), tensor)
        return True

    def _exchange(self, node: Node, index: int, numbers: NDArray, tensor: SmoothableTensor) -> None:
        """Multiply a constant of `node`."""
        old = node.inputs[index]
        assert old is not None
        if node.op_type == "Conv" and index == 1:  # targets know a weight by its name
            assert old.const_value is not None
            kernel = old.const_value.numpy()
            set_initializer(self.state.model, old.name or "", kernel * numbers.astype(kernel.dtype))
            return
        array = self._constants(old)
        assert array is not None
        scaled = array * numbers.astype(array.dtype) if array.size > 1 else array.reshape(()) * numbers
        constant = self._new(node).constant(f"{tensor.name}.smoothing", scaled.astype(array.dtype))
        node.replace_input_with(index, constant)

    def _new(self, node: Node, after: bool = False) -> Inserter:
        return Inserter(self.state.model.graph, node, self._names, after=after)

    def _insert_mul(
        self, value: Value, readers: Sequence[Node], inverse: NDArray[np.float64], tensor: SmoothableTensor
    ) -> Value:
        """Insert a Mul behind `value`, which `readers` then read."""
        node = value.producer()
        assert node is not None
        weight = self.state.model.graph.initializers[tensor.products[0].weight]
        assert weight.const_value is not None
        insert, dtype = self._new(node, after=True), weight.const_value.dtype
        numbers = tensor.along(inverse).astype(dtype.numpy())
        factors = insert.constant(f"{tensor.name}.smoothing", numbers, dtype)
        new = insert.node("Mul", [value, factors], f"{tensor.name}.smoothed", dtype=dtype, shape=value.shape)
        for reader in readers:
            for index, operand in enumerate(reader.inputs):
                if operand is value:
                    reader.replace_input_with(index, new)
        mul = new.producer()
        assert mul is not None
        self.added[node.name or ""] = mul.name or ""
        return new


def _with_muls(placement: Placement, renamed: Mapping[str, str], added: Mapping[str, str]) -> Placement:
    """Return the placement with the new tensors, and a layer for each Mul behind that of the node it
    follows.
    """
    sites = tuple(replace(site, value=renamed.get(site.value, site.value)) for site in placement.sites)
    layers = []
    for layer in placement.layers:
        layers.append(layer)
        for mul in (added[name] for name in layer.nodes if name in added):
            reason = "it brings channels to like ranges for the int8 products behind it (smoothing)"
            layers.append(Layer(mul, "Mul", (mul,), "float", "Mul", reason))
    return replace(placement, sites=sites, layers=tuple(layers))

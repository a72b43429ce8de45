"""Insert nodes and initializers into a graph, replace nodes, and give out free names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, DTypeLike, NDArray

from intact.errors import FileFormatError
from intact.graph.core.proto import INFERRED, values_of, with_subgraphs
from intact.graph.ops.attributes import FIX, copy_attributes


class Namer:
    """Gives out names that no value of the graph has: ``w.scale``, then ``w.scale_1``, ...

    It reads the graph once: whoever adds nodes in a loop keeps one.

    Attributes:
        graph: The main graph of a model.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        graphs = with_subgraphs(graph)
        self._taken = {value.name for inner in graphs for value in values_of(inner)}
        self._taken |= {node.name for inner in graphs for node in inner}

    def __call__(self, wanted: str) -> str:
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


def tensor_of(array: NDArray, name: str | None, dtype: ir.DataType | None = None) -> ir.TensorProtocol:
    """Return an array as a tensor of a model; Python's strings become a tensor of strings, in UTF-8.

    Raises:
        TypeError: The array is of another type than `dtype`.
    """
    if array.dtype.kind != "O":
        return ir.Tensor(array, dtype=dtype, name=name)
    if dtype not in (None, ir.DataType.STRING):
        raise TypeError(f"{array.dtype} of type {dtype}")
    texts = [text.encode(errors="surrogateescape") for text in array.reshape(-1).tolist()]
    return ir.StringTensor(texts, shape=ir.Shape(array.shape), name=name)


def new_constant(graph: ir.Graph, name: str, array: ArrayLike, dtype: ir.DataType | None = None) -> ir.Value:
    """Add an initializer with an unused name to `graph`."""
    array = np.asarray(array)
    try:
        tensor = tensor_of(array, name, dtype)
    except TypeError as error:  # the file says of a constant another type than its nodes make
        want = "constants of the types that the file says"
        raise FileFormatError(f"'{name}'", f"{array.dtype} of type {dtype}", want, FIX) from error
    value = ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor
    )
    graph.register_initializer(value)
    return value


class Inserter:
    """Adds nodes beside one node of the graph, in the order of the calls.

    Args:
        graph: The graph that gets them.
        place: The node in front of which they go.
        names: Gives out their names.
        after: They go behind `place` instead.
        main: The main graph, which imports the operator sets; None: it is `graph`.
    """

    def __init__(
        self, graph: ir.Graph, place: ir.Node, names: Namer, *, after: bool = False,
        main: ir.Graph | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.names, self._place, self._after = graph, names, place, after
        self._imports = (main or graph).opset_imports

    def constant(self, name: str, array: ArrayLike, dtype: ir.DataType | None = None) -> ir.Value:
        """Add an initializer that holds `array`."""
        return new_constant(self.graph, self.names(name), array, dtype)

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        name: str,
        *,
        dtype: ir.DataType | None,
        shape: ir.Shape | None,
        domain: str = "",
        **attributes: Any,
    ) -> ir.Value:
        """Return the first output of a new node called `name`, as its output is."""
        name = self.names(name)
        type_ = None if dtype is None else ir.TensorType(dtype)
        output = ir.Value(name=name, type=type_, shape=shape)
        self._insert(ir.node(op_type, inputs, attributes, domain=domain, outputs=[output], name=name))
        return output

    def copy(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> tuple[ir.Value, ...]:
        """Add a node that does to `inputs` what `node`, which has no subgraph, does to its own.

        Return its outputs.
        """
        outputs = [
            ir.Value(name=self.names(f"{value.name or node.name}.copy"), type=value.type, shape=value.shape)
            for value in node.outputs
        ]
        name = self.names(f"{node.name}.copy")
        attributes = copy_attributes(node)
        self._insert(
            ir.node(node.op_type, inputs, attributes, domain=node.domain, outputs=outputs, name=name)
        )
        return tuple(outputs)

    def _insert(self, node: ir.Node) -> None:
        if node.domain:
            self._imports.setdefault(node.domain, 1)
        if self._after:
            self.graph.insert_after(self._place, node)
            self._place = node
        else:
            self.graph.insert_before(self._place, node)


def inserter_at(names: Namer, node: ir.Node) -> Inserter:
    """Return an inserter that adds nodes in front of a node of any graph of the names' model."""
    assert isinstance(node.graph, ir.Graph)
    return Inserter(node.graph, node, names, main=names.graph)


class Writer:
    """Writes one node as several others, which are inserted in front of it and named after it.

    Args:
        node: Of a graph.
        names: Gives out their names.
        dtype: Of what they make, where nothing else is said. Their shapes are left open.
    """

    def __init__(self, node: ir.Node, names: Namer, dtype: ir.DataType = ir.DataType.FLOAT) -> None:
        assert isinstance(node.graph, ir.Graph)
        self._node, self._insert = node, Inserter(node.graph, node, names)
        self._base, self.dtype = node.name or node.op_type, dtype

    def __call__(
        self, op_type: str, *inputs: ir.Value | None, dtype: ir.DataType | None = None, **attributes: Any
    ) -> ir.Value:
        """Return the first output of a node."""
        name = f"{self._base}.{op_type.lower()}"
        output_dtype = self.dtype if dtype is None else dtype
        return self._insert.node(op_type, inputs, name, dtype=output_dtype, shape=None, **attributes)

    def second_output(self, first: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Return the second output of the node that makes `first`, which had one."""
        node = first.producer()
        assert node is not None
        node.resize_outputs(2)
        second = node.outputs[1]
        second.name, second.type = self._insert.names(f"{first.name}.second"), ir.TensorType(dtype)
        return second

    def constant(self, array: ArrayLike, dtype: DTypeLike | None = None) -> ir.Value:
        """Add an initializer, by default of the dtype of the nodes."""
        array = np.asarray(array, self.dtype.numpy() if dtype is None else dtype)
        return self._insert.constant(f"{self._base}.constant", array)

    def sizes(self, *numbers: int) -> ir.Value:
        """Add an initializer of int64."""
        return self.constant(numbers, np.int64)

    def names(self, value: ir.Value) -> ir.Value:
        """Give `value`'s node the name of the decomposed one, under which reports show it."""
        node = value.producer()
        assert node is not None
        self._node.name, node.name = self._insert.names(f"{self._base}.whole"), self._base
        return value


def sum_of(write: Writer, *values: ir.Value | None) -> ir.Value:
    """Return the sum of those that are there, from left to right."""
    first, *rest = (value for value in values if value is not None)
    for value in rest:
        first = write("Add", first, value)
    return first


def drop_unused(graph: ir.Graph, *values: ir.Value | None) -> None:
    """Remove those of `values` that are initializers of `graph` and that nobody reads any more."""
    for value in values:
        if value is None or not value.name or not value.is_initializer():
            continue
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
            graph.initializers.pop(value.name, None)


def replace(node: ir.Node, value: ir.Value, names: Namer) -> None:
    """Let every reader of `node`'s only output read `value`, as `hand_over` does, and remove `node`."""
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    hand_over(node, node.outputs[0], value, names)
    graph.remove(node, safe=True)


def hand_over(node: ir.Node, output: ir.Value, value: ir.Value, names: Namer) -> None:
    """Let every reader of `output`, which `node` makes, read `value`.

    A graph output keeps its name: `value` takes it over, through an Identity where `value` is an output,
    an input or an initializer itself.
    """
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    if output.is_graph_output():
        if value.is_graph_output() or value.producer() is None:
            insert = Inserter(graph, node, names)
            value = insert.node("Identity", [value], "output", dtype=value.dtype, shape=value.shape)
        value.name, output.name = output.name, None
        if value.shape is None or value.type is None:  # what the file says of its output holds on
            value.shape, value.type = value.shape or output.shape, value.type or output.type
            value.meta.pop(INFERRED, None)
    output.replace_all_uses_with(value, replace_graph_outputs=True)


def is_read(value: ir.Value) -> bool:
    """Return whether a node reads `value`, or it is an output of the graph."""
    return bool(value.uses()) or value.is_graph_output()


def take_place(node: ir.Node, replacements: Sequence[ir.Value | None], names: Namer) -> None:
    """Replace the outputs of `node` by new values under the same names, and remove it.

    Args:
        node: Of a graph.
        replacements: By output; nobody else knows their names. None: nobody reads that output.
        names: See `hand_over`.
    """
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    for old, new in zip(node.outputs, replacements, strict=True):
        if new is None or not is_read(old):
            continue
        if not old.is_graph_output():  # else `hand_over` does the same
            new.name, old.name = old.name, None
        hand_over(node, old, new, names)
    graph.remove(node, safe=True)

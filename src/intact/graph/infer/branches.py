"""Extract the branches of an If as models, put them back, and find the inputs that select a branch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import tensor_of
from intact.graph.core.constants import Constants, foldable
from intact.graph.core.proto import all_nodes, show_type, values_of, with_subgraphs
from intact.graph.core.quantization_view import is_op
from intact.graph.core.scene import Scene
from intact.graph.infer.inference import HAS_SHAPES
from intact.graph.ops import attributes
from intact.graph.ops.attributes import subgraphs
from intact.processes import cached_property

SIDES = {"then_branch": True, "else_branch": False}
"""The branches of an If, and the condition under which each is taken."""


_AXES = 16
"""Of any tensor that a Resize has factors for."""


@dataclass(frozen=True, eq=False)
class Branch:
    """One branch of an If of the main graph.

    Attributes:
        around: The model that it is in.
        node: The If.
        side: "then_branch" or "else_branch".
        reads: Names of the values of the main graph that it reads, constants apart.
    """

    around: ir.Model
    node: ir.Node
    side: str
    reads: tuple[str, ...]

    @property
    def condition(self) -> bool:
        """Return the value of the If's condition with which the branch is taken."""
        return SIDES[self.side]

    @property
    def name(self) -> str:
        """The branch in words."""
        return f"{self.node.name}.{self.side}"

    @cached_property
    def model(self) -> ir.Model:
        """Extract the branch as a model of its own, on first use.

        Values that it reads of the main graph become inputs of the same names, or initializers where they are
        constant.
        """
        return _extract_branch(self.around, ops.If.branch(self.node, self.side))


def branches_of(model: ir.Model) -> Iterator[Branch]:
    """Yield the branches of the main graph's Ifs that can be extracted.

    Left out are those that hand on a value that they do not make, or read one that is no tensor or of unknown
    type.

    `model` may be changed between two of them, but for its nodes' names.
    """
    for node in [node for node in model.graph if is_op(node, "If")]:
        for side in SIDES:
            branch = ops.If.branch(node, side)
            inner_values, outer = {value for node in branch for value in node.outputs}, outer_values(branch)
            tensors = all(isinstance(value.type, ir.TensorType) for value in outer)
            if tensors and all(value in inner_values for value in branch.outputs):
                constants = Constants(model.graph)
                reads = tuple(value.name or "" for value in outer if value not in constants)
                yield Branch(model, node, side, reads)


def _extract_branch(model: ir.Model, branch: ir.Graph) -> ir.Model:
    """Build a model from a clone of `branch`; weights are shared."""
    constants, outer = Constants(model.graph), outer_values(branch)
    graph = branch.clone(allow_outer_scope_values=True)
    nodes = set(all_nodes(graph))
    for value in outer:
        stand_in = _constant(value, constants) if value in constants else _input(value)
        if stand_in.const_value is not None:
            graph.register_initializer(stand_in)
        else:
            graph.inputs.append(stand_in)
        for node, index in [use for use in value.uses() if use[0] in nodes]:
            node.replace_input_with(index, stand_in)
    for value in graph.outputs:
        show_type(value)
    graph.opset_imports.update(model.graph.opset_imports)
    cut = ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
    # Inference within the model told all that it can tell, but for what it did not know to be constant.
    cut.meta[HAS_SHAPES] = not any(value in constants and _steers_shapes(value) for value in outer)
    return cut


def _steers_shapes(value: ir.Value) -> bool:
    """Return whether a constant may steer shapes: integers, and factors for a few axes."""
    tensor = value.const_value
    return tensor is None or tensor.size <= _AXES or tensor.dtype in (ir.DataType.INT64, ir.DataType.INT32)


def inputs_behind(model: ir.Model, names: Sequence[str]) -> list[str]:
    """List the model inputs that the named values of its main graph are computed from."""
    wanted = set(names)
    for node in reversed(model.graph):
        if wanted.intersection(value.name for value in node.outputs):
            inside = [value for graph in subgraphs(node) for value in outer_values(graph)]
            wanted |= {value.name or "" for value in (*node.inputs, *inside) if value is not None}
    inputs = [value.name or "" for value in model.graph.inputs]
    return [name for name in inputs if name in wanted and name not in model.graph.initializers]


def _input(value: ir.Value) -> ir.Value:
    return ir.Value(name=value.name, type=value.type, shape=value.shape)


def _constant(value: ir.Value, constants: Constants) -> ir.Value:
    tensor = value.const_value
    if tensor is None:
        array = constants(value)
        assert array is not None
        tensor = tensor_of(array, value.name)
    type_ = ir.TensorType(tensor.dtype)
    return ir.Value(name=value.name, type=type_, shape=ir.Shape(tensor.shape.numpy()), const_value=tensor)


def outer_values(graph: ir.Graph) -> list[ir.Value]:
    """List the values of outer graphs that `graph`, and graphs within, read."""
    inner = {value for inner_graph in with_subgraphs(graph) for value in values_of(inner_graph)}
    read = (value for node in all_nodes(graph) for value in node.inputs)
    return list(dict.fromkeys(value for value in read if value is not None and value not in inner))


def extract_section(
    model: ir.Model, graphs: Sequence[ir.Graph], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> ir.Model:
    """Extract what computes values of a graph as a model in memory, which shares its weights with `model`.

    Args:
        model: Not changed.
        graphs: From the main graph inwards, the last one with `outputs`.
        inputs: Values of any of them, which become inputs.
        outputs: Values that depend on nothing but inputs and constants.
    """
    seen, waiting = set(inputs), list(outputs)
    needed, initializers = set[ir.Node](), list[ir.Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if (node := value.producer()) is None:
            initializers.append(value)
        elif node not in needed:
            needed.add(node)
            waiting += read_values(node)
    initializers.sort(key=lambda value: value.name or "")
    nodes = [node for graph in graphs for node in graph if node in needed]
    view = ir.GraphView(
        list(inputs), list(outputs), nodes=nodes, initializers=initializers, name=graphs[-1].name,
        opset_imports=model.graph.opset_imports,
    )  # fmt: skip
    return ir.Model(view.clone(), ir_version=model.ir_version, functions=list(model.functions.values()))


def read_values(node: ir.Node) -> list[ir.Value]:
    """List what a node reads, also in graphs within it; some values more than once."""
    values = [value for value in node.inputs if value is not None]
    return values + [value for graph in subgraphs(node) for value in outer_values(graph)]


def constants_of(graphs: Sequence[ir.Graph]) -> set[ir.Value]:
    """Return the values that depend on no input, in a graph and in those around it; computes nothing.

    Args:
        graphs: From the main graph inwards.
    """
    constants = set[ir.Value]()
    for graph in graphs:
        constants |= {value for value in graph.initializers.values() if not value.is_graph_input()}
        for node in graph:
            if all(value is None or value in constants for value in node.inputs) and foldable(node):
                constants.update(node.outputs)
    return constants


def graft(model: ir.Model, branch: Branch, part: ir.Model) -> None:
    """Replace a branch by `part`, a rewritten ``branch.model``, in place; `part` is used up.

    Values keep their names unless the main graph has them.
    """
    node = next(candidate for candidate in model.graph if candidate.name == branch.node.name)
    old = ops.If.branch(node, branch.side)
    old.remove(list(old))
    outer = {value.name: value for value in values_of(model.graph)}
    graph = part.graph
    for graph_input in list(graph.inputs):
        graph_input.replace_all_uses_with(outer[graph_input.name])
    names = Scene(model.graph).names
    for value in (value for candidate in with_subgraphs(graph) for value in values_of(candidate)):
        if value.name in outer and value not in graph.inputs:
            value.name = names(value.name or "")
    nodes, outputs, initializers = list(graph), list(graph.outputs), list(graph.initializers.values())
    graph.outputs.clear()
    graph.initializers.clear()
    graph.remove(nodes)
    new_branch = ir.Graph([], outputs, nodes=nodes, initializers=initializers, name=old.name)
    attributes.put(node, branch.side, new_branch)
    model.graph.opset_imports.update(part.graph.opset_imports)


def deciding_inputs(model: ir.Model) -> list[str]:
    """Find inputs of one integer or bool that alone, with input sizes, decide an If, also within a branch.

    A sample rate is such an input, or whether there is a cache.
    """
    ifs = list(_ifs(model.graph))
    if not ifs:
        return []
    inputs: dict[ir.Value, None] = {}
    constants = Constants(model.graph)
    for node in ifs:
        read = _sources(node.inputs[0], constants)
        if read is not None:
            inputs |= dict.fromkeys(read)
    return [value.name or "" for value in model.graph.inputs if value in inputs]


def ifs_by_input(model: ir.Model) -> set[str]:
    """Return the names of the Ifs whose condition follows from input sizes and such inputs alone."""
    constants = Constants(model.graph)
    return {node.name or "" for node in _ifs(model.graph) if _sources(node.inputs[0], constants) is not None}


def _ifs(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the Ifs of a graph and of their branches."""
    for node in graph:
        if is_op(node, "If"):
            yield node
            for branch in subgraphs(node):
                yield from _ifs(branch)


def _sources(condition: ir.Value | None, constants: Constants) -> list[ir.Value] | None:
    """Return the single numbers among the inputs that decide `condition`; None where anything else does."""
    waiting, seen, inputs = [condition], set[ir.Value](), list[ir.Value]()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen or value in constants:
            continue
        if value.const_value is not None and not value.is_graph_input():
            continue  # of a branch
        seen.add(value)
        node = value.producer()
        if value.is_graph_input() and _is_one_number(value):
            inputs.append(value)
        elif node is not None and is_op(node, "Shape", "Size"):
            continue
        elif node is not None and foldable(node):
            waiting.extend(node.inputs)
        else:
            return None
    return inputs


def _is_one_number(value: ir.Value) -> bool:
    sizes = None if value.shape is None else [n for n in value.shape if isinstance(n, int)]
    whole = value.dtype is not None and (value.dtype.is_integer() or value.dtype == ir.DataType.BOOL)
    return (
        whole and value.shape is not None and sizes is not None
        and len(sizes) == len(value.shape) and math.prod(sizes) == 1
    )  # fmt: skip

"""The traced module as an ONNX graph whose edges are those of the trace, and the placement on it.

The exporter sees the trace with one ``intact::Edge`` on every tensor that a call reads. The edges come out as
nodes, say which operator of the file belongs to which call, and are taken away before pairs are placed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from intact import graph as onnx_graph
from intact.graph import ops
from intact.graph.attributes import integer
from intact.placement import Placement, place
from intact.torch._collection import evaluating
from intact.torch.graph_mode.tracing import Traced, scope_of
from intact.torch.onnx_ops import translate

_DOMAIN = "intact"


@dataclass(frozen=True)
class Edge:
    """A tensor that a call reads: the `operand`-th node among the arguments of `reader`; names of nodes."""

    source: str
    reader: str
    operand: int


@dataclass
class Analysis:
    """An ONNX graph of the traced module, its placement, and how both fit together.

    Attributes:
        placement: Sites and layers; nodes are called like `label` of their call.
        edges: (ONNX node name, input index) -> the edge that it reads.
        owners: ONNX node name -> name of the call that it belongs to.
        labels: Call -> readable name: the module's path, or that of the caller and the function's name.
        outputs: What the model answers to the example, for comparison.
    """

    placement: Placement
    edges: dict[tuple[str, int], Edge]
    owners: dict[str, str]
    labels: dict[str, str]
    outputs: Any = field(repr=False)


def analyse(
    model: nn.Module,
    traced: Traced,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    profile: str,
    include: Sequence[str],
    exclude: Sequence[str],
) -> Analysis:
    """Export `traced` and place pairs on it.

    Raises:
        UnsupportedError: The exporter cannot write the model.
    """
    labels = _labels(traced.graph)
    with evaluating(model):
        record = _Recorder(model, traced)
        outputs = record.run(*args_of(traced.graph, args, kwargs, traced.fixed))
        marked = _Marked(model, traced, record.outputs).eval()
        flat = args_of(traced.graph, args, kwargs, traced.fixed)
        program = translate(marked, flat, opset=onnx_graph.NATIVE_OPSET)
    read = _Reading(program.model, marked.seen.edges, labels)
    placement = place(program.model, profile, include=_inside(include), exclude=_inside(exclude))
    return Analysis(placement, read.edges, read.owners, labels, outputs)


def _inside(patterns: Sequence[str]) -> list[str]:
    """Patterns that match what the given ones match, and everything inside it."""
    return [q for p in patterns for q in (p, f"{p}.*", f"{p}/*")]


def args_of(graph: fx.Graph, args: Sequence[Any], kwargs: Mapping[str, Any], fixed: Mapping[str, Any]) -> Any:
    """A call's arguments in the order of the graph's placeholders."""
    rest, found = list(args), []
    for node in graph.nodes:
        if node.op == "placeholder":
            name = str(node.target).lstrip("*")
            if rest:
                found.append(rest.pop(0))
            elif name in kwargs:
                found.append(kwargs[name])
            else:
                found.append(fixed.get(name))
    return tuple(found)


def _labels(graph: fx.Graph) -> dict[str, str]:
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            wanted = str(node.target)
        elif node.op in ("call_function", "call_method"):
            scope, name = scope_of(node), node.target if isinstance(node.target, str) else node.name
            if not isinstance(node.target, str):
                name = getattr(node.target, "__name__", name)
                name = node.name.rpartition("_")[0] or node.name if name == "fn" else name
            wanted = f"{scope}.{name}" if scope else str(name)
        else:
            wanted = node.name
        label, count = wanted, 0
        while label in taken:
            count += 1
            label = f"{wanted}_{count}"
        taken.add(label)
        labels[node.name] = label
    return labels


class _Recorder(fx.Interpreter):
    """Runs the trace and keeps what its leaves answer."""

    def __init__(self, model: nn.Module, traced: Traced) -> None:
        super().__init__(model, graph=traced.graph)
        self._leaves = traced.leaves
        self.outputs: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_module" and n.target in self._leaves:
            self.outputs[n.name] = value
        return value


@dataclass
class _Seen:
    """What `_Marked` works with; an object, as torch.export puts a module's lists back to what they were."""

    graph: fx.Graph
    leaf_outputs: dict[str, Any]
    edges: list[Edge] = field(default_factory=list)


class _Marked(nn.Module):
    """The trace with an edge on every tensor that is read, and one operator in place of each leaf."""

    def __init__(self, model: nn.Module, traced: Traced, leaf_outputs: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.seen = _Seen(traced.graph, dict(leaf_outputs))

    def forward(self, *args: Any) -> Any:
        self.seen.edges.clear()
        result = _Marker(self).run(*args)
        return [x for x in pytree.tree_leaves(result) if isinstance(x, Tensor)]


class _Marker(fx.Interpreter):
    def __init__(self, owner: _Marked) -> None:
        super().__init__(owner.model, graph=owner.seen.graph)
        self._seen = owner.seen

    def run_node(self, n: fx.Node) -> Any:
        if n.name not in self._seen.leaf_outputs:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        read = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]

        def stand_in(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return torch.onnx.ops.symbolic(f"{_DOMAIN}::Module", read, dtype=x.dtype, shape=x.shape)

        return pytree.tree_map(stand_in, self._seen.leaf_outputs[n.name])

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        place = iter(range(1 << 30))

        def load(source: fx.Node) -> Any:
            return self._read(source, n, next(place))

        return fx.node.map_arg((n.args, n.kwargs), load)

    def _read(self, source: fx.Node, reader: fx.Node, operand: int) -> Any:
        value = self.env[source]
        if reader.op == "output" or not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        edges = self._seen.edges
        edges.append(Edge(source.name, reader.name, operand))
        return torch.onnx.ops.symbolic(
            f"{_DOMAIN}::Edge", [value], {"id": len(edges) - 1}, dtype=value.dtype, shape=value.shape
        )


class _Reading:
    """Gives the nodes of an exported graph their owners' names, and takes the edges out."""

    def __init__(self, model: onnx_graph.Model, edges: Sequence[Edge], labels: Mapping[str, str]) -> None:
        self.edges: dict[tuple[str, int], Edge] = {}
        self.owners: dict[str, str] = {}
        self._numbered, self._labels = edges, labels
        nodes = list(model.graph)
        owners = self._find_owners(nodes)
        self._rename(nodes, owners)
        for node in nodes:
            if _is_edge(node):
                self._take_out(node)
                model.graph.remove(node, safe=True)
        self._spread(model)

    def _edge(self, node: onnx_graph.Node) -> Edge:
        return self._numbered[integer(node, "id", -1)]

    def _find_owners(self, nodes: Sequence[onnx_graph.Node]) -> dict[onnx_graph.Node, str]:
        owners: dict[onnx_graph.Node, str] = {}
        for node in nodes:
            for value in node.inputs:
                above = value.producer() if value is not None else None
                if above is None or _is_edge(node):
                    continue
                owner = self._edge(above).reader if _is_edge(above) else owners.get(above)
                if owner is not None:
                    owners[node] = owner
                    break
        return owners

    def _rename(self, nodes: Sequence[onnx_graph.Node], owners: Mapping[onnx_graph.Node, str]) -> None:
        taken = set[str]()
        for node in nodes:
            owner = owners.get(node)
            first = self._labels[owner] if owner is not None else ""
            wanted = first if first and first not in taken else f"{first or node.name}/{node.op_type}"
            name, count = wanted, 0
            while name in taken:
                count += 1
                name = f"{wanted}_{count}"
            taken.add(name)
            node.name = name
            if owner is not None:
                self.owners[name] = owner

    def _take_out(self, node: onnx_graph.Node) -> None:
        output, source = node.outputs[0], node.inputs[0]
        assert source is not None
        for use in output.uses():
            if not _is_edge(use.node):
                self.edges[use.node.name or "", use.idx] = self._edge(node)
        output.replace_all_uses_with(source, replace_graph_outputs=True)

    def _spread(self, model: onnx_graph.Model) -> None:
        """An operator inside a call that reads an edge through moves of data reads that edge too."""
        for node in model.graph:
            for index, value in enumerate(node.inputs):
                above = value.producer() if value is not None else None
                if above is None or (node.name or "", index) in self.edges or not _hands_on(above):
                    continue
                edge = self.edges.get((above.name or "", 0))
                if edge is not None and edge.reader == self.owners.get(node.name or ""):
                    self.edges[node.name or "", index] = edge


def _hands_on(node: onnx_graph.Node) -> bool:
    """Whether a node is how the exporter writes a tensor of other sizes or of another type."""
    return ops.may_move(node, keeps_all=True) or onnx_graph.is_op(node, "Cast")


def _is_edge(node: onnx_graph.Node) -> bool:
    return (node.domain, node.op_type) == (_DOMAIN, "Edge")

"""Decompose the calls of a traced program that have no ONNX form, one at a time.

torch's exporter traces the whole program again for that, which takes as long as the first trace. With dynamic
shapes it takes several times as long.
"""

from __future__ import annotations

import copy
import operator
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx

from intact.torch.private_torch import (
    ASSERTION_OPERATORS,
    DECOMPOSITION_PARTS,
    DECOMPOSITION_TABLE,
    IS_PRESERVABLE,
    KEEP_COMPOSITE,
    OVERRIDE_COMPOSITES,
    SPLIT_DECOMPOSITIONS,
    OperatorBase,
    OpOverload,
    detect_fake_mode,
    enable_python_dispatcher,
    has_composite_kernel,
    pytree,
    set_graph_module,
)
from intact.torch.tracing.functionalize import NeedsRetrace, is_writing, make_functional

__all__ = ["decompose_calls"]

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def decompose_calls(program: ExportedProgram, registry: Any) -> ExportedProgram | None:
    """Return `program` with calls that torch's exporter can write; None where it must be traced again for
    that.

    Calls that write into tensors become calls that return new tensors. A call without an ONNX form becomes
    what PyTorch's decompositions make of it, as in `ExportedProgram.run_decompositions`.

    Args:
        program: As torch.export makes it; it is left alone.
        registry: torch's `ONNXRegistry`.
    """
    if any(part.find() is None for part in DECOMPOSITION_PARTS):
        return None  # another version of torch
    try:
        decomposed = _copy_program(program)
        make_functional(decomposed.graph)
        _Decomposition(decomposed.graph_module, registry).run()
    except NeedsRetrace:
        return None
    return decomposed


def _copy_program(program: ExportedProgram) -> ExportedProgram:
    """Return `program` with a graph of its own."""
    if len(list(program.graph_module.modules())) > 1:
        raise NeedsRetrace  # branches and loops
    copied = copy.copy(program)
    graph, nodes = fx.Graph(), dict[fx.Node, fx.Node]()
    outputs = graph.graph_copy(program.graph, nodes)
    graph.output(outputs).meta = dict(program.graph.output_node().meta)
    for node, copied_node in nodes.items():
        copied_node.name = node.name  # which the signature knows
    module = fx.GraphModule(program.graph_module, graph)
    module.meta.update(program.graph_module.meta)
    set_graph_module(copied, module)
    return copied


class _Decomposition:
    def __init__(self, module: fx.GraphModule, registry: Any) -> None:
        self._module, self._graph, self._registry = module, module.graph, registry
        onnx_targets = {entries[0].fx_target for entries in registry.functions.values()}
        self._composites, self._parts = _tables(frozenset(onnx_targets))
        self._traces: dict[Any, fx.Graph] = {}
        self._renamed: set[fx.Node] = set()

    def run(self) -> None:
        lacking = [node for node in self._graph.nodes if not self._has_onnx_form(node)]
        if lacking:
            with OVERRIDE_COMPOSITES.require()(self._composites):
                for node in lacking:
                    self._replace(node)
        self._graph.eliminate_dead_code()
        self._module.recompile()

    def _has_onnx_form(self, node: fx.Node) -> bool:
        if node.op != "call_function" or not isinstance(node.target, OperatorBase):
            return True
        if not isinstance(node.target, OpOverload):
            raise NeedsRetrace  # a call that holds graphs
        writable = self._registry.is_registered(node.target) and not _is_decomposed(node.target)
        return writable or node.target in ASSERTION_OPERATORS

    def _replace(self, node: fx.Node) -> None:
        """Put the parts of `node` in its place."""
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        values = [leaf.meta["val"] if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
        key = node.target, str(spec), tuple(map(_describe_operand, values))
        if key not in self._traces:
            self._traces[key] = self._trace_parts(node, values, spec)
        trace = self._traces[key]
        operands = (leaf for leaf in leaves if isinstance(leaf, fx.Node))
        nodes: dict[fx.Node, fx.Node] = {}
        with self._graph.inserting_before(node):
            for part in trace.nodes:
                if part.op == "placeholder":
                    nodes[part] = next(operands)
                elif part.op == "call_function":
                    nodes[part] = self._graph.node_copy(part, nodes.__getitem__)
                    nodes[part].meta = {**node.meta, "val": part.meta.get("val")}
        self._replace_uses(node, fx.map_arg(trace.output_node().args[0], nodes.__getitem__))

    def _trace_parts(self, node: fx.Node, values: list[Any], spec: pytree.TreeSpec) -> fx.Graph:
        """Return the parts of the call `node`: a graph with a placeholder for each node that it reads."""
        places = [i for i, value in enumerate(values) if isinstance(value, (Tensor, *_SYMBOLS))]

        def call(*tensors: Any) -> Any:
            leaves = list(values)
            for place, value in zip(places, tensors, strict=True):
                leaves[place] = value
            args, kwargs = pytree.tree_unflatten(leaves, spec)
            return node.target(*args, **kwargs)  # type: ignore[operator]

        mode = detect_fake_mode(pytree.tree_leaves((values, node.meta["val"])))
        if mode is None:
            raise NeedsRetrace
        try:
            with torch.no_grad(), mode, enable_python_dispatcher():
                trace = make_fx(call, decomposition_table=self._parts)
                graph = trace(*(values[place] for place in places)).graph
        except Exception as error:  # whatever a decomposition asks of tensors without values
            raise NeedsRetrace from error
        graph.eliminate_dead_code()
        for part in graph.nodes:
            if part.op == "get_attr" or is_writing(part) or not self._has_onnx_form(part):
                raise NeedsRetrace
        return graph

    def _replace_uses(self, node: fx.Node, replacement: Any) -> None:
        """Make users of `node` read `replacement`, a node or several."""
        if isinstance(replacement, (tuple, list)):
            for user in list(node.users):
                if user.target is not operator.getitem:
                    raise NeedsRetrace
                self._replace_uses(user, replacement[user.args[1]])  # type: ignore[index]
        else:
            if any(user.op == "output" for user in node.users):
                self._swap_names(node, replacement)
            node.replace_all_uses_with(replacement)
        self._graph.erase_node(node)

    def _swap_names(self, node: fx.Node, replacement: fx.Node) -> None:
        """Give the name of `node` to `replacement`, because a model's outputs are known by their names."""
        if replacement.op == "placeholder" or replacement in self._renamed:
            raise NeedsRetrace
        self._renamed.add(replacement)
        replacement.name, node.name = node.name, replacement.name


@lru_cache(maxsize=4)
def _tables(onnx_targets: frozenset[Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the composite operators that a trace keeps, and the decompositions of other operators.

    Args:
        onnx_targets: Operators with an ONNX form.
    """
    table: Any = DECOMPOSITION_TABLE.require()(set(onnx_targets))
    composites, parts = SPLIT_DECOMPOSITIONS.require()(table)
    keep = KEEP_COMPOSITE.require()
    return {op: mark for op, mark in composites.items() if mark is keep}, parts


@cache
def _is_decomposed(operator: OpOverload) -> bool:
    """Return whether a trace sees the parts of an operator: of a composite one that may return a view."""
    name: str = operator.name()  # type: ignore[no-untyped-call]
    return has_composite_kernel(name) and not IS_PRESERVABLE.require()(operator)


def _describe_operand(value: Any) -> Any:
    """Describe the properties of an operand that decide which calls a decomposition makes."""
    if isinstance(value, Tensor):
        return value.dtype, value.device, str(value.shape), str(value.stride()), str(value.storage_offset())
    return type(value), str(value)

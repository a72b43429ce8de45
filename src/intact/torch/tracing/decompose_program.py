"""Decompose the calls of a traced program that ONNX has no form of, each by itself.

torch's exporter traces the whole program once more for that, which takes as long as the first trace; with
sizes that are open, several times as long.
"""

from __future__ import annotations

import copy
import operator
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher
from torch._export import utils as export_utils
from torch._guards import detect_fake_mode
from torch._ops import OperatorBase, OpOverload
from torch.export import ExportedProgram, exported_program
from torch.fx.experimental.proxy_tensor import make_fx
from torch.onnx._internal.exporter import _decomp
from torch.utils import _pytree as pytree

from intact.torch.tracing.assertions import CHECKS
from intact.torch.tracing.functionalize import NeedsRetrace, make_functional, writes

__all__ = ["decompose_calls"]

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


_NEEDED = {
    exported_program: (
        "_override_composite_implicit_decomp", "_special_op_to_preserve_cia",
        "_split_decomp_table_to_cia_and_python_decomp",
    ),
    export_utils: ("_is_preservable_cia_op",),
    _decomp: ("create_onnx_friendly_decomposition_table",),
}  # fmt: skip
"""What is used of torch's own parts."""


def decompose_calls(program: ExportedProgram, registry: Any) -> ExportedProgram | None:
    """`program` with calls that torch's exporter can write; None where it must be traced again for that.

    Calls that write into tensors become those that answer new ones. A call without an ONNX form becomes
    what PyTorch's decompositions make of it, as in `ExportedProgram.run_decompositions`.

    Args:
        program: As torch.export makes it; it is left alone.
        registry: torch's `ONNXRegistry`.
    """
    if not all(hasattr(module, name) for module, names in _NEEDED.items() for name in names):
        return None  # another version of torch
    try:
        done = _copied(program)
        make_functional(done.graph)
        _Decomposition(done.graph_module, registry).run()
    except NeedsRetrace:
        return None
    return done


def _copied(program: ExportedProgram) -> ExportedProgram:
    """`program` with a graph of its own."""
    if len(list(program.graph_module.modules())) > 1:
        raise NeedsRetrace  # branches and loops
    done = copy.copy(program)
    graph, nodes = fx.Graph(), dict[fx.Node, fx.Node]()
    answers = graph.graph_copy(program.graph, nodes)
    graph.output(answers).meta = dict(program.graph.output_node().meta)
    for node, made in nodes.items():
        made.name = node.name  # which the signature knows
    done._graph_module = fx.GraphModule(program.graph_module, graph)
    done._graph_module.meta.update(program.graph_module.meta)
    return done


class _Decomposition:
    def __init__(self, module: fx.GraphModule, registry: Any) -> None:
        self._module, self._graph, self._registry = module, module.graph, registry
        known = {entries[0].fx_target for entries in registry.functions.values()}
        self._kept, self._parts = _tables(frozenset(known))
        self._traces: dict[Any, fx.Graph] = {}
        self._named: set[fx.Node] = set()

    def run(self) -> None:
        lacking = [node for node in self._graph.nodes if not self._has_form(node)]
        if lacking:
            with exported_program._override_composite_implicit_decomp(self._kept):
                for node in lacking:
                    self._replace(node)
        self._graph.eliminate_dead_code()
        self._module.recompile()

    def _has_form(self, node: fx.Node) -> bool:
        if node.op != "call_function" or not isinstance(node.target, OperatorBase):
            return True
        if not isinstance(node.target, OpOverload):
            raise NeedsRetrace  # a call that holds graphs
        known = self._registry.is_registered(node.target) and not _is_opened(node.target)
        return known or node.target in CHECKS

    def _replace(self, node: fx.Node) -> None:
        """Put what `node` is made of in its place."""
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        values = [leaf.meta["val"] if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
        key = node.target, str(spec), tuple(map(_described, values))
        if key not in self._traces:
            self._traces[key] = self._traced(node, values, spec)
        trace = self._traces[key]
        given = (leaf for leaf in leaves if isinstance(leaf, fx.Node))
        nodes: dict[fx.Node, fx.Node] = {}
        with self._graph.inserting_before(node):
            for part in trace.nodes:
                if part.op == "placeholder":
                    nodes[part] = next(given)
                elif part.op == "call_function":
                    nodes[part] = self._graph.node_copy(part, nodes.__getitem__)
                    nodes[part].meta = {**node.meta, "val": part.meta.get("val")}
        self._exchange(node, fx.map_arg(trace.output_node().args[0], nodes.__getitem__))

    def _traced(self, node: fx.Node, values: list[Any], spec: pytree.TreeSpec) -> fx.Graph:
        """What the call `node` is made of: a graph with a placeholder for each node that it reads."""
        places = [i for i, value in enumerate(values) if isinstance(value, (Tensor, *_SYMBOLS))]

        def call(*given: Any) -> Any:
            leaves = list(values)
            for place, value in zip(places, given, strict=True):
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
            if part.op == "get_attr" or writes(part) or not self._has_form(part):
                raise NeedsRetrace
        return graph

    def _exchange(self, node: fx.Node, made: Any) -> None:
        """Let `made`, a node or several, be what others have read of `node`."""
        if isinstance(made, (tuple, list)):
            for user in list(node.users):
                if user.target is not operator.getitem:
                    raise NeedsRetrace
                self._exchange(user, made[user.args[1]])  # type: ignore[index]
        else:
            if any(user.op == "output" for user in node.users):
                self._hand_on_name(node, made)
            node.replace_all_uses_with(made)
        self._graph.erase_node(node)

    def _hand_on_name(self, node: fx.Node, made: fx.Node) -> None:
        """What the model answers is known by its name."""
        if made.op == "placeholder" or made in self._named:
            raise NeedsRetrace
        self._named.add(made)
        made.name, node.name = node.name, made.name


@lru_cache(maxsize=4)
def _tables(known: frozenset[Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Composite operators that a trace keeps, and what other operators are made of, if these are `known`."""
    table: Any = _decomp.create_onnx_friendly_decomposition_table(set(known))
    composites, parts = exported_program._split_decomp_table_to_cia_and_python_decomp(table)
    keep = getattr(exported_program, "_special_op_to_preserve_cia")  # noqa: B009  # mypy: it is imported there
    return {op: made for op, made in composites.items() if made is keep}, parts


@cache
def _is_opened(operator: OpOverload) -> bool:
    """Whether a trace sees the parts of an operator: of a composite one that may answer a view."""
    name: str = operator.name()  # type: ignore[no-untyped-call]
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    return composite and not export_utils._is_preservable_cia_op(operator)


def _described(value: Any) -> Any:
    """What of an operand decides which calls a decomposition makes."""
    if isinstance(value, Tensor):
        return value.dtype, value.device, str(value.shape), str(value.stride()), str(value.storage_offset())
    return type(value), str(value)

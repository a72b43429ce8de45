"""Turn calls of a traced program that write into tensors into calls that return new tensors."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, fx

from intact.torch.private_torch import OpOverload, pytree, schema_of, storage_id

__all__ = ["NeedsRetrace", "make_functional", "is_writing"]


class NeedsRetrace(Exception):
    """Raised where the program cannot be changed call by call."""


def is_writing(node: fx.Node) -> bool:
    """Return whether `node` is a call that writes into a tensor."""
    return isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable


def make_functional(graph: fx.Graph) -> None:
    """Turn calls that write into a tensor into calls that return a new one, which later calls read.

    That holds only where later calls read that memory through the tensor as it is: no part of it, and no
    view.

    Raises:
        NeedsRetrace: A call writes into a parameter or an input, or a part of what it writes is read later.
    """
    nodes = list(graph.nodes)
    writing = [node for node in nodes if is_writing(node)]
    if any(
        node.target in _WRITES_STATISTICS and node.args[_WRITES_STATISTICS[node.target]] for node in nodes
    ):
        raise NeedsRetrace  # running means are written
    if not writing:
        return
    order = {node: place for place, node in enumerate(nodes)}
    memory = _Memory(nodes)
    for node in writing:
        functional = _functional(node)
        if node.target is torch.ops.aten.detach_.default:  # it writes no value
            node.target = functional
            continue
        target = node.args[0]
        if not isinstance(target, fx.Node) or not _keeps_type(node):
            raise NeedsRetrace
        for alias in memory.nodes_sharing(node):
            if alias.op != "call_function":
                raise NeedsRetrace
            later = [user for user in alias.users if order[user] > order[node]]
            if alias is node or order[alias] > order[node] or not later:
                continue
            if not _is_same(alias, node):
                raise NeedsRetrace
            for user in later:
                user.replace_input_with(alias, node)
        node.target = functional


_WRITES_STATISTICS = {torch.ops.aten.batch_norm.default: 5, torch.ops.aten.instance_norm.default: 5}
"""Operator -> position of the argument that, if true, makes it write statistics. Their schemas do
not say so.
"""


_MAY_RETURN_OPERAND = {
    torch.ops.aten.dropout.default, torch.ops.aten.alpha_dropout.default,
    torch.ops.aten.feature_dropout.default, torch.ops.aten.feature_alpha_dropout.default,
    torch.ops.aten.conj_physical.default,
    *(getattr(torch.ops.aten, f"atleast_{rank}d").default for rank in (1, 2, 3)),
}  # fmt: skip
"""Operators that return their operand itself where they change nothing. Their schemas do not say so."""


def _functional(node: fx.Node) -> OpOverload:
    """Return the functional form of an operator that writes into a tensor."""
    schema = schema_of(node.target)
    namespace, _, name = schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    functional = getattr(packet, schema.overload_name or "default", None)
    written_arguments = [x for x in schema.arguments if x.alias_info and x.alias_info.is_write]
    plain = written_arguments == [schema.arguments[0]] and len(schema.returns) == 1
    if not name.endswith("_") or functional is None or not plain:
        raise NeedsRetrace
    functional_schema = schema_of(functional)
    if functional_schema.is_mutable or _options(functional_schema) != _options(schema):
        raise NeedsRetrace
    return functional  # type: ignore[no-any-return]


def _options(schema: Any) -> list[str]:
    """Return the names of an operator's arguments behind the first one."""
    return [argument.name for argument in schema.arguments[1:]]


def _keeps_type(node: fx.Node) -> bool:
    """Return whether no operand is of another type than the written tensor, whose type the result has."""
    kind = node.meta["val"].dtype
    return all(
        x.meta["val"].dtype == kind for x in node.all_input_nodes if isinstance(x.meta.get("val"), Tensor)
    )


def _is_same(a: fx.Node, b: fx.Node) -> bool:
    """Return whether two nodes in the same memory are the same tensor."""
    x, y = a.meta["val"], b.meta["val"]
    return isinstance(x, Tensor) and _layout(x) == _layout(y)


def _layout(x: Tensor) -> Any:
    return x.dtype, x.shape, x.stride(), x.storage_offset()


class _Memory:
    """Tells which tensors of a program lie in the same memory."""

    def __init__(self, nodes: list[fx.Node]) -> None:
        self._places: dict[int, int] = {}
        self._nodes: dict[int, list[fx.Node]] = defaultdict(list)
        for node in nodes:
            if node.op == "call_function" and "val" not in node.meta and node.users:
                raise NeedsRetrace
            if node.target in _MAY_RETURN_OPERAND:
                for other in node.all_input_nodes:  # the result may be the operand itself
                    for x in self._storages(other):
                        self._places[self._first(x)] = self._first(self._storages(node)[0])
        for node in nodes:
            for x in {self._first(x) for x in self._storages(node)}:
                self._nodes[x].append(node)

    def nodes_sharing(self, node: fx.Node) -> list[fx.Node]:
        """Return all nodes in the memory of `node`, itself among them."""
        return self._nodes[self._first(self._storages(node)[0])]

    def _first(self, storage: int) -> int:
        while (other := self._places.get(storage, storage)) != storage:
            storage = other
        return storage

    @staticmethod
    def _storages(node: fx.Node) -> list[int]:
        """Return the storages of the tensors that a node returns."""
        leaves: list[Any] = pytree.tree_leaves(node.meta.get("val"))
        return [storage_id(x) for x in leaves if isinstance(x, Tensor)]

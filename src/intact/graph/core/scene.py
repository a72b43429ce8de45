"""`Scene`: a graph while it is rewritten, with free names and constants. `Note`: what a rewrite did."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import onnx_ir as ir

from intact.graph.core.build import Inserter, Namer, replace
from intact.graph.core.constants import Constants
from intact.processes import cached_property


@dataclass(frozen=True)
class Note:
    """One line of a rewrite's record.

    Attributes:
        node: Name of the node; "": the whole graph.
        what: What was done with it, or why it was left as it is; a clause without a final period.
        changed: Whether it was changed.
        rewrite: Name of the rewrite.
    """

    node: str
    what: str
    changed: bool = True
    rewrite: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.rewrite, self.node, self.what) if part)


class Scene:
    """A graph while it is rewritten.

    Attributes:
        graph: Main graph of a model.
        added: Values that were added for several nodes, by what tells them apart.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.added: dict[Hashable, ir.Value] = {}

    @cached_property
    def names(self) -> Namer:
        """Gives out free names, each once."""
        return Namer(self.graph)

    @cached_property
    def constants(self) -> Constants:
        """The constants of the graph as it was at the first access, or the first since `forget_constants`."""
        return Constants(self.graph)

    def forget_constants(self) -> None:
        """Find constants anew at the next access: nodes that were none became some."""
        self.__dict__.pop("constants", None)

    def inserter(self, node: ir.Node, *, after: bool = False) -> Inserter:
        """Return an inserter that adds nodes in front of `node`, or behind it."""
        return Inserter(self.graph, node, self.names, after=after)

    def replace(self, node: ir.Node, value: ir.Value) -> None:
        """Let every reader of the only output of `node` read `value`, and remove `node`."""
        replace(node, value, self.names)

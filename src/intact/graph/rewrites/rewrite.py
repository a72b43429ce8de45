"""`Rewrite`: what is done with the nodes of a kind; one record for each, and one driver for all.

A rewrite says which nodes it is for, what it needs of the graph, and what is done with one node. Everything
else is the driver's: finding nodes, giving out names, opsets, shapes of what is new, checks, notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import onnx_ir as ir

from intact.graph.core.build import Namer
from intact.graph.core.constants import Constants
from intact.graph.core.invariants import check_after
from intact.graph.core.notes import Note
from intact.graph.core.proto import forget_domain
from intact.graph.core.prune import prune
from intact.graph.infer.inference import refresh_shapes
from intact.graph.opset.raising import raise_opset


@dataclass(frozen=True)
class Stays:
    """Why a node stays as it is.

    Attributes:
        why: A clause without a final period.
    """

    why: str


Outcome = str | Stays | None
"""What was done with a node, why it stays, or None: the rewrite is for others of its kind."""


class Scene:
    """What a rewrite sees beside its node.

    Attributes:
        graph: The main graph of the model.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph

    @cached_property
    def names(self) -> Namer:
        """Gives out names; one for all nodes."""
        return Namer(self.graph)

    @cached_property
    def constants(self) -> Constants:
        """The constants of the graph as it was when a rewrite first asked."""
        return Constants(self.graph)


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of nodes of the main graph, in place; the graph computes the same as before.

    Attributes:
        name: An imperative clause, as lists of rewrites and notes show it.
        apply: Rewrites one node, or leaves it. It may remove others.
        operators: Types of the nodes that it is for.
        domains: Theirs; one of which no node is left is forgotten.
        matches: Which of these nodes it is for; None: all.
        opset: The least opset of ONNX's domain that it writes; an older model is brought to that first.
        prepare: Tells the graph what `apply` reads, before the first node.
        infers: Whether shapes and types are inferred behind it, for what it wrote says none.
        prunes: Whether it leaves nodes that nobody reads.
    """

    name: str
    apply: Callable[[ir.Node, Scene], Outcome]
    operators: tuple[str, ...]
    domains: tuple[str, ...] = ("",)
    matches: Callable[[ir.Node], bool] | None = None
    opset: int = 0
    prepare: Callable[[ir.Model], None] | None = None
    infers: bool = False
    prunes: bool = False

    def __call__(self, model: ir.Model) -> list[Note]:
        """Rewrite all nodes that it is for, in the order of the graph.

        Args:
            model: Changed in place.
        Returns:
            One note for each node that was rewritten, or that stays for a reason.
        """
        nodes = [node for node in model.graph if self.is_for(node)]
        if not nodes:
            return []
        if model.opset_imports.get("", 0) < self.opset:
            raise_opset(model, self.opset)
        if self.prepare is not None:
            self.prepare(model)
        scene, notes = Scene(model.graph), list[Note]()
        for node in nodes:
            name = node.name or node.op_type
            outcome = self.apply(node, scene) if node.graph is model.graph else None
            if isinstance(outcome, Stays):
                notes.append(Note(name, outcome.why, changed=False, rewrite=self.name))
            elif outcome is not None:
                notes.append(Note(name, outcome, rewrite=self.name))
        if any(note.changed for note in notes):
            self._finish(model)
        return notes

    def is_for(self, node: ir.Node) -> bool:
        """Whether the rewrite looks at a node."""
        known = node.domain in self.domains and node.op_type in self.operators
        return known and (self.matches is None or self.matches(node))

    def _finish(self, model: ir.Model) -> None:
        for domain in filter(None, self.domains):
            forget_domain(model, domain)
        if self.prunes:
            prune(model)
        if self.infers:
            refresh_shapes(model)
        check_after(model, self.name)


@dataclass(frozen=True)
class Pass:
    """A change of a whole graph, in place, in a list with rewrites.

    Attributes:
        name: An imperative clause.
        run: Changes the model; says node by node what it did.
    """

    name: str
    run: Callable[[ir.Model], Iterable[Note]]

    def __call__(self, model: ir.Model) -> list[Note]:
        """Change `model`, and check it where every pass is checked."""
        notes = [replace(note, rewrite=note.rewrite or self.name) for note in self.run(model)]
        check_after(model, self.name)
        return notes


Stage = Rewrite | Pass


def silent(name: str, run: Callable[[ir.Model], object]) -> Pass:
    """A pass that has nothing to say."""

    def change(model: ir.Model) -> tuple[Note, ...]:
        run(model)
        return ()

    return Pass(name, change)


def run_stages(model: ir.Model, stages: Iterable[Stage]) -> list[Note]:
    """Run rewrites and passes in order, in place.

    Returns:
        What they did, one note for a node.
    """
    return [note for stage in stages for note in stage(model)]

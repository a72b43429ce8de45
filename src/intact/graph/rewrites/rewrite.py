"""`Rewrite`, the record of one rewrite of nodes of a kind, and the driver that applies all of them.

A rewrite says which nodes it is for, what it needs of the graph, what is done with one node, and what holds
behind it. Everything else is the driver's: finding nodes, giving out names, opsets, shapes of what is new,
checks, notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import onnx_ir as ir

from intact.errors import UnsupportedError
from intact.graph.core.edit import rank_of
from intact.graph.core.error_text import naming_errors
from intact.graph.core.invariants import FIX, check_graph, checks_every_pass
from intact.graph.core.proto import forget_domain
from intact.graph.core.prune import prune
from intact.graph.core.scene import Note
from intact.graph.core.scene import Scene as Scene
from intact.graph.infer.inference import refresh_shapes
from intact.graph.opset.upgrade import upgrade_opset


@dataclass(frozen=True)
class Stays:
    """Carries the reason why a node stays as it is.

    Attributes:
        why: A clause without a final period.
    """

    why: str


Outcome = str | Stays | None
"""Result for one node: the change, the reason why it stays, or None where the rewrite does not apply."""


@dataclass(frozen=True)
class Requires:
    """Preconditions of a rewrite. The driver establishes them before the first node.

    Attributes:
        opset: The least opset of ONNX's domain; an older model is upgraded to it.
        ranks: Indices of inputs whose number of axes must be known; other nodes stay.
        prepare: Changes the graph so that the rewrite finds what it reads.
    """

    opset: int = 0
    ranks: tuple[int, ...] = ()
    prepare: Callable[[ir.Model], None] | None = None

    def is_met(self, node: ir.Node) -> bool:
        """Return whether the inputs of `node` have known ranks, as far as they are needed."""
        return all(i < len(node.inputs) and rank_of(node.inputs[i]) is not None for i in self.ranks)


@dataclass(frozen=True)
class Ensures:
    """Postconditions of a rewrite that changed a node.

    Attributes:
        gone: No node that it is for is left, but those for which a note says why. Tests check it.
        shapes: Values have types and shapes as far as operators tell them: the driver infers them.
        read: Every node is read: the driver removes what the rewrite left over.
        domains: A domain of which no node is left is not imported any more.
    """

    gone: bool = False
    shapes: bool = False
    read: bool = False
    domains: bool = True


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of nodes of the main graph, in place; the graph computes the same as before.

    Attributes:
        name: An imperative clause, as lists of rewrites and notes show it.
        apply: Rewrites one node, or leaves it. It may remove others.
        operators: Types of the nodes that it is for; none: those that `matches` says.
        domains: Domains of these types.
        matches: Which of these nodes it is for; None: all.
        requires: What it needs before the first node.
        ensures: What holds behind the last one.
        backwards: Nodes come in the reverse order of the graph.
    """

    name: str
    apply: Callable[[ir.Node, Scene], Outcome]
    operators: tuple[str, ...]
    domains: tuple[str, ...] = ("",)
    matches: Callable[[ir.Node], bool] | None = None
    requires: Requires = Requires()
    ensures: Ensures = Ensures()
    backwards: bool = False

    def __call__(self, model: ir.Model) -> list[Note]:
        """Rewrite all nodes that it is for, in the order of the graph.

        Args:
            model: Changed in place.
        Returns:
            One note for each node that was rewritten, or that stays for a reason.
        Raises:
            UnsupportedError: Where passes are checked: the graph is not as it should be behind it.
        """
        types = frozenset(self.operators)  # most rewrites find none: a graph is walked fast
        nodes = [node for node in model.graph if not types or node.op_type in types]
        nodes = [node for node in nodes if self.is_for(node)]
        if not nodes:
            return []
        before = _interface(model)
        if model.opset_imports.get("", 0) < self.requires.opset:
            upgrade_opset(model, self.requires.opset)
        if self.requires.prepare is not None:
            self.requires.prepare(model)
        scene, notes = Scene(model.graph), list[Note]()
        for node in reversed(nodes) if self.backwards else nodes:
            name = node.name or node.op_type
            is_ready = node.graph is model.graph and self.requires.is_met(node)
            with naming_errors(f"node '{node.name}' ({node.op_type})"):
                outcome = self.apply(node, scene) if is_ready else None
            if isinstance(outcome, Stays):
                notes.append(Note(name, outcome.why, changed=False, rewrite=self.name))
            elif outcome is not None:
                notes.append(Note(name, outcome, rewrite=self.name))
        if self.ensures.domains:
            for domain in filter(None, self.domains):
                forget_domain(model, domain)
        if any(note.changed for note in notes):
            if self.ensures.read:
                prune(model)
            if self.ensures.shapes:
                refresh_shapes(model)
            if checks_every_pass():
                self._check(model, before, notes)
        return notes

    def is_for(self, node: ir.Node) -> bool:
        """Return whether the rewrite looks at a node."""
        is_listed = node.domain in self.domains and (not self.operators or node.op_type in self.operators)
        return is_listed and (self.matches is None or self.matches(node))

    def _check(self, model: ir.Model, before: list[object], notes: list[Note]) -> None:
        """Refuse a graph that is not as the rewrite promises."""
        check_graph(model, self.name)
        if _interface(model) != before:
            got = f"inputs or outputs of other names or types after '{self.name}'"
            raise UnsupportedError("graph", got, "those of the model", FIX)
        explained = {note.node for note in notes if not note.changed}
        for node in model.graph if self.ensures.gone else ():
            if self.is_for(node) and self.requires.is_met(node) and node.name not in explained:
                where = f"node '{node.name}' ({node.op_type})"
                raise UnsupportedError(where, f"left by '{self.name}'", "a reason why it stays", FIX)


def _interface(model: ir.Model) -> list[object]:
    """Return names and types of inputs and outputs."""
    return [(value.name, value.dtype) for value in (*model.graph.inputs, *model.graph.outputs)]


@dataclass(frozen=True)
class Pass:
    """A change of a whole graph, in place, in a list with rewrites.

    Attributes:
        name: An imperative clause.
        run: Changes the model; says node by node what it did.
        shapes: The driver infers shapes again where it has something to say.
    """

    name: str
    run: Callable[[ir.Model], Iterable[Note]]
    shapes: bool = False

    def __call__(self, model: ir.Model) -> list[Note]:
        """Change `model`, and check it where every pass is checked."""
        with naming_errors(f"graph: '{self.name}'"):
            notes = [replace(note, rewrite=note.rewrite or self.name) for note in self.run(model)]
        if self.shapes and notes:
            refresh_shapes(model)
        if checks_every_pass():
            check_graph(model, self.name)
        return notes


Stage = Rewrite | Pass


def silent(name: str, run: Callable[[ir.Model], object]) -> Pass:
    """Make a pass without notes."""

    def change(model: ir.Model) -> tuple[Note, ...]:
        run(model)
        return ()

    return Pass(name, change)


def run_stages(model: ir.Model, stages: Iterable[Stage]) -> list[Note]:
    """Run rewrites and passes in order, in place.

    Returns:
        What they did, one note for a node.
    """
    notes, op_types = list[Note](), set[str]()
    for stage in stages:
        if isinstance(stage, Rewrite) and stage.operators:
            # Most rewrites find nothing: those in a row share one look at the graph.
            op_types = op_types or {node.op_type for node in model.graph}
            if op_types.isdisjoint(stage.operators):
                continue
            done = stage(model)
            if done or stage.requires.opset or stage.requires.prepare is not None:
                op_types = set()
        else:
            done, op_types = stage(model), set()
        notes += done
    return notes

"""Records of a placement, in the graph's order: sites, layers, reasons; and their rows for tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from intact.layer import Layer
from intact.placement.profiles import Profile

Role = Literal["activation", "weight"]


@dataclass(frozen=True)
class Site:
    """One tensor to be quantized.

    Attributes:
        value: Name of the tensor.
        readers: (node name, input index) of every reader that gets it quantized; other readers keep float.
        role: "weight" where the tensor is a constant of the graph.
        axis: The axis that keeps a scale per index; None: one scale per tensor.
        group: Sites of one number share one scale: the inputs of a Concat, for example.
        reason: Why the tensor is quantized.
    """

    value: str
    readers: tuple[tuple[str, int], ...]
    role: Role
    axis: int | None
    group: int
    reason: str


@dataclass(frozen=True)
class Fusion:
    """Nodes that become one kernel, by the role of each.

    Attributes:
        op_type: What people call what the root computes: mostly its operator.
        root: The node that computes.
        affine: (operator, node) of each BatchNorm, bias and factor by constants behind it.
        residual: The Add of another branch behind those; "" for none.
        function: What people call the activation at the end: "Relu", "Gelu(tanh)"; "" for none.
        activation: The nodes that it is written with.
    """

    op_type: str
    root: str
    affine: tuple[tuple[str, str], ...] = ()
    residual: str = ""
    function: str = ""
    activation: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the parts in order, each with its nodes."""
        affine = ((op_type, (node,)) for op_type, node in self.affine)
        add = (("Add", (self.residual,)),) if self.residual else ()
        last = ((self.function, self.activation),) if self.activation else ()
        return ((self.op_type, (self.root,)), *affine, *add, *last)

    @property
    def label(self) -> str:
        """Return the name that `explain` shows: "Conv+Add+Relu"."""
        return "+".join(label for label, _ in self.parts)


@dataclass(frozen=True)
class Placement:
    """Positions of Q/DQ pairs, and the nodes that run as one layer.

    Attributes:
        sites: In the order in which the graph makes their tensors; weights with their reader.
        layers: In the graph's order; every node is in exactly one, constants and Q/DQ aside.
        fusions: What each of the layers is made of, in the same order: what an engine is to do as one.
        profile: Whose engine it was decided for.
    """

    sites: tuple[Site, ...]
    layers: tuple[Layer, ...]
    fusions: tuple[Fusion, ...]
    profile: Profile


@dataclass(frozen=True)
class Kept:
    """A rule does not apply: the node stays in float.

    Attributes:
        reason: Why; a clause that names the node or tensor which is in the way.
    """

    reason: str


@dataclass(frozen=True)
class Finding:
    """Something that an engine's parser or builder will not take as it stands.

    Attributes:
        severity: "error": it refuses the file; "warning": it runs slower, or not in int8.
        node: Name of the node.
        rule: Name of the check.
        message: The parser's own words where it has some.
        fix: What to do about it.
    """

    severity: Literal["error", "warning"]
    node: str
    rule: str
    message: str
    fix: str


class Layered(Protocol):
    """A placement or a plan: anything with layers."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """In the graph's order."""


def explain(layered: Layered) -> list[dict[str, object]]:
    """Return one row for each layer, in the graph's order: what a table prints and JSON holds.

    Returns:
        Rows with "layer", "op_type", "precision", "fused", "nodes" (a list) and "reason".
    """
    return [
        {
            "layer": layer.name,
            "op_type": layer.op_type,
            "precision": layer.precision,
            "fused": layer.fused,
            "nodes": list(layer.nodes),
            "reason": layer.reason,
        }
        for layer in layered.layers
    ]

"""Find the nodes of placement's fusions in the graph when steps are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from intact.graph import Node, is_op
from intact.placement import Fusion


@dataclass(frozen=True)
class Fused:
    """The nodes of one layer, by what each does there; `Fusion` says more.

    Attributes:
        root: What computes.
        affine: BatchNorms, biases and factors by constants.
        residual: The Add of another branch.
        function: What placement calls the activation; "" for none.
        activation: Its nodes.
    """

    root: Node
    affine: tuple[Node, ...] = ()
    residual: Node | None = None
    function: str = ""
    activation: tuple[Node, ...] = ()

    @property
    def nodes(self) -> list[Node]:
        """All of them, in the order in which they compute."""
        return [
            self.root,
            *self.affine,
            *([] if self.residual is None else [self.residual]),
            *self.activation,
        ]

    def factors(self) -> Fused:
        """Return the root with only the factors right behind it."""
        other_indices = (i for i, node in enumerate(self.affine) if not is_op(node, "Mul", "Div"))
        return Fused(self.root, self.affine[: next(other_indices, len(self.affine))])


def fused_nodes(fusion: Fusion, nodes: Mapping[str, Node]) -> Fused | None:
    """Return the nodes of `fusion`, as far as passes have left them; None where its root is gone."""
    root = nodes.get(fusion.root)
    if root is None:
        return None
    affine = tuple(nodes[name] for _, name in fusion.affine if name in nodes)
    activation = tuple(nodes[name] for name in fusion.activation if name in nodes)
    fused = Fused(root, affine, nodes.get(fusion.residual), fusion.function, activation)
    return fused if len(activation) == len(fusion.activation) else replace(fused, function="", activation=())

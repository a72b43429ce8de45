"""`Note`: one line about what a rewrite did to a node, or why it left it."""

from __future__ import annotations

from dataclasses import dataclass


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

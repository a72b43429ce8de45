"""What a rewrite did, or why it did not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """One line of a rewrite's record.

    Attributes:
        node: Name of the node.
        what: What was done with it, or why it was left as it is; a clause without a final period.
        changed: Whether it was changed.
    """

    node: str
    what: str
    changed: bool = True

    def __str__(self) -> str:
        return f"{self.node}: {self.what}"

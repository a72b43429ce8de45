"""`Choice`: which nodes the user includes, excludes or keeps in float, by patterns and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from intact.placement.placement_graph import Op


@dataclass(frozen=True)
class Choice:
    """Decides by names and patterns which nodes may run in int8.

    Attributes:
        include: Patterns over node names or operator types; empty: every node.
        exclude: The same, for nodes that stay in float whatever `include` says.
        keep_float: Operator types that stay in float.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keep_float: tuple[str, ...] = ()

    def exclusion_reason(self, op: Op) -> str | None:
        """Return why `op` is kept in float and apart from other layers; None where it is not."""
        if op.op_type in self.keep_float:
            return f"kept in float: {op.op_type} is among the operators to keep"
        pattern = _match(op, self.exclude)
        return f"kept in float: it matches '{pattern}' of exclude" if pattern is not None else None

    def omission_reason(self, op: Op) -> str | None:
        """Return why `op` does not ask for int8 by itself; None where it may."""
        if (why := self.exclusion_reason(op)) is not None:
            return why
        if self.include and _match(op, self.include) is None:
            return "kept in float: it matches nothing of include"
        return None


def _match(op: Op, patterns: Sequence[str]) -> str | None:
    return next((p for p in patterns if fnmatchcase(op.name, p) or fnmatchcase(op.op_type, p)), None)

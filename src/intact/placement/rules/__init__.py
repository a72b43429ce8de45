"""Rules for the placement of pairs: one per file, all of them in one table.

A new rule is a file with a `RULE`, and one line here.
"""

from __future__ import annotations

from functools import lru_cache

from intact.placement.rules import (
    elementwise,
    function_tables,
    moves,
    norms,
    pools,
    products,
    recurrent,
    residual,
    weighted,
)
from intact.placement.rules.base import Context, Int8, Rule

RULES: tuple[Rule, ...] = (
    weighted.RULE,
    products.RULE,
    recurrent.RULE,
    residual.RULE,
    elementwise.RULE,
    pools.RULE,
    moves.RULE,
    function_tables.RULE,
    norms.RULE,
)
"""Asked in this order; the first that applies decides."""


@lru_cache(maxsize=1024)  # files name operators as they like
def rules_of(op_type: str, domain: str) -> tuple[Rule, ...]:
    """Return the rules that are asked about an operator."""
    return tuple(rule for rule in RULES if domain == "" and op_type in rule.op_types)


__all__ = ["Context", "Int8", "RULES", "Rule", "rules_of"]

"""Operators that compute in reals, element by element or along an axis, as steps."""

from __future__ import annotations

from intact.engine.lower.moves import Rule

REALS: dict[str, Rule] = {}
"""Operator -> how it becomes a step."""

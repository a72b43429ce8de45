"""Which functions of `numerics` stand for which operators and activations."""

from __future__ import annotations

FUNCTIONS: dict[str, str] = {"Relu": "relu"}
"""Operator, or placement's name of an activation -> the function's name in `numerics`."""

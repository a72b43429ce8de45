"""Functions of `numerics` for each operator and activation."""

from __future__ import annotations

from collections.abc import Sequence

from intact.graph import Node, ops

_BY_LABEL = {
    "Elu": "elu", "Erf": "erf", "Exp": "exp", "Gelu": "gelu", "Gelu(tanh)": "gelu_tanh",
    "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish", "LeakyRelu": "leaky_relu", "Log": "log",
    "Mish": "mish", "Relu": "relu", "Sigmoid": "sigmoid", "Silu": "silu", "Softplus": "softplus",
    "Softsign": "softsign", "Sqrt": "sqrt", "Swish": "silu", "Tanh": "tanh",
}  # fmt: skip

_FIXED: dict[str, dict[str, float]] = {
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "Swish": {"alpha": 1.0},
}
"""Operator -> the one value of its attributes that `numerics` has."""


def function_of(nodes: Sequence[Node], label: str) -> str | None:
    """Return the name in `numerics` of the function that `nodes` compute; None where it has none."""
    fixed = _FIXED.get(nodes[0].op_type, {}) if len(nodes) == 1 else {}
    op = ops.read(nodes[0]) if fixed else None
    if any(abs(getattr(op, name) - want) > 1e-7 for name, want in fixed.items()):
        return None
    return _BY_LABEL.get(label)

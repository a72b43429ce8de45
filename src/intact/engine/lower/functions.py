"""Which functions of `numerics` stand for which operators and activations."""

from __future__ import annotations

from collections.abc import Sequence

from intact.graph import Node
from intact.graph.attributes import floating, text

_BY_LABEL = {
    "Elu": "elu", "Erf": "erf", "Exp": "exp", "Gelu": "gelu", "Gelu(tanh)": "gelu_tanh",
    "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish", "LeakyRelu": "leaky_relu", "Relu": "relu",
    "Sigmoid": "sigmoid", "Silu": "silu", "Swish": "silu", "Tanh": "tanh",
}  # fmt: skip

_FIXED = {
    "Elu": {"alpha": (1.0, 1.0)},
    "HardSigmoid": {"alpha": (0.2, 1 / 6), "beta": (0.5, 0.5)},
    "LeakyRelu": {"alpha": (0.01, 0.01)},
    "Swish": {"alpha": (1.0, 1.0)},
}
"""Operator -> its attributes: ONNX's default, and the one value that `numerics` has."""

OPERATORS = frozenset(_BY_LABEL) - {"Gelu(tanh)", "Silu"}


def function_of(nodes: Sequence[Node], label: str) -> str | None:
    """What `numerics` calls the function that `nodes` compute and placement calls `label`; None: nothing."""
    if len(nodes) == 1:
        node = nodes[0]
        if node.op_type == "Gelu" and text(node, "approximate", "none") == "tanh":
            return "gelu_tanh"
        for name, (default, want) in _FIXED.get(node.op_type, {}).items():
            if abs(floating(node, name, default) - want) > 1e-7:
                return None
    return _BY_LABEL.get(label)

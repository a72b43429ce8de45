"""Decides what is quantized and how: the user's settings, and the grid of every tensor."""

from intact.ptq.scope.name_patterns import NameResolver, node_names
from intact.ptq.scope.override_weights import names_of_quantized
from intact.ptq.scope.settings import FLOAT_BUDGET, Settings, with_override

__all__ = [
    "FLOAT_BUDGET", "NameResolver", "Settings", "names_of_quantized", "node_names", "with_override",
]  # fmt: skip

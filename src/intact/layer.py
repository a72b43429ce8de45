"""The record of one layer, shared by placement and by plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Precision = Literal["int8", "float"]


@dataclass(frozen=True)
class Layer:
    """Describes one fused layer, as an int8 engine runs it.

    Attributes:
        name: Name of its first node.
        op_type: Operator of that node.
        nodes: Names of all its nodes, in the graph's order.
        precision: What its arithmetic is done in; operators that only move data are "int8" where int8 passes.
            A product of 16-bit codes and int8 weights is one of integers: "int8", and the reason says so.
        fused: What it does in one kernel, for example "Conv+Add+Relu".
        reason: Why it runs so.
    """

    name: str
    op_type: str
    nodes: tuple[str, ...]
    precision: Precision
    fused: str
    reason: str

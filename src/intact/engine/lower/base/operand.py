"""Operands of layers: codes on a grid of the plan, and tensors as they are."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.steps import Codes
from intact.engine.steps.base.window import Pads
from intact.graph import Value


@dataclass(frozen=True)
class CodesRead:
    """Codes that a layer reads.

    Attributes:
        x: The tensor of codes, or of their high bytes.
        codes: The grid, and which codes can occur.
        low: The tensor of low bytes; "": the codes are bytes.
        pads: (top, left, bottom, right), of zeros that are still to be put around images.
    """

    x: str
    codes: Codes
    low: str = ""
    pads: Pads = (0, 0, 0, 0)


def plain_operand(builder: PlanBuilder, value: Value | None) -> str:
    """Return a tensor that is no codes of a grid, or a constant in its place; "" for none.

    Raises:
        NoMatch: No native step makes it, or it lies on a grid.
    """
    if value is None:
        return ""
    if (array := builder.constants(value)) is not None:
        return builder.hold(value.name or "", array)
    tensor = builder.tensors.get(value.name or "")
    if tensor is None or tensor.codes is not None:
        raise NoMatch(f"'{value.name}' is made by no native step, or lies on a grid of its own")
    return tensor.name

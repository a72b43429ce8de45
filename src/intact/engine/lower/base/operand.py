"""The operand that a layer with constant weights multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps import Codes
from intact.engine.steps.base.window import Pads


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

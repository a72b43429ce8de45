"""What became of a model, in a few rows for people."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from intact.ptq.quantize import QuantizedModel


def summary(result: QuantizedModel) -> list[tuple[str, str]]:
    """(what, how much) by row; those of branches say whose they are."""
    parts = result.parts
    layers = Counter(layer.precision for part in parts.values() for layer in part.placement.layers)
    sqnr = {within(name, of): db for name, part in parts.items() for of, db in part.sqnr.items()}
    top1 = {within(name, of): same for name, part in parts.items() for of, same in part.top1.items()}
    bits16 = sum(len(part.bits16) for part in parts.values())
    tensors = sum(len(part.ranges) for part in parts.values())
    return [
        ("layers in int8", f"{layers['int8']:,}"),
        ("layers in float", f"{layers['float']:,}"),
        *((f"SQNR of {name}", f"{db:.1f} dB") for name, db in sqnr.items()),
        *((f"error of {name}", f"{_percent(db):.2g}% of its size") for name, db in sqnr.items()),
        *((f"same largest score in {name}", f"{same} of {of} rows") for name, (same, of) in top1.items()),
        ("biases corrected", "yes" if result.corrected else "no"),
        ("channels equalized", "yes" if result.equalized else "no"),
        ("tensors smoothed", f"{len(result.smoothed):,}"),
        *([("tensors with 16 bits", f"{bits16:,} of {tensors:,}")] if bits16 else []),
    ]


def within(part: str, text: str) -> str:
    """A name or a line, and the branch that it is of."""
    return f"{part}: {text}" if part else text


def _percent(db: float) -> float:
    """An SQNR as people read it: 20 dB is an error of a tenth, 40 dB of a hundredth; finite but for -inf."""
    exponent = min(-db / 20, 300.0) if isfinite(db) else -db
    return float(100 * 10.0**exponent)

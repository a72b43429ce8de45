"""What the user asked for about one layer: formats, method, granularity; by defaults and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from intact.calib import METHODS
from intact.errors import QuantValueError
from intact.graph import FORMAT_OPSETS
from intact.numerics import SHORT_BITS
from intact.spec import Format

BLOCK = 32
"""Elements of a 4-bit weight that share a scale, along the axis that a MatMul or Gemm sums over."""

_KEYS = ("format", "activations", "weights", "method", "axis", "block_size", "symmetric")
WEIGHT_ONLY = ("int4", "uint4")


@dataclass(frozen=True)
class Settings:
    """How the inputs of one node are quantized.

    Attributes:
        activations, weights: Format names; "float": not at all.
        method: For activations: one of `METHODS` or "auto".
        symmetric: For activations.
        axis: Of weights: "channel", where placement says; None: one scale; or a number.
        block_size: Of weights; None: no blocks but for 4-bit formats.
        scale_bits: Ranges are widened until scales have so many significant bits, see `numerics.short_amax`;
            None: they are not. Those of 4-bit weights never are: their layers compute in float.
    """

    activations: str = "int8"
    weights: str = "int8"
    method: str = "auto"
    symmetric: bool = True
    axis: Literal["channel"] | int | None = "channel"
    block_size: int | None = None
    scale_bits: int | None = SHORT_BITS

    def __post_init__(self) -> None:
        for name in ("activations", "weights"):
            one = getattr(self, name)
            if one != "float":
                one = Format.parse(one).name
                object.__setattr__(self, name, one)
                _one_of(name, one, FORMAT_OPSETS)
        _one_of("method", self.method, (*METHODS, "auto"))
        if self.scale_bits is not None and self.scale_bits not in range(1, 9):
            raise QuantValueError("scale_bits", repr(self.scale_bits), "1..8, or None", "leave it out for 4")


Overrides = Mapping[str, Mapping[str, Any]]


def with_override(base: Settings, pattern: str, wanted: Mapping[str, Any]) -> Settings:
    """`base`, changed as one entry of overrides says.

    Raises:
        QuantValueError: An unknown key or value; names the pattern.
    """
    where = f"overrides[{pattern!r}]"
    if unknown := sorted(set(wanted) - set(_KEYS)):
        raise QuantValueError(where, f"{unknown[0]!r}", f"keys among {', '.join(_KEYS)}", "correct the key")
    changes = {key: value for key, value in wanted.items() if key != "format"}
    if (both := wanted.get("format")) is not None:
        changes = _of_format(both, base) | changes
    try:
        return replace(base, **changes)
    except QuantValueError as error:
        raise error.at(where) from None


def _of_format(name: str, base: Settings) -> dict[str, str]:
    """What one word for a layer means: 4-bit formats are for weights alone, 16-bit ones for activations."""
    if name == "float":
        return {"activations": "float", "weights": "float"}
    format = Format.parse(name)
    if format.name in WEIGHT_ONLY:
        return {"activations": "float", "weights": format.name}
    if format.is_float:
        return {"activations": format.name, "weights": format.name}
    return {"activations": format.name, "weights": "int8"}


def _one_of(name: str, value: str, allowed: Any) -> None:
    if value not in allowed:
        raise QuantValueError(name, repr(value), f"one of {', '.join(allowed)}", "choose one of these")

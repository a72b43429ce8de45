"""Choose the codes of a decoder's weights: those of the file, or codes that are rounded to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intact.engine.lower import has_block_codes
from intact.errors import QuantValueError
from intact.formats import floats_of, sort_by_group
from intact.lm.decoders.node_writer import Encode, Linear
from intact.numerics import BlockWeights
from intact.ptq.blocks import BlockFormat, round_to_nearest

KEEP, FLOAT = "keep", "float32"
KEPT_FLOAT = (
    "router", "shared_scale", "mixer_rate", "mixer_step", "mixer_short", "mixer_k", "mixer_q",
)  # fmt: skip
"""Roles of small layers that choose and weigh experts, or say how fast states fade and how much a token adds:
rounding changes which experts a token has, and costs more for each row than elsewhere (decision 71)."""
_ROUNDED = tuple(f"{sign}{bits}" for sign in ("int", "uint") for bits in range(2, 9))


def weight_encoder(weights: str = KEEP, block: int = 32, bits_of: Mapping[str, str] | None = None) -> Encode:
    """Return what chooses the codes of a weight.

    Args:
        weights: "keep": the codes of the file; fp8, and codes that no step reads, become int8; "float32";
            or "int4", "uint4", ..., of 2 to 8 bits: rounded to nearest with fitted scales.
        block: Elements that share a scale.
        bits_of: Other choices for some roles, such as ``{"head": "int8"}``, or for one layer, ``{"3.q":
            "int6"}``. An embedding that is the head has the head's.
    Raises:
        QuantValueError: There is no such choice.
    """
    choices = {"": weights, **(bits_of or {})}
    for choice in choices.values():
        if choice not in (KEEP, FLOAT, *_ROUNDED):
            want = "keep, float32, or intN or uintN with N = 2..8"
            raise QuantValueError("weights", f"{choice!r:.40}", want, "choose one")
    grids = {
        choice: BlockFormat(choice if choice in _ROUNDED else "int8", block) for choice in choices.values()
    }

    def encode(role: str, layer: int, weight: Linear) -> Linear:
        if role in KEPT_FLOAT:
            return np.asarray(floats_of(weight), np.float32)
        choice = choices.get(f"{layer}.{role}", choices.get(role, weights))
        if choice == KEEP:
            if not isinstance(weight, BlockWeights):
                return weight
            if has_block_codes(sort_by_group(weight)[0]):
                return weight
        floats = np.asarray(floats_of(weight), np.float32)
        return floats if choice == FLOAT else round_to_nearest(floats, grids[choice])

    return encode

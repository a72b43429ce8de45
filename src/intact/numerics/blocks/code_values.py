"""Values that the codes of block weights stand for: integers, or those of a table."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.spec import FP4E2M1, FP8E4M3, FP8E5M2, Format

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
"""The 4-bit normal float. Source: Dettmers et al. 2023, appendix E."""

IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The table of llama.cpp's IQ4_NL and IQ4_XS. Source: ggml-common.h, `kvalues_iq4nl`."""

_MINIFLOATS = {minifloat.name: minifloat for minifloat in (FP4E2M1, FP8E4M3, FP8E5M2)}
_TABLES: dict[str, tuple[float, ...]] = {"nf4": NF4, "iq4": IQ4}
OWN_TABLE, TABLE_SIZE = "table4", 16
"""The format of codes of 4 bits that bring their table of values along, and its size."""
TABLE_FORMATS = (*_MINIFLOATS, *_TABLES)
"""Formats whose codes are indices of a table: bit patterns of small floats, nf4, iq4."""


@cache
def code_values(name: str) -> NDArray[np.float32] | None:
    """Return the value of each code of a table format; None for an integer format, whose codes are values.

    NORMATIVE.

    Args:
        name: One of `TABLE_FORMATS`, or intN and uintN with N = 2..8.
    Returns:
        float32 [2 ** bits], read-only.
    Raises:
        QuantValueError: There is no such format.
    Source: OCP Microscaling Formats 1.0 (e2m1), OCP 8-bit Floating Point 1.0; others as at the tables.

    Rule N67.
    """
    if name in _MINIFLOATS:
        minifloat = _MINIFLOATS[name]
        patterns = np.arange(2**minifloat.bits, dtype=np.uint8)
        table = patterns.view(minifloat.storage_dtype).astype(np.float32)
    elif name in _TABLES:
        table = np.array(_TABLES[name], np.float32)
    else:
        integer_format(name)
        return None
    table.flags.writeable = False
    return table


def integer_format(name: str) -> Format:
    """Return the integer format of codes of up to 8 bits called `name`.

    Raises:
        QuantValueError: There is no such format.
    """
    try:
        integers = Format.parse(name)
    except QuantValueError:
        integers = None
    if integers is None or integers.is_float or integers.bits > 8:
        raise QuantValueError(
            "format", f"{name!r:.40}", f"intN or uintN with N = 2..8, {', '.join(TABLE_FORMATS)}",
            "choose one of these names, for example 'uint4'",
        )  # fmt: skip
    return integers


def code_bits(name: str) -> int:
    """Return the bits of one code.

    Raises:
        QuantValueError: There is no such format.
    """
    table = code_values(name)
    return integer_format(name).bits if table is None else (table.size - 1).bit_length()

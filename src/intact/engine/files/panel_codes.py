"""Codes of weights in blocks that a plan file holds in panels, as kernels read them, and in no other form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps.base.block_constants import MOST_BLOCK_ELEMENTS
from intact.kernels import crc32, unpack_block_codes

_FORM = re.compile(r"block_codes_(\d{1,8})x([2-8])")


@dataclass(frozen=True, eq=False)
class PanelCodes:
    """Codes in panels.

    Attributes:
        inputs: Elements of each row of codes.
        bits: Of each.
        panels: uint8, the packed bytes.
    """

    inputs: int
    bits: int
    panels: NDArray[np.uint8]

    @staticmethod
    def of(form: str, panels: NDArray[Any]) -> PanelCodes | None:
        """Return what packed weights of this form are; None where they are no such panels."""
        match = _FORM.fullmatch(form)
        return None if match is None else PanelCodes(int(match[1]), int(match[2]), panels)

    def fits(self, dtype: str, shape: tuple[int, ...]) -> bool:
        """Return whether a constant of this dtype and shape may be rows of these codes."""
        most = MOST_BLOCK_ELEMENTS
        return (
            dtype == "uint8" and len(shape) == 2 and 0 < self.inputs <= most and 0 < shape[0] <= most
            and 2 <= self.bits <= 8 and shape[1] == -(-self.inputs * self.bits // 8)
        )  # fmt: skip

    def widen(self, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Unpack the codes into a new array of `shape`, each row from a byte on.

        Raises:
            FileFormatError: The panels have another size.
        """
        return unpack_block_codes(self.panels, shape[0], self.inputs, self.bits).reshape(shape)


def form_of(inputs: int, bits: int) -> str:
    """Return what codes are called as packed weights: C++'s `Panels::form`."""
    return f"block_codes_{inputs}x{bits}"


def find_panels(
    constants: Mapping[str, NDArray[Any]], packed: Mapping[tuple[str, str], NDArray[Any]]
) -> dict[str, PanelCodes]:
    """Find the constants of which every bit is in something packed, by name."""
    panels = dict[str, PanelCodes]()
    for (name, form), array in packed.items():
        codes, constant = PanelCodes.of(form, array), constants[name]
        if codes is None or name in panels or not codes.fits(constant.dtype.name, constant.shape):
            continue
        if crc32(codes.widen(constant.shape)) == crc32(constant):
            panels[name] = codes
    return panels

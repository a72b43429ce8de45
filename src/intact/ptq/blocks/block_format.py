"""The grid of block weights that a quantizer fits, and codes on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.numerics import BlockWeights, code_values, integer_format
from intact.processes import cached_property
from intact.spec import check_block_size

Reals = NDArray[np.float32]
_LEAST_BLOCK, _LARGEST_BLOCK = 32, 256
"""Of activations. Smaller ones save little error, and larger ones cost a lot (decision 0058)."""


def activation_block(block: int, size: int) -> int:
    """Return how many activations share a range: as many as weights do, from 32 to 256.

    Args:
        block: Elements along K that share a scale of the weights.
        size: K.
    """
    if block < _LEAST_BLOCK and _LEAST_BLOCK % block == 0:
        return _LEAST_BLOCK
    if block > _LARGEST_BLOCK and (block >= size or block % (_LARGEST_BLOCK // 2) == 0):
        return _LARGEST_BLOCK // 2
    return block


@dataclass(frozen=True)
class BlockFormat:
    """Describes integer codes of a few bits with one scale for each block along K.

    Attributes:
        name: The format of the codes, intN or uintN with N = 2..8. Unsigned codes have a zero point in each
            block; signed ones mean multiples of the scale, which may be negative.
        block_size: Elements along K that share a scale; the last block may be shorter.

    Raises:
        QuantValueError: There is no such format, or no such block.
    """

    name: str
    block_size: int

    def __post_init__(self) -> None:
        if code_values(self.name) is not None:
            raise QuantValueError(
                "weights", f"{self.name!r:.40}", "intN or uintN with N = 2..8", "choose int4, for example"
            )
        check_block_size(self.block_size)

    @cached_property
    def symmetric(self) -> bool:
        """True where there are no zero points."""
        return integer_format(self.name).signed

    @cached_property
    def bits(self) -> int:
        """Bits of one code."""
        return integer_format(self.name).bits

    @cached_property
    def low(self) -> int:
        """The least code."""
        return int(integer_format(self.name).qmin)

    @cached_property
    def high(self) -> int:
        """The greatest code."""
        return int(integer_format(self.name).qmax)

    def blocks_of(self, size: int) -> Iterator[slice]:
        """Yield the columns of each block of K = `size` columns, in order."""
        for begin in range(0, size, self.block_size):
            yield slice(begin, min(begin + self.block_size, size))

    def per_column(self, values: NDArray, size: int) -> NDArray:
        """Spread values of blocks, [N, blocks], over K = `size` columns.

        Args:
            values: One for each block, [N, blocks].
            size: K.
        Returns:
            Shape [N, K].
        """
        return np.asarray(values[:, np.arange(size) // self.block_size])

    def weights(self, codes: NDArray, scales: Reals, zero_points: Reals) -> BlockWeights:
        """Return the record of codes [N, K] with scales and zero points [N, blocks].

        Args:
            codes: Whole numbers from `low` to `high`, of any dtype.
            scales: float32.
            zero_points: Whole numbers; all 0 for signed codes.
        """
        dtype = np.int8 if self.symmetric else np.uint8
        points = None if self.symmetric else zero_points.astype(np.uint8)
        return BlockWeights(
            codes.astype(dtype), self.name, scales.astype(np.float32), self.block_size, zero_points=points
        )

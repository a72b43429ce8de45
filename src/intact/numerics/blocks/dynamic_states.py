"""States of recurrent networks that are quantized in each step. NORMATIVE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.numerics.blocks.block_product import block_product
from intact.numerics.blocks.block_weights import BlockWeights
from intact.numerics.blocks.dynamic_activations import DynamicActivations, quantize_dynamic


@dataclass(frozen=True, eq=False)
class DynamicStateWeights:
    """The weights of the state of one direction, as codes.

    Attributes:
        states: uint8 [gates * hidden, hidden].
        scales: float32 [gates * hidden].
        zero_points: uint8, likewise.

    Rule N74.
    """

    states: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.uint8]

    def sums(self, start: NDArray[np.float32], h: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add the product of the states to sums: ``fl32(start + y)``, with y by N69. NORMATIVE.

        All rows that take the step have one range: uint8 codes by N68, per tensor.

        Args:
            start: Sums over the input [batch, gates * hidden].
            h: States [batch, hidden].
        Source: com.microsoft DynamicQuantizeLSTM, on one thread.
        """
        if not h.size:
            return start
        codes = quantize_dynamic(h, symmetric=False, per="tensor")
        assert codes.zero_points is not None
        rows = DynamicActivations(
            codes.codes, np.broadcast_to(codes.scales, h.shape[:1]),
            np.broadcast_to(codes.zero_points, h.shape[:1]),
        )  # fmt: skip
        weights = BlockWeights(
            self.states, "uint8", self.scales[:, None], self.states.shape[1], self.zero_points[:, None]
        )
        return np.asarray(start + block_product(rows, weights), np.float32)

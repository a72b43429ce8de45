"""Linear layers whose weights are codes in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.errors import QuantValueError
from intact.numerics import BlockWeights, dequantize_blocks, join_stream
from intact.ptq.blocks import BlockFormat, round_to_nearest
from intact.torch.operators.block_linear import block_linear, block_weights

__all__ = ["BlockWeightLinear", "finite_rows"]

_UNIT = 8
"""Elements that kernels multiply together: blocks of integer products are multiples, or whole rows."""


class BlockWeightLinear(nn.Module):
    """Computes a linear layer by the engine's kernels: weights in blocks, activations in int8 or floats.

    It is for inference: no gradient passes. ``state_dict`` holds the codes.

    Attributes:
        codes: uint8 [out_features, bytes], one row of codes behind the other.
        scales: float32 [out_features, blocks].
        zero_points: uint8 [out_features, blocks]; None: half of the codes' range.
        bias: float32 [out_features], or None.
        channel_factors: float32 [in_features] by which inputs are multiplied first, or None.
        activations: "dynamic-int8": int8 in blocks of the weights' size (N69). "float": floats (N51).
    """

    codes: Tensor
    scales: Tensor
    zero_points: Tensor | None
    bias: Tensor | None
    channel_factors: Tensor | None

    def __init__(
        self, weights: BlockWeights, bias: Tensor | None = None, *, activations: str = "dynamic-int8",
        channel_factors: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Hold weights that are quantized already.

        Args:
            weights: Shape [out_features, in_features], integer codes with one level of scales.
            bias: [out_features].
            activations: "dynamic-int8" or "float".
            channel_factors: [in_features]; None: nothing is multiplied.
        Raises:
            QuantValueError: Kernels do not multiply int8 codes in such blocks.
        """
        super().__init__()
        self.out_features, self.in_features = weights.shape
        self.bits, self.block, self.activations = weights.bits, weights.block_size, activations
        if activations != "float" and self.block < self.in_features and self.block % _UNIT:
            raise QuantValueError(
                "block", repr(self.block), f"a multiple of {_UNIT}, or whole rows", "choose 32"
            )
        middle = 2 ** (self.bits - 1) if weights.codes.dtype == np.int8 else 0
        codes = (weights.codes.astype(np.int16) + middle).astype(np.uint8)
        self.register_buffer("codes", torch.from_numpy(join_stream(codes, self.bits, 1)))
        self.register_buffer("scales", torch.from_numpy(weights.scales.astype(np.float32)))
        points = weights.zero_points
        self.register_buffer(
            "zero_points",
            None if points is None else torch.from_numpy((points.astype(np.int16) + middle).astype(np.uint8)),
        )
        for name, values in (("bias", bias), ("channel_factors", channel_factors)):
            self.register_buffer(
                name, None if values is None else values.detach().to("cpu", torch.float32).clone()
            )

    @classmethod
    def from_linear(
        cls, linear: nn.Linear, grid: BlockFormat | str = "int4", *, activations: str = "dynamic-int8"
    ) -> BlockWeightLinear:
        """Round the weights of a layer to the nearest codes.

        Args:
            linear: Its weights are finite.
            grid: Format and block size; a name alone: one block for each row.
            activations: As for the constructor.
        Raises:
            QuantValueError: The weights are empty or not finite.
        """
        rows = finite_rows(linear)
        grid = BlockFormat(grid, rows.shape[1]) if isinstance(grid, str) else grid
        return cls(round_to_nearest(rows, grid), linear.bias, activations=activations)

    def forward(self, x: Tensor) -> Tensor:
        """Compute it.

        Args:
            x: Floats [..., in_features].
        Returns:
            [..., out_features], of x's dtype.
        """
        if self.channel_factors is not None:
            x = x * self.channel_factors.to(x.dtype)
        x_block = 0 if self.activations == "float" else self.block
        return block_linear(
            x, self.codes, self.scales, self.zero_points, self.bias, self.in_features, self.bits,
            self.block, x_block,
        )  # fmt: skip

    @property
    def weights(self) -> BlockWeights:
        """The record of its weights, without channel factors."""
        return block_weights(
            self.codes, self.scales, self.zero_points, self.in_features, self.bits, self.block
        )

    def dequantize(self) -> Tensor:
        """Return the floats that the codes stand for, float32 [out_features, in_features]."""
        return torch.from_numpy(dequantize_blocks(self.weights))

    def extra_repr(self) -> str:
        """Return what `print` shows of it."""
        return (
            f"{self.in_features}, {self.out_features}, bits={self.bits}, block={self.block}, "
            f"activations={self.activations}"
        )


def finite_rows(linear: Any) -> np.ndarray:
    """Return the weights of a layer, float32 [out_features, in_features]; refuse what has no codes.

    Raises:
        QuantValueError: They are empty, or not finite.
    """
    matrix = linear.weight.detach().to("cpu", torch.float32).numpy()
    if not matrix.size or not np.isfinite(matrix).all():
        raise QuantValueError(
            "weight", f"shape {matrix.shape}, or a NaN or an infinity", "finite numbers", "look at the layer"
        )
    return np.ascontiguousarray(matrix)

"""Embeddings whose rows are codes with a scale and a zero point each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from intact.errors import UnsupportedError
from intact.numerics import join_stream
from intact.ptq.blocks import BlockFormat, round_to_nearest
from intact.torch.block_weights.layers import finite_rows

__all__ = ["EMBEDDINGS", "BlockWeightEmbedding"]

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
"""Types of modules with a class here."""


class BlockWeightEmbedding(nn.Module):
    """Computes an `nn.Embedding` or `nn.EmbeddingBag` whose rows are codes: fl32((q - z) * s) each (N67).

    Attributes:
        codes: uint8 [rows, bytes], of 4 or 8 bits, the lowest first.
        scales: float32 [rows, 1].
        zero_points: uint8 [rows, 1].
    """

    codes: Tensor
    scales: Tensor
    zero_points: Tensor

    def __init__(self, module: nn.Embedding | nn.EmbeddingBag, bits: int = 8) -> None:
        """Round the rows of a module to the nearest codes.

        Args:
            module: It does not scale rows by their norm.
            bits: 8 or 4.
        Raises:
            UnsupportedError: It has max_norm.
            QuantValueError: Weights are empty or not finite.
        """
        super().__init__()
        if module.max_norm is not None:
            raise UnsupportedError(
                "max_norm", str(module.max_norm), "None", "leave this layer in float: name the others"
            )
        self.num_embeddings, self.embedding_dim, self.bits = module.num_embeddings, module.embedding_dim, bits
        self.bag: dict[str, Any] | None = None
        if isinstance(module, nn.EmbeddingBag):
            self.bag = {
                "mode": module.mode, "include_last_offset": module.include_last_offset,
                "padding_idx": module.padding_idx,
            }  # fmt: skip
        rounded = round_to_nearest(finite_rows(module), BlockFormat(f"uint{bits}", module.embedding_dim))
        assert rounded.zero_points is not None
        padding = -rounded.codes.shape[1] * bits % 8 // bits
        codes = np.pad(rounded.codes, ((0, 0), (0, padding)))
        self.register_buffer("codes", torch.from_numpy(join_stream(codes, bits, 1)))
        self.register_buffer("scales", torch.from_numpy(rounded.scales.copy()))
        self.register_buffer("zero_points", torch.from_numpy(rounded.zero_points.copy()))

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Compute it; arguments and results as those of PyTorch's module, in float32."""
        if self.bag is None:
            return self._rows(indices)
        if indices.dim() == 2:
            flat = indices.reshape(-1)
            offsets = torch.arange(0, flat.numel(), indices.shape[1], device=indices.device)
            bag = self.bag | {"include_last_offset": False}
        else:
            flat, bag = indices, dict(self.bag)
        padding = bag.pop("padding_idx")
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        table = self._rows(flat)
        places = torch.arange(len(flat), device=flat.device)
        if padding is not None:  # rows of the padding are one, which is left out
            table = torch.cat([table, table.new_zeros(1, self.embedding_dim)])
            places = torch.where(flat == padding, len(flat), places)
            padding = len(flat)
        return F.embedding_bag(places, table, offsets, per_sample_weights=weights, padding_idx=padding, **bag)

    def _rows(self, indices: Tensor) -> Tensor:
        """Return the floats of rows, [..., embedding_dim]."""
        packed = self.codes[indices]
        if self.bits == 4:
            packed = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)[..., : self.embedding_dim]
        steps = packed.to(torch.float32) - self.zero_points[indices].to(torch.float32)
        return steps * self.scales[indices]

    def extra_repr(self) -> str:
        """Return what `print` shows of it."""
        return f"{self.num_embeddings}, {self.embedding_dim}, bits={self.bits}"

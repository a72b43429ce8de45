"""Compose `F.embedding_bag` of lookups and sums, which ONNX has.

torch's exporter writes a loop over bags, whose sizes are known only at run time.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["compose_embedding_bag"]


def compose_embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor | None:
    """Compute `F.embedding_bag`; arguments and result as PyTorch's.

    Args:
        input: Indices [bags, size], or [indices] with `offsets`, where each bag begins.
    Returns:
        [bags, dim]; None for a call that PyTorch refuses, or that scales rows by their norm.
    """
    plain = input.dim() == 2 if offsets is None else input.dim() == 1 and offsets.dim() == 1
    if max_norm is not None or not plain or mode not in ("sum", "mean", "max"):
        return None
    is_counted = None
    if padding_idx is not None:
        is_counted = input != (padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx)
    rows = F.embedding(input, weight)
    if offsets is not None:
        members = _members(input, offsets[:-1] if include_last_offset else offsets)
        members = members if is_counted is None else members & is_counted
        if mode == "max":
            return _largest(rows.unsqueeze(0), members)
        counts = members.to(rows.dtype)
        factors = counts if per_sample_weights is None else counts * per_sample_weights
        return _mean(factors @ rows, counts.sum(1, keepdim=True), mode)
    if mode == "max":
        return rows.amax(1) if is_counted is None else _largest(rows, is_counted)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if is_counted is None:
        return rows.sum(1) if mode == "sum" else rows.sum(1) / max(input.shape[1], 1)
    total = torch.where(is_counted.unsqueeze(-1), rows, torch.zeros((), dtype=rows.dtype)).sum(1)
    return _mean(total, is_counted.to(rows.dtype).sum(1, keepdim=True), mode)


def _members(input: Tensor, offsets: Tensor) -> Tensor:
    """Return which indices belong to each bag, bool [bags, indices]."""
    places = torch.arange(input.shape[0], device=input.device)
    bag_of_place = (places.unsqueeze(1) >= offsets.unsqueeze(0)).long().sum(1) - 1
    bags = torch.arange(offsets.shape[0], device=input.device)
    return bags.unsqueeze(1) == bag_of_place.unsqueeze(0)


def _mean(total: Tensor, counts: Tensor, mode: str) -> Tensor:
    return total if mode == "sum" else total / counts.clamp(min=1)


def _largest(rows: Tensor, members: Tensor) -> Tensor:
    """Return the largest values of members, [bags, dim]; 0 of a bag without one."""
    low = torch.full((), -torch.inf, dtype=rows.dtype)
    largest = torch.where(members.unsqueeze(-1), rows, low).amax(1)
    return torch.where(members.any(1, keepdim=True), largest, torch.zeros((), dtype=rows.dtype))

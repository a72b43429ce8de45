"""Converts bfloat16 tensors of torch, which NumPy does not take."""

from __future__ import annotations

from typing import Any


def without_bfloat16(tensor: Any) -> Any:
    """Return a torch tensor of bfloat16 as one of float32, because NumPy takes no bfloat16; others as they
    are.
    """
    return tensor.detach().float() if str(getattr(tensor, "dtype", "")) == "torch.bfloat16" else tensor

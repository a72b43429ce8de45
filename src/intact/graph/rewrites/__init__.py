"""Rewrites of a graph that leave what it computes: compound operators written out, loops as layers."""

from intact.graph.rewrites.gathered_matmul import GATHERED_MATMUL

__all__ = [
    "GATHERED_MATMUL",
]  # fmt: skip

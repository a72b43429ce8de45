"""Rewrites that keep a graph's meaning: compound operators decomposed, loops as layers."""

from intact.graph.rewrites.gathered_matmul import GATHERED_MATMUL

__all__ = [
    "GATHERED_MATMUL",
]  # fmt: skip

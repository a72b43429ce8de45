"""Rewrites that keep a graph's meaning: compound operators decomposed, loops as layers."""

from intact.graph.rewrites.einsum_terms import EinsumProduct, expand_ellipsis, merge_shape, split_products
from intact.graph.rewrites.matmul_operands import GATHERED_MATMUL

__all__ = [
    "GATHERED_MATMUL", "EinsumProduct", "expand_ellipsis", "merge_shape", "split_products",
]  # fmt: skip

"""Lowering rules for operators that code outside the kernels runs."""

"""Operators that code outside the kernels runs."""

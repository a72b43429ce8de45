"""Steps that code outside the kernels runs."""

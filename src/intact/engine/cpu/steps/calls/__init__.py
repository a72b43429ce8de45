"""How steps that code outside the kernels runs become native."""

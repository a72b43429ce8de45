"""One Triton kernel for each operator on CUDA, which reads and writes each value once.

`intact.torch.fake_quantize_formula` is the definition, and these kernels give its bits. Quotients are rounded
as IEEE 754 says (`div_rn`), nothing becomes a fused multiply-add (``enable_fp_fusion=False``), and denormals
stay. `intact.torch.operators.fake_quantize` imports this package for CUDA tensors where Triton is installed.
"""

from intact.torch.triton.elementwise import fake_quantize, fake_quantize_backward, fits
from intact.torch.triton.range_statistics import count_fixed, count_pow2, finite_range, min_max

__all__ = [
    "count_fixed",
    "count_pow2",
    "fake_quantize",
    "fake_quantize_backward",
    "finite_range",
    "fits",
    "min_max",
]

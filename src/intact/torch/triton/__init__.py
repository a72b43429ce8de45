"""One kernel each for the operators on CUDA, written in Triton: they read and write each value once.

`intact.torch.composed` is the definition, and these give its bits: quotients are rounded as IEEE has it
(`div_rn`), nothing is merged into a fused multiply-add (``enable_fp_fusion=False``), and denormals stay.
`intact.torch.operators.fake_quantize` imports this package where a CUDA tensor comes and Triton is installed.
"""

from intact.torch.triton.elementwise import fake_quantize, fake_quantize_backward
from intact.torch.triton.layout import fits
from intact.torch.triton.statistics import count_fixed, count_pow2, finite_range, min_max

__all__ = [
    "count_fixed",
    "count_pow2",
    "fake_quantize",
    "fake_quantize_backward",
    "finite_range",
    "fits",
    "min_max",
]

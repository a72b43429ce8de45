"""The native kernels: `intact.numerics`, bit for bit, at the speed of memory.

NumPy in, NumPy out. Kernels are chosen at run time (`kernel_list`, INTACT_MAX_ISA,
INTACT_FORCE_KERNEL); all kernels of a family give the same bits.
"""

from intact.kernels.elementwise import (
    dequantize,
    fake_quantize,
    fake_quantize_grad,
    learned_range_grad,
    quantize,
)
from intact.kernels.registry import Kernel, cpu_features, kernel_list
from intact.kernels.rounding import moments, quadratic_forms, round_together, unit_factor
from intact.kernels.statistics import (
    FoundRange,
    absmax,
    affine_gains,
    collect_pow2,
    count_fixed,
    count_pow2,
    entropy_divergences,
    grid_gains,
    minmax,
)
from intact.kernels.windows import window_sums, windows

__all__ = [
    "FoundRange",
    "Kernel",
    "absmax",
    "affine_gains",
    "collect_pow2",
    "count_fixed",
    "count_pow2",
    "cpu_features",
    "dequantize",
    "entropy_divergences",
    "fake_quantize",
    "fake_quantize_grad",
    "grid_gains",
    "kernel_list",
    "learned_range_grad",
    "minmax",
    "moments",
    "quadratic_forms",
    "quantize",
    "round_together",
    "unit_factor",
    "window_sums",
    "windows",
]

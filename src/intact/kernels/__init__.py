"""The native kernels: `intact.numerics`, bit for bit, at the speed of memory.

NumPy in, NumPy out. Kernels are chosen at run time (`kernel_list`, INTACT_MAX_ISA,
INTACT_FORCE_KERNEL); all kernels of a family give the same bits.
"""

from intact.kernels.pages import WEIGHTS
from intact.kernels.program import (
    ARENA,
    NEAR_BYTES,
    Context,
    HostedBound,
    HostedPlan,
    Program,
    ThreadPool,
    crc32,
    native_kinds,
    unpack_block_codes,
)
from intact.kernels.quantization import (
    dequantize,
    fake_quantize,
    fake_quantize_grad,
    learned_range_grad,
    quantize,
)
from intact.kernels.registry import (
    Kernel,
    alternatives,
    cpu_features,
    instructions,
    kernel_list,
    kernels_in_use,
    machine,
)
from intact.kernels.statistics import (
    MAX_BINS,
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
from intact.kernels.weight_rounding import moments, quadratic_forms, round_together, unit_factor
from intact.kernels.windows import window_sums, windows

__all__ = [
    "ARENA", "Context", "FoundRange", "HostedBound", "HostedPlan", "Kernel", "MAX_BINS", "NEAR_BYTES",
    "Program", "ThreadPool", "WEIGHTS", "absmax", "affine_gains", "alternatives",
    "collect_pow2", "count_fixed", "count_pow2", "cpu_features", "crc32", "dequantize",
    "entropy_divergences", "fake_quantize", "fake_quantize_grad", "grid_gains", "instructions",
    "kernel_list", "kernels_in_use", "learned_range_grad", "machine", "minmax", "moments",
    "native_kinds", "quadratic_forms", "quantize", "round_together", "unit_factor",
    "unpack_block_codes", "window_sums", "windows",
]  # fmt: skip

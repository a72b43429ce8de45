"""The truth: what every number in INTact means, in plain NumPy. NORMATIVE (docs/numerics.md).

Module, file, engine and every native kernel equal these functions; none of them is fast.
"""

from intact.numerics.affine import (
    REAL_DTYPES,
    dequantize,
    fake_quantize,
    fake_quantize_grad,
    quantize,
    quantize_reciprocal,
    representable_range,
    store,
    to_float32,
)
from intact.numerics.granularity import expand, granule_shape, normalized_axes
from intact.numerics.minifloat import round_to_format
from intact.numerics.ranges import ZERO_RANGE, affine_from_range, inverse_scale_view, scale_from_amax
from intact.numerics.statistics import absmax, count_fixed, count_pow2, minmax

__all__ = [
    "REAL_DTYPES",
    "ZERO_RANGE",
    "absmax",
    "affine_from_range",
    "count_fixed",
    "count_pow2",
    "dequantize",
    "expand",
    "fake_quantize",
    "fake_quantize_grad",
    "granule_shape",
    "inverse_scale_view",
    "minmax",
    "normalized_axes",
    "quantize",
    "quantize_reciprocal",
    "representable_range",
    "round_to_format",
    "scale_from_amax",
    "store",
    "to_float32",
]

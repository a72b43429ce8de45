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
from intact.numerics.along_axis import arg_max, cum_sum, interpolate
from intact.numerics.convolution import conv
from intact.numerics.elementwise import Affine, add, rescale
from intact.numerics.float_products import float_conv, float_product, fma
from intact.numerics.functions import (
    FUNCTIONS,
    clip,
    elu,
    erf,
    exp,
    gelu,
    gelu_tanh,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    maximum,
    minimum,
    relu,
    sigmoid,
    silu,
    sloped,
    tanh,
)
from intact.numerics.granularity import expand, granule_shape, normalized_axes
from intact.numerics.integer_sum import accumulator_bound, linear, matmul, prove_accumulator
from intact.numerics.learned_range import learned_range_grad
from intact.numerics.minifloat import round_to_format
from intact.numerics.multipliers import fold_batchnorm, multipliers, ratio, scaled_bias
from intact.numerics.normalization import (
    lane_sum,
    layer_norm,
    max_over,
    mean_over,
    min_over,
    softmax,
    sum_over,
)
from intact.numerics.operations import ELEMENTWISE, elementwise
from intact.numerics.pooling import avg_pool, float_max_pool, max_pool
from intact.numerics.ranges import ZERO_RANGE, affine_from_range, inverse_scale_view, scale_from_amax
from intact.numerics.recurrent import GATES, StateWeights, recurrence
from intact.numerics.requantize import Bounds, Residual, activation_bounds, requantize, to_codes, to_real
from intact.numerics.short_scale import SHORT_BITS, midway_bias, short_amax, short_range
from intact.numerics.statistics import absmax, count_fixed, count_pow2, minmax

__all__ = [
    "Affine",
    "Bounds",
    "ELEMENTWISE",
    "FUNCTIONS",
    "GATES",
    "REAL_DTYPES",
    "Residual",
    "SHORT_BITS",
    "StateWeights",
    "ZERO_RANGE",
    "absmax",
    "accumulator_bound",
    "activation_bounds",
    "add",
    "affine_from_range",
    "arg_max",
    "avg_pool",
    "clip",
    "conv",
    "count_fixed",
    "count_pow2",
    "cum_sum",
    "dequantize",
    "elementwise",
    "elu",
    "erf",
    "exp",
    "expand",
    "fake_quantize",
    "fake_quantize_grad",
    "float_conv",
    "float_max_pool",
    "float_product",
    "fma",
    "fold_batchnorm",
    "gelu",
    "gelu_tanh",
    "granule_shape",
    "hard_sigmoid",
    "hard_swish",
    "interpolate",
    "inverse_scale_view",
    "lane_sum",
    "layer_norm",
    "leaky_relu",
    "learned_range_grad",
    "linear",
    "matmul",
    "max_over",
    "max_pool",
    "maximum",
    "mean_over",
    "midway_bias",
    "min_over",
    "minimum",
    "minmax",
    "multipliers",
    "normalized_axes",
    "prove_accumulator",
    "quantize",
    "quantize_reciprocal",
    "ratio",
    "recurrence",
    "relu",
    "representable_range",
    "requantize",
    "rescale",
    "round_to_format",
    "scale_from_amax",
    "scaled_bias",
    "short_amax",
    "short_range",
    "sigmoid",
    "silu",
    "sloped",
    "softmax",
    "store",
    "sum_over",
    "tanh",
    "to_codes",
    "to_float32",
    "to_real",
]

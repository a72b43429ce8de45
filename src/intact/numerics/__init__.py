"""The truth: what every number in INTact means, in plain NumPy. NORMATIVE (docs/numerics.md).

Module, file, engine and every native kernel equal these functions; none of them is fast.
"""

from intact.numerics.arg_max import ORDER_DTYPES, arg_max
from intact.numerics.cum_sum import CUM_SUM_DTYPES, cum_sum
from intact.numerics.elementwise import ELEMENTWISE, INTEGERS, elementwise, takes
from intact.numerics.floats.activations import (
    elu,
    gelu,
    gelu_tanh,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    mish,
    relu,
    sigmoid,
    silu,
    softplus,
    softsign,
)
from intact.numerics.floats.binary import apply_slope, maximum, minimum
from intact.numerics.floats.clip import clip
from intact.numerics.floats.erf import erf
from intact.numerics.floats.exp import exp
from intact.numerics.floats.float_conv import float_conv
from intact.numerics.floats.float_conv_transpose import Phase, float_conv_transpose, phases
from intact.numerics.floats.float_matmul import float_product
from intact.numerics.floats.fma import fma
from intact.numerics.floats.function import FUNCTIONS
from intact.numerics.floats.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from intact.numerics.floats.layer_norm import layer_norm
from intact.numerics.floats.recurrent import GATES, StateWeights, recurrence
from intact.numerics.floats.reduce import REDUCTIONS, lane_sum, max_over, mean_over, min_over, sum_over
from intact.numerics.floats.softmax import softmax
from intact.numerics.floats.trigonometry import acos, asin, atan, cos, sin
from intact.numerics.fold import FOLD_DTYPES, fold
from intact.numerics.grid_sample import PADDINGS, grid_sample
from intact.numerics.grids.affine import (
    REAL_DTYPES,
    code_zero_point,
    dequantize,
    fake_quantize,
    fake_quantize_grad,
    positive_scale,
    quantize,
    quantize_reciprocal,
    representable_range,
    store,
    to_float32,
)
from intact.numerics.grids.granularity import expand, granule_shape, normalize_axes
from intact.numerics.grids.minifloat import round_to_format
from intact.numerics.grids.ranges import ZERO_RANGE, affine_from_range, inverse_scale_view, scale_from_amax
from intact.numerics.grids.short_scale import SHORT_BITS, midway_bias, short_amax, short_range
from intact.numerics.grids.statistics import absmax, count_fixed, count_pow2, minmax
from intact.numerics.integers.accumulator import accumulator_bound, prove_accumulator
from intact.numerics.integers.add import Affine, add
from intact.numerics.integers.conv import conv
from intact.numerics.integers.int16_layers import join_sums, shift_of_sums
from intact.numerics.integers.linear import linear
from intact.numerics.integers.matmul import matmul
from intact.numerics.integers.multipliers import (
    MULTIPLIER_LIMIT,
    fold_batchnorm,
    multipliers,
    ratio,
    scale_bias,
)
from intact.numerics.integers.pool import avg_pool, float_max_pool, max_pool
from intact.numerics.integers.product_form import product_form
from intact.numerics.integers.requantize import (
    NO_OFFSET,
    Bounds,
    Gain,
    Residual,
    activation_bounds,
    requantize,
    requantize_by_product,
    to_codes,
    to_real,
)
from intact.numerics.integers.rescale import rescale
from intact.numerics.integers.rounding import moments, quadratic_forms, round_together, unit_factor
from intact.numerics.interpolate import interpolate
from intact.numerics.learned_range import learned_range_grad
from intact.numerics.scatter_elements import SCATTER_DTYPES, SCATTER_REDUCTIONS, scatter_elements
from intact.numerics.scatter_rows import row_numbers, scatter_rows
from intact.numerics.top_k import top_k
from intact.numerics.windows import Window

__all__ = [
    "CUM_SUM_DTYPES", "ELEMENTWISE", "FOLD_DTYPES", "FUNCTIONS", "GATES", "INTEGERS", "MULTIPLIER_LIMIT",
    "NO_OFFSET", "ORDER_DTYPES", "PADDINGS", "REAL_DTYPES", "REDUCTIONS", "SCATTER_DTYPES",
    "SCATTER_REDUCTIONS", "SHORT_BITS", "ZERO_RANGE", "Affine", "Bounds", "Gain", "Phase", "Residual",
    "StateWeights", "Window", "absmax", "accumulator_bound", "acos", "acosh", "activation_bounds", "add",
    "affine_from_range", "apply_slope", "arg_max", "asin", "asinh", "atan", "atanh", "avg_pool", "clip",
    "code_zero_point", "conv", "cos", "cosh", "count_fixed", "count_pow2", "cum_sum", "dequantize",
    "elementwise", "elu", "erf", "exp", "expand", "fake_quantize", "fake_quantize_grad", "float_conv",
    "float_conv_transpose", "float_max_pool", "float_product", "fma", "fold", "fold_batchnorm", "gelu",
    "gelu_tanh", "granule_shape", "grid_sample", "hard_sigmoid", "hard_swish", "interpolate",
    "inverse_scale_view", "join_sums", "lane_sum", "layer_norm", "leaky_relu", "learned_range_grad", "linear",
    "matmul", "max_over", "max_pool", "maximum", "mean_over", "midway_bias", "min_over", "minimum", "minmax",
    "mish", "moments", "multipliers", "normalize_axes", "phases", "positive_scale", "product_form",
    "prove_accumulator", "quadratic_forms", "quantize", "quantize_reciprocal", "ratio", "recurrence", "relu",
    "representable_range", "requantize", "requantize_by_product", "rescale", "round_to_format",
    "round_together", "row_numbers", "scale_bias", "scale_from_amax", "scatter_elements", "scatter_rows",
    "shift_of_sums", "short_amax", "short_range", "sigmoid", "silu", "sin", "sinh", "softmax", "softplus",
    "softsign", "store", "sum_over", "takes", "tanh", "to_codes", "to_float32", "to_real", "top_k",
    "unit_factor",
]  # fmt: skip

"""The integer reference: what every number in INTact means, in plain NumPy. NORMATIVE (docs/numerics.md).

Module, file, engine and every native kernel equal these functions; none of them is fast.

Rule N31.
"""

from intact.numerics.blocks.bit_fields import join_fields as join_fields
from intact.numerics.blocks.bit_fields import join_stream as join_stream
from intact.numerics.blocks.bit_fields import split_fields as split_fields
from intact.numerics.blocks.bit_fields import split_stream as split_stream
from intact.numerics.blocks.block_product import block_product, has_block_product, nbits_product
from intact.numerics.blocks.block_weights import BlockWeights as BlockWeights
from intact.numerics.blocks.block_weights import (
    block_minima,
    block_scales,
    code_steps,
    dequantize_blocks,
)
from intact.numerics.blocks.block_weights import join_levels as join_levels
from intact.numerics.blocks.block_weights import split_levels as split_levels
from intact.numerics.blocks.code_tables import has_exact_sums as has_exact_sums
from intact.numerics.blocks.code_tables import with_table as with_table
from intact.numerics.blocks.code_values import OWN_TABLE as OWN_TABLE
from intact.numerics.blocks.code_values import TABLE_FORMATS as TABLE_FORMATS
from intact.numerics.blocks.code_values import TABLE_SIZE as TABLE_SIZE
from intact.numerics.blocks.code_values import code_bits as code_bits
from intact.numerics.blocks.code_values import code_values
from intact.numerics.blocks.code_values import integer_format as integer_format
from intact.numerics.blocks.dynamic_activations import DynamicActivations as DynamicActivations
from intact.numerics.blocks.dynamic_activations import quantize_dynamic
from intact.numerics.blocks.dynamic_conv import dynamic_conv
from intact.numerics.blocks.dynamic_states import DynamicStateWeights as DynamicStateWeights
from intact.numerics.elementwise import ELEMENTWISE, elementwise
from intact.numerics.elementwise import INTEGERS as INTEGERS
from intact.numerics.elementwise import exp64 as exp64
from intact.numerics.elementwise import takes as takes
from intact.numerics.floats.binary import apply_slope, clip, maximum, minimum
from intact.numerics.floats.exp import exp
from intact.numerics.floats.float_conv import float_conv
from intact.numerics.floats.float_conv_transpose import Phase as Phase
from intact.numerics.floats.float_conv_transpose import float_conv_transpose
from intact.numerics.floats.float_conv_transpose import phases as phases
from intact.numerics.floats.float_matmul import float_product
from intact.numerics.floats.fma import fma
from intact.numerics.floats.function import FUNCTIONS
from intact.numerics.floats.layer_norm import layer_norm
from intact.numerics.floats.recurrent import GATES, StateWeights, recurrence
from intact.numerics.floats.reduce import REDUCTIONS as REDUCTIONS
from intact.numerics.floats.reduce import lane_sum, max_over, mean_over, min_over, sum_over
from intact.numerics.floats.softmax import softmax
from intact.numerics.fold import CUM_SUM_DTYPES as CUM_SUM_DTYPES
from intact.numerics.fold import FOLD_DTYPES as FOLD_DTYPES
from intact.numerics.fold import cum_sum
from intact.numerics.fold import fold as fold
from intact.numerics.grid_sample import PADDINGS as PADDINGS
from intact.numerics.grid_sample import grid_sample as grid_sample
from intact.numerics.grids.affine import (
    REAL_DTYPES,
    dequantize,
    fake_quantize,
    fake_quantize_grad,
    quantize,
    quantize_reciprocal,
    representable_range,
    round_to_format,
    store,
    to_float32,
)
from intact.numerics.grids.affine import (
    code_zero_point as code_zero_point,
)
from intact.numerics.grids.affine import (
    positive_scale as positive_scale,
)
from intact.numerics.grids.granularity import expand, granule_shape, normalize_axes
from intact.numerics.grids.ranges import ZERO_RANGE, affine_from_range, inverse_scale_view, scale_from_amax
from intact.numerics.grids.short_scale import SHORT_BITS, midway_bias, short_amax, short_range
from intact.numerics.grids.statistics import absmax, count_fixed, count_pow2, minmax
from intact.numerics.integers.accumulator import accumulator_bound, prove_accumulator
from intact.numerics.integers.add import Affine, add, rescale
from intact.numerics.integers.conv import conv
from intact.numerics.integers.linear import join_sums, linear, matmul, shift_of_sums
from intact.numerics.integers.multipliers import (
    MULTIPLIER_LIMIT as MULTIPLIER_LIMIT,
)
from intact.numerics.integers.multipliers import (
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
from intact.numerics.integers.rounding import moments, quadratic_forms, round_together, unit_factor
from intact.numerics.learned_range import learned_range_grad
from intact.numerics.resize import COORDINATES as COORDINATES
from intact.numerics.resize import ROUNDINGS as ROUNDINGS
from intact.numerics.resize import SAMPLED_TERMS as SAMPLED_TERMS
from intact.numerics.resize import ResizeSampling as ResizeSampling
from intact.numerics.resize import interpolate
from intact.numerics.resize import nearest_places as nearest_places
from intact.numerics.resize import weighted_places as weighted_places
from intact.numerics.scatter_elements import SCATTER_DTYPES as SCATTER_DTYPES
from intact.numerics.scatter_elements import SCATTER_REDUCTIONS as SCATTER_REDUCTIONS
from intact.numerics.scatter_elements import scatter_elements as scatter_elements
from intact.numerics.scatter_rows import row_numbers as row_numbers
from intact.numerics.scatter_rows import scatter_rows as scatter_rows
from intact.numerics.sequences.cached_attention import CACHE_DTYPES as CACHE_DTYPES
from intact.numerics.sequences.cached_attention import SCALE_BYTES as SCALE_BYTES
from intact.numerics.sequences.cached_attention import cache_reals as cache_reals
from intact.numerics.sequences.cached_attention import cached_attention as cached_attention
from intact.numerics.sequences.cached_attention import tokens_before as tokens_before
from intact.numerics.sequences.cached_attention import write_cache as write_cache
from intact.numerics.sequences.causal_convolution import causal_convolution as causal_convolution
from intact.numerics.sequences.linear_attention import linear_attention as linear_attention
from intact.numerics.sequences.rotary import rotary_embedding as rotary_embedding
from intact.numerics.top_k import ORDER_DTYPES as ORDER_DTYPES
from intact.numerics.top_k import arg_max
from intact.numerics.top_k import top_k as top_k
from intact.numerics.windows import Window as Window

__all__ = [
    "Affine",
    "Bounds",
    "ELEMENTWISE",
    "FUNCTIONS",
    "GATES",
    "Gain",
    "NO_OFFSET",
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
    "block_minima",
    "block_product",
    "has_block_product",
    "block_scales",
    "clip",
    "code_steps",
    "code_values",
    "conv",
    "count_fixed",
    "count_pow2",
    "cum_sum",
    "dequantize",
    "dequantize_blocks",
    "dynamic_conv",
    "elementwise",
    "exp",
    "expand",
    "fake_quantize",
    "fake_quantize_grad",
    "float_conv",
    "float_conv_transpose",
    "float_max_pool",
    "float_product",
    "fma",
    "fold_batchnorm",
    "granule_shape",
    "interpolate",
    "inverse_scale_view",
    "join_sums",
    "lane_sum",
    "layer_norm",
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
    "moments",
    "multipliers",
    "nbits_product",
    "normalize_axes",
    "prove_accumulator",
    "product_form",
    "quadratic_forms",
    "quantize",
    "quantize_dynamic",
    "quantize_reciprocal",
    "ratio",
    "recurrence",
    "representable_range",
    "requantize",
    "requantize_by_product",
    "rescale",
    "round_to_format",
    "round_together",
    "scale_from_amax",
    "scale_bias",
    "shift_of_sums",
    "short_amax",
    "short_range",
    "apply_slope",
    "softmax",
    "store",
    "sum_over",
    "to_codes",
    "to_float32",
    "to_real",
    "unit_factor",
]

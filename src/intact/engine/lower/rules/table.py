"""The rules of every operator, in order: the first that does not raise NoMatch writes the steps of a node.

Rules in codes come in front of those in floats, and one step in front of several.
"""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.rule import LayerRule, Rule
from intact.engine.lower.rules.elements.add import lower_add_alone
from intact.engine.lower.rules.elements.binary import lower_binary, with_number
from intact.engine.lower.rules.elements.cast import lower_cast
from intact.engine.lower.rules.elements.clip import lower_clip, lower_integer_clip
from intact.engine.lower.rules.elements.dequantize import lower_dequantize_linear
from intact.engine.lower.rules.elements.dynamic_quantize import lower_dynamic_quantize_linear
from intact.engine.lower.rules.elements.elementwise import lower_is_inf, lower_mod, operation
from intact.engine.lower.rules.elements.function import function_rule, lower_function_alone
from intact.engine.lower.rules.elements.max import integer_extreme, lower_extreme
from intact.engine.lower.rules.elements.one_hot import lower_one_hot
from intact.engine.lower.rules.elements.quantize import lower_quantize_linear
from intact.engine.lower.rules.elements.trilu import lower_free_trilu, lower_trilu
from intact.engine.lower.rules.functions.pow import lower_exact_pow, lower_pow
from intact.engine.lower.rules.functions.step_chains import (
    lower_abs,
    lower_celu,
    lower_elu,
    lower_hard_sigmoid,
    lower_leaky_relu,
    lower_selu,
    lower_sign,
    lower_sum,
    lower_tan,
    lower_thresholded_relu,
)
from intact.engine.lower.rules.moves.block_gather import lower_block_gather
from intact.engine.lower.rules.moves.concat import lower_concat, lower_concat_with_tokens
from intact.engine.lower.rules.moves.depth_to_space import lower_depth_to_space, lower_space_to_depth
from intact.engine.lower.rules.moves.expand import (
    lower_constant_of_shape,
    lower_expand,
    lower_free_tile,
    lower_tile,
)
from intact.engine.lower.rules.moves.gather import lower_gather, lower_gather_of_one
from intact.engine.lower.rules.moves.gather_elements import lower_gather_elements
from intact.engine.lower.rules.moves.gather_rows import lower_constant_gather_nd, lower_gather_nd
from intact.engine.lower.rules.moves.grid_sample import lower_grid_sample
from intact.engine.lower.rules.moves.pad import lower_pad
from intact.engine.lower.rules.moves.reshape import lower_reshape
from intact.engine.lower.rules.moves.resize import lower_resize
from intact.engine.lower.rules.moves.reverse_sequence import lower_reverse_sequence
from intact.engine.lower.rules.moves.scatter_elements import lower_scatter_elements
from intact.engine.lower.rules.moves.scatter_rows import lower_scatter_nd
from intact.engine.lower.rules.moves.slice import lower_counted_slice, lower_slice, lower_split
from intact.engine.lower.rules.moves.transpose import lower_transpose
from intact.engine.lower.rules.products.block_linear import (
    lower_block_linear,
    lower_dynamic_matmul,
    lower_matmul_bnb4,
    lower_matmul_integer_to_float,
    lower_matmul_nbits,
)
from intact.engine.lower.rules.products.cached_attention import lower_group_query
from intact.engine.lower.rules.products.causal_conv import lower_causal_conv
from intact.engine.lower.rules.products.conv import lower_conv, lower_conv_in_floats
from intact.engine.lower.rules.products.conv_transpose import (
    lower_conv_transpose,
    lower_conv_transpose_in_floats,
)
from intact.engine.lower.rules.products.dft import lower_dft
from intact.engine.lower.rules.products.dynamic_recurrent import lower_dynamic_lstm
from intact.engine.lower.rules.products.gemm import lower_gemm, lower_gemm_in_floats
from intact.engine.lower.rules.products.linear_attention import lower_linear_attention
from intact.engine.lower.rules.products.matmul import lower_matmul, lower_matmul_in_floats
from intact.engine.lower.rules.products.recurrent import lower_recurrent
from intact.engine.lower.rules.products.stft import lower_stft
from intact.engine.lower.rules.reductions.arg_max import lower_arg_max
from intact.engine.lower.rules.reductions.batch_normalization import lower_batch_norm_alone
from intact.engine.lower.rules.reductions.cum_sum import lower_cum_sum
from intact.engine.lower.rules.reductions.fold import lower_fold
from intact.engine.lower.rules.reductions.group_normalization import lower_group_norm, lower_instance_norm
from intact.engine.lower.rules.reductions.layer_norm import lower_layer_norm_alone
from intact.engine.lower.rules.reductions.pool import (
    lower_average_pool,
    lower_float_average_pool,
    lower_max_pool,
)
from intact.engine.lower.rules.reductions.range import lower_range
from intact.engine.lower.rules.reductions.reduce import lower_reduce, sum_of
from intact.engine.lower.rules.reductions.softmax import lower_softmax_alone, lower_wide_softmax
from intact.engine.lower.rules.reductions.step_chains import (
    lower_log_softmax,
    lower_lrn,
    lower_reduce_log_sum_exp,
    lower_rms_norm,
)
from intact.engine.lower.rules.reductions.top_k import lower_top_k
from intact.graph import Node, ops

LAYERS: dict[str, tuple[LayerRule, LayerRule]] = {
    "Conv": (lower_conv, lower_conv_in_floats),
    "ConvTranspose": (lower_conv_transpose, lower_conv_transpose_in_floats),
    "Gemm": (lower_gemm, lower_gemm_in_floats),
    "MatMul": (lower_matmul, lower_matmul_in_floats),
}
"""Operator at the root of a layer -> its rules in codes and in floats. They take in what stands behind it."""


def lower_layer_in_codes(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a layer in integers.

    Returns:
        The nodes that it could not take in.
    Raises:
        NoMatch: The root itself.
    """
    return LAYERS[fused.root.op_type][0](builder, fused)


def lower_layer_in_floats(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a layer in floats: its root, and the bias that is added right behind it.

    Returns:
        The nodes that it could not take in.
    Raises:
        NoMatch: The root itself.
    """
    done = LAYERS[fused.root.op_type][1](builder, fused)
    return [node for node in fused.nodes if node not in done]


def lower_alone_in_codes(builder: PlanBuilder, node: Node) -> None:
    """Lower the root of a layer by itself, in integers.

    Raises:
        NoMatch: It has no integer form.
    """
    lower_layer_in_codes(builder, Fused(node))


def lower_alone_in_floats(builder: PlanBuilder, node: Node) -> None:
    """Lower the root of a layer by itself, in floats.

    Raises:
        NoMatch: No kernel computes it.
    """
    lower_layer_in_floats(builder, Fused(node))


RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(sorted(ops.WITH_CURVE), (lower_function_alone,)),
    **{
        name: (function_rule(record().step),)
        for name, record in ops.FUNCTIONS.items()
        if record.variants and record.curve is None
    },
    "Abs": (operation("abs"), lower_function_alone, lower_abs),
    "Add": (lower_add_alone, operation("add"), lower_function_alone, lower_binary),
    "And": (operation("and"),),
    "ArgMax": (lower_arg_max,),
    "ArgMin": (lower_arg_max,),
    "AveragePool": (lower_average_pool, lower_float_average_pool),
    "BatchNormalization": (lower_batch_norm_alone,),
    "BitwiseAnd": (operation("bitwise_and"),),
    "Cast": (lower_cast,),
    "CastLike": (lower_cast,),
    "CausalConvWithState": (lower_causal_conv,),
    "Ceil": (operation("ceil"),),
    "Celu": (lower_function_alone, lower_celu),
    "Clip": (lower_integer_clip, lower_function_alone, lower_clip),
    "Concat": (lower_concat_with_tokens, lower_concat),
    "ConstantOfShape": (lower_constant_of_shape,),
    "Conv": (lower_alone_in_codes, lower_alone_in_floats),
    "ConvTranspose": (lower_alone_in_codes, lower_alone_in_floats),
    "CumSum": (lower_cum_sum,),
    "DFT": (lower_dft,),
    "DepthToSpace": (lower_depth_to_space,),
    "DequantizeLinear": (lower_dequantize_linear,),
    "Div": (operation("div"), lower_function_alone, lower_binary),
    "DynamicQuantizeLinear": (lower_dynamic_quantize_linear,),
    "Elu": (lower_function_alone, lower_elu),
    "Equal": (operation("equal"),),
    "Exp": (operation("exp"), lower_function_alone),
    "Expand": (lower_expand,),
    "Flatten": (lower_reshape,),
    "Floor": (operation("floor"),),
    "GRU": (lower_recurrent,),
    "Gather": (lower_block_gather, lower_gather_of_one, lower_gather),
    "GatherElements": (lower_gather_elements,),
    "GatherND": (lower_constant_gather_nd, lower_gather_nd),
    "Gemm": (lower_alone_in_codes, lower_alone_in_floats),
    "GlobalAveragePool": (lower_average_pool, lower_reduce),
    "GlobalMaxPool": (lower_max_pool, lower_reduce),
    "Greater": (operation("greater"),),
    "GreaterOrEqual": (operation("greater_or_equal"),),
    "GridSample": (lower_grid_sample,),
    "GroupNormalization": (lower_group_norm,),
    "HardSigmoid": (lower_function_alone, lower_hard_sigmoid),
    "Identity": (lower_reshape,),
    "InstanceNormalization": (lower_instance_norm,),
    "IsInf": (lower_is_inf,),
    "IsNaN": (operation("is_nan"),),
    "LRN": (lower_lrn,),
    "LSTM": (lower_recurrent,),
    "LayerNormalization": (lower_layer_norm_alone,),
    "LeakyRelu": (lower_function_alone, lower_leaky_relu),
    "Less": (operation("less"),),
    "LessOrEqual": (operation("less_or_equal"),),
    "LinearAttention": (lower_linear_attention,),
    "LogSoftmax": (lower_log_softmax,),
    "MatMul": (lower_alone_in_codes, lower_alone_in_floats),
    "Max": (integer_extreme("max"), lower_function_alone, lower_extreme),
    "MaxPool": (lower_max_pool,),
    "Mean": (lower_sum,),
    "Min": (integer_extreme("min"), lower_function_alone, lower_extreme),
    "Mod": (lower_mod,),
    "Mul": (operation("mul"), lower_function_alone, lower_binary),
    "Neg": (operation("neg"), lower_function_alone, with_number("mul", -1.0)),
    "Not": (operation("not"),),
    "OneHot": (lower_one_hot,),
    "Or": (operation("or"),),
    "PRelu": (lower_function_alone, lower_leaky_relu),
    "Pad": (lower_pad,),
    "Pow": (lower_function_alone, lower_exact_pow, lower_pow),
    "QuantizeLinear": (lower_quantize_linear,),
    "RMSNormalization": (lower_rms_norm,),
    "RNN": (lower_recurrent,),
    "Range": (lower_range,),
    "Reciprocal": (lower_function_alone, with_number("div", 1.0, first=True)),
    "ReduceL1": (sum_of("magnitude", ""),),
    "ReduceL2": (sum_of("square", "sqrt"),),
    "ReduceLogSum": (sum_of("", "log"),),
    "ReduceLogSumExp": (lower_reduce_log_sum_exp,),
    "ReduceMax": (lower_reduce, lower_fold),
    "ReduceMean": (lower_average_pool, lower_reduce, lower_fold),
    "ReduceMin": (lower_reduce, lower_fold),
    "ReduceProd": (lower_fold,),
    "ReduceSum": (lower_reduce, lower_fold),
    "ReduceSumSquare": (sum_of("square", ""),),
    "Reshape": (lower_reshape,),
    "Resize": (lower_resize,),
    "ReverseSequence": (lower_reverse_sequence,),
    "Round": (operation("round"),),
    "STFT": (lower_stft,),
    "ScatterElements": (lower_scatter_elements,),
    "ScatterND": (lower_scatter_nd,),
    "Selu": (lower_function_alone, lower_selu),
    "Sign": (lower_sign,),
    "Slice": (lower_slice, lower_counted_slice),
    "Softmax": (lower_wide_softmax, lower_softmax_alone),
    "SpaceToDepth": (lower_space_to_depth,),
    "Split": (lower_split,),
    "Squeeze": (lower_reshape,),
    "Sub": (operation("sub"), lower_function_alone, lower_binary),
    "Sum": (lower_sum,),
    "Tan": (lower_tan,),
    "ThresholdedRelu": (lower_function_alone, lower_thresholded_relu),
    "Tile": (lower_tile, lower_free_tile),
    "TopK": (lower_top_k,),
    "Transpose": (lower_transpose,),
    "Trilu": (lower_trilu, lower_free_trilu),
    "Unsqueeze": (lower_reshape,),
    "Where": (operation("where"),),
    "Xor": (operation("xor"),),
}
"""Operator of ONNX -> its rules, in order. Without one a node runs in ONNX Runtime."""

FOREIGN_RULES: dict[tuple[str, str], tuple[Rule, ...]] = {
    (ops.MICROSOFT, "CausalConvWithState"): (lower_causal_conv,),
    (ops.MICROSOFT, "DynamicQuantizeLSTM"): (lower_dynamic_lstm,),
    (ops.MICROSOFT, "DynamicQuantizeMatMul"): (lower_dynamic_matmul,),
    (ops.MICROSOFT, "GatherBlockQuantized"): (lower_block_gather,),
    (ops.MICROSOFT, "GroupQueryAttention"): (lower_group_query,),
    (ops.MICROSOFT, "LinearAttention"): (lower_linear_attention,),
    (ops.MICROSOFT, "MatMulBnb4"): (lower_matmul_bnb4,),
    (ops.MICROSOFT, "MatMulIntegerToFloat"): (lower_matmul_integer_to_float,),
    (ops.MICROSOFT, "MatMulNBits"): (lower_matmul_nbits,),
    (ops.BlockGather.domain, "BlockGather"): (lower_block_gather,),
    (ops.BlockLinear.domain, "BlockLinear"): (lower_block_linear,),
    (ops.NarrowGroupQueryAttention.domain, "GroupQueryAttention"): (lower_group_query,),
}
"""The same for operators of other domains, ONNX Runtime's and INTact's."""

"""Every attribute of every layer is set once, and changes what is built, or is noted as without meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from tests.trt.networks import constant, ints

import intact.trt as trt
from intact.trt.base.trt_object import settable, without_meaning

Network = trt.INetworkDefinition
Recipe = Callable[[Network], tuple[Any, dict[str, Any]]]
ONES = np.ones((2, 2, 3, 3), np.float32)
SHAPE = (1, 2, 6, 6)


class Other:
    """A value that is made in the network of the layer; `first` is set before the state is looked at."""

    def __init__(self, make: Callable[[Network], Any], **first: Any) -> None:
        self.make, self.first = make, first


def when(value: Any, **first: Any) -> Other:
    """A value that counts once other attributes are as `first` says."""
    return Other(lambda network: value, **first)


def data(network: Network, shape: tuple[int, ...] = SHAPE, dtype: trt.DataType = trt.float32) -> trt.ITensor:
    return network.add_input(f"in{network.num_inputs}", dtype, shape)


WINDOW = {
    "stride_nd": (2, 2), "stride": (2, 2), "pre_padding": (1, 1), "post_padding": (1, 0), "padding": (1, 1),
    "padding_nd": (1, 1), "padding_mode": trt.PaddingMode.SAME_UPPER,
}  # fmt: skip
KERNEL = {
    "num_output_maps": 1, "kernel_size_nd": (1, 9), "kernel_size": (1, 9), "kernel": 2 * ONES,
    "bias": np.ones(2, np.float32), "num_groups": 2, "dilation_nd": (2, 2), "dilation": (2, 2),
}  # fmt: skip
PADS = dict.fromkeys(("pre_padding_nd", "post_padding_nd", "pre_padding", "post_padding"), (1, 2))


def grid(n: Network, quantize: bool) -> tuple[Any, dict[str, Any]]:
    scale = constant(n, np.float32([0.1, 0.2]))
    weights = constant(n, ONES)
    if quantize:
        layer = n.add_quantize(weights, scale, trt.int8)
    else:
        layer = n.add_dequantize(constant(n, ONES.astype(np.int8)), scale)
    layer.axis = 0
    return layer, {"axis": 1, "to_type": trt.fp8 if quantize else trt.int32, "block_shape": (1, 2, 3, 3)}


def attention(n: Network) -> tuple[Any, dict[str, Any]]:
    q, k, v = (data(n, (1, 2, 3, 4)) for _ in range(3))
    layer = n.add_attention(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, False)
    scale = Other(lambda network: constant(network, np.float32(0.1)))
    return layer, {
        "causal": True, "causal_kind": trt.CausalMaskKind.LOWER_RIGHT,
        "query_form": trt.AttentionIOForm.PACKED_NHD, "key_value_form": trt.AttentionIOForm.PACKED_NHD,
        "query_lengths": Other(lambda network: ints(network, 3), query_form=trt.AttentionIOForm.PACKED_NHD),
        "key_value_lengths": Other(lambda network: ints(network, 2)),
        "norm_op": trt.AttentionNormalizationOp.NONE,
        "mask": Other(lambda network: constant(network, np.ones((1, 1, 3, 3), bool))),
        "normalization_quantize_scale": scale, "normalization_quantize_to_type": trt.int8,
    }  # fmt: skip


def experts(n: Network) -> tuple[Any, dict[str, Any]]:
    layer = n.add_moe(data(n, (1, 2, 4)), data(n, (1, 2, 1), trt.int32), data(n, (1, 2, 1)))
    layer.set_gated_weights(*(data(n, s) for s in ((3, 4, 8), (3, 4, 8), (3, 8, 4))), trt.MoEActType.SILU)
    layer.set_gated_biases(*(data(n, (3, size)) for size in (8, 8, 4)))
    layer.set_quantization_dynamic_dbl_q(constant(n, np.float32(1)), trt.fp4, (1, 1, 1, 8), trt.fp8)
    return layer, {
        "activation_type": trt.MoEActType.NONE, "quantization_to_type": trt.fp8,
        "quantization_block_shape": (1, 1, 1, 4), "dyn_q_output_scale_type": trt.float32,
        "swiglu_param_limit": 2.0, "swiglu_param_alpha": 2.0, "swiglu_param_beta": 1.0,
    }  # fmt: skip


def loop_part(n: Network, part: str) -> tuple[Any, dict[str, Any]]:
    loop = n.add_loop()
    loop.add_trip_limit(constant(n, np.int32(2)), trt.TripLimit.COUNT)
    state = loop.add_recurrence(data(n, (2, 2)))
    iterator = loop.add_iterator(data(n, (2, 2, 2)), 0)
    body = n.add_elementwise(
        state.get_output(0), iterator.get_output(0), trt.ElementWiseOperation.SUM
    ).get_output(0)
    state.set_input(1, body)
    result = loop.add_loop_output(body, trt.LoopOutput.CONCATENATE, 0)
    result.set_input(1, constant(n, np.int32(2)))
    n.mark_output(result.get_output(0))
    return (iterator, {"axis": 1, "reverse": True}) if part == "iterator" else (result, {"axis": 1})


def recurrent(n: Network) -> tuple[Any, dict[str, Any]]:
    layer = n.add_rnn_v2(data(n, (1, 1, 3, 4)), 2, 4, 3, trt.RNNOperation.RELU)
    for i in range(2):
        for of_data in (True, False):
            layer.set_weights_for_gate(i, trt.RNNGateType.INPUT, of_data, np.ones((4, 4), np.float32))
            layer.set_bias_for_gate(i, trt.RNNGateType.INPUT, of_data, np.zeros(4, np.float32))
    state = Other(lambda network: data(network, (1, 1, 2, 4)))
    return layer, {
        "op": trt.RNNOperation.TANH, "direction": trt.RNNDirection.BIDIRECTION,
        "input_mode": trt.RNNInputMode.SKIP, "hidden_state": state, "cell_state": state,
        "seq_lengths": Other(lambda network: data(network, (1, 1), trt.int32)),
    }  # fmt: skip


def dynamic(n: Network) -> tuple[Any, dict[str, Any]]:
    layer = n.add_dynamic_quantize(data(n, (16, 16)), 1, 16, trt.fp8, trt.float32)
    return layer, {
        "axis": 0, "block_size": 8, "block_shape": (4, 4), "to_type": trt.fp4, "scale_type": trt.fp8,
    }  # fmt: skip


def shuffle(n: Network) -> tuple[Any, dict[str, Any]]:
    layer = n.add_shuffle(data(n))
    layer.reshape_dims = (0, 2, 6, 6)
    return layer, {
        "first_transpose": (0, 1, 3, 2), "second_transpose": (1, 0, 2, 3), "reshape_dims": (2, 1, 6, 6),
        "zero_is_placeholder": False,
    }  # fmt: skip


def slice_layer(n: Network) -> tuple[Any, dict[str, Any]]:
    layer = n.add_slice(data(n), (0, 0, 0, 0), (1, 1, 2, 2), (1, 1, 1, 1))
    return layer, {
        "start": (0, 1, 1, 1), "shape": (1, 2, 3, 3), "stride": (1, 1, 2, 2), "axes": (3, 2, 1, 0),
        "mode": trt.SampleMode.WRAP,
    }  # fmt: skip


def onnx_node(n: Network) -> tuple[Any, dict[str, Any]]:
    relu, negative = (onnx.helper.make_node(op, ["a"], ["b"], name=op) for op in ("Relu", "Neg"))
    return n.add_node([data(n)], relu, {"": 17}), {"node": negative}


@trt.plugin("setters::First")
def first(x: np.ndarray, factor: float = 1.0) -> np.ndarray:
    return x * np.float32(factor)


trt.plugin("setters::Second")(lambda x: -x)


class Same(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    def __init__(self) -> None:
        trt.IPluginV3.__init__(self)
        self.num_outputs, self.plugin_name = 1, "SettersSame"

    def get_output_data_types(self, input_types: Any) -> Any:
        return input_types

    def get_output_shapes(self, inputs: Any, shape_inputs: Any, builder: Any) -> Any:
        return inputs


PLUGIN = {"operator": "setters::Second", "attributes": {"factor": 2.0}}

T = trt.InterpolationMode
RECIPES: dict[str, Recipe] = {
    "IActivationLayer": lambda n: (
        n.add_activation(data(n), trt.ActivationType.SELU),
        {"alpha": 0.5, "beta": 2.0, "type": trt.ActivationType.TANH},
    ),
    "IAttention": attention,
    "ICastLayer": lambda n: (n.add_cast(data(n), trt.int32), {"to_type": trt.float32}),
    "IConcatenationLayer": lambda n: (n.add_concatenation([data(n), data(n)]), {"axis": 2}),
    "IConstantLayer": lambda n: (
        n.add_constant((2, 3), np.arange(6, dtype=np.float32)),
        {"shape": (3, 2), "weights": np.ones(6, np.float32)},
    ),
    "IConvolutionLayer": lambda n: (n.add_convolution_nd(data(n), 2, (3, 3), ONES), {**WINDOW, **KERNEL}),
    "IDeconvolutionLayer": lambda n: (
        n.add_deconvolution_nd(data(n), 2, (3, 3), ONES), {**WINDOW, **KERNEL},
    ),
    "ICumulativeLayer": lambda n: (
        n.add_cumulative(data(n), ints(n, 1), trt.CumulativeOperation.SUM, False, False),
        {"exclusive": True, "reverse": True, "op": 7},
    ),
    "IDequantizeLayer": lambda n: grid(n, quantize=False),
    "IQuantizeLayer": lambda n: grid(n, quantize=True),
    "IDynamicQuantizeLayer": dynamic,
    "IEinsumLayer": lambda n: (n.add_einsum([data(n)], "abcd->abdc"), {"equation": "abcd->ab"}),
    "IElementWiseLayer": lambda n: (
        n.add_elementwise(data(n), data(n), trt.ElementWiseOperation.SUM),
        {"op": trt.ElementWiseOperation.MAX},
    ),
    "IFillLayer": lambda n: (
        n.add_fill((3,), trt.FillOperation.LINSPACE, trt.float32),
        {"alpha": 2.0, "beta": 3.0, "operation": trt.FillOperation.RANDOM_NORMAL, "shape": (4,),
         "to_type": trt.int32},
    ),
    "IFullyConnectedLayer": lambda n: (
        n.add_fully_connected(data(n), 2, np.ones((2, 72), np.float32)),
        {"num_output_channels": 4, "kernel": np.zeros((2, 72), np.float32),
         "bias": np.ones(2, np.float32)},
    ),
    "IGatherLayer": lambda n: (
        n.add_gather(data(n), data(n, SHAPE, trt.int32), 1),
        {"axis": 2, "mode": trt.GatherMode.ELEMENT, "num_elementwise_dims": 1},
    ),
    "IGridSampleLayer": lambda n: (
        n.add_grid_sample(data(n), data(n, (1, 3, 3, 2))),
        {"align_corners": True, "interpolation_mode": T.CUBIC, "sample_mode": trt.SampleMode.CLAMP},
    ),
    "IIteratorLayer": lambda n: loop_part(n, "iterator"),
    "ILoopOutputLayer": lambda n: loop_part(n, "output"),
    "IMoELayer": experts,
    "IKVCacheUpdateLayer": lambda n: (
        n.add_kv_cache_update(data(n), data(n), data(n, (1,), trt.int32), trt.KVCacheMode.LINEAR),
        {
            "cache_mode": None, "update_form": trt.AttentionIOForm.PACKED_NHD,
            "update_lengths": Other(lambda network: ints(network, 0, 6)),
        },
    ),
    "ILRNLayer": lambda n: (
        n.add_lrn(data(n), 3, 1.0, 0.5, 1.0), {"alpha": 2.0, "beta": 1.0, "k": 2.0, "window_size": 5},
    ),
    "IMatrixMultiplyLayer": lambda n: (
        n.add_matrix_multiply(data(n), trt.MatrixOperation.NONE, data(n), trt.MatrixOperation.NONE),
        {"op0": trt.MatrixOperation.TRANSPOSE, "op1": trt.MatrixOperation.TRANSPOSE},
    ),
    "INMSLayer": lambda n: (
        n.add_nms(data(n, (1, 5, 4)), data(n, (1, 5, 2)), constant(n, np.int32(3))),
        {"bounding_box_format": trt.BoundingBoxFormat.CENTER_SIZES, "topk_box_limit": 2,
         "indices_type": trt.int64},
    ),
    "INonZeroLayer": lambda n: (n.add_non_zero(data(n)), {"indices_type": trt.int64}),
    "INormalizationLayer": lambda n: (
        n.add_normalization(data(n), *(constant(n, np.ones((1, 2, 1, 1), np.float32)) for _ in "sb"), 12),
        {"axes": 8, "epsilon": 0.5, "num_groups": 2},
    ),
    "IOneHotLayer": lambda n: (
        n.add_one_hot(
            data(n, (3, 3), trt.int32), constant(n, np.float32([0, 1])), constant(n, np.int32(3)), -1
        ),
        {"axis": 0},
    ),
    "IOnnxLayer": onnx_node,
    "IPaddingLayer": lambda n: (n.add_padding_nd(data(n), (0, 0), (0, 0)), PADS),
    "IPluginV2Layer": lambda n: (n.add_plugin([data(n)], "setters::First"), PLUGIN),
    "IPluginV3Layer": lambda n: (n.add_plugin_v3([data(n)], [], Same()), {
        "operator": "setters::Second",
        "attributes": Other(lambda network: {"factor": 2.0}, operator="setters::First"),
    }),
    "IPoolingLayer": lambda n: (
        n.add_pooling_nd(data(n), trt.PoolingType.AVERAGE, (2, 2)),
        {**WINDOW, "window_size": (3, 3), "window_size_nd": (3, 3), "type": trt.PoolingType.MAX,
         "blend_factor": when(0.5, type=trt.PoolingType.MAX_AVERAGE_BLEND),
         "average_count_excludes_padding": when(False, padding_nd=(1, 1))},
    ),
    "IRNNv2Layer": recurrent,
    "IReduceLayer": lambda n: (
        n.add_reduce(data(n), trt.ReduceOperation.SUM, 2, False),
        {"axes": 4, "keep_dims": True, "op": trt.ReduceOperation.MAX},
    ),
    "IResizeLayer": lambda n: (n.add_resize(data(n)), {
        "align_corners": True, "scales": (1, 1, 2, 2), "shape": (1, 2, 3, 3), "resize_mode": T.LINEAR,
        "coordinate_transformation": trt.ResizeCoordinateTransformation.HALF_PIXEL,
        "nearest_rounding": trt.ResizeRoundMode.CEIL, "exclude_outside": True,
        "cubic_coeff": when(-0.5, resize_mode=T.CUBIC),
        "selector_for_single_pixel": when(
            trt.ResizeSelector.UPPER,
            coordinate_transformation=trt.ResizeCoordinateTransformation.HALF_PIXEL,
        ),
    }),
    "IReverseSequenceLayer": lambda n: (
        n.add_reverse_sequence(data(n), data(n, (2,), trt.int32)),
        {"batch_axis": 0, "sequence_axis": 2},
    ),
    "IRotaryEmbeddingLayer": lambda n: (
        n.add_rotary_embedding(data(n, (1, 2, 3, 8)), data(n, (1, 3, 4)), data(n, (1, 3, 4)), False, 0),
        {"interleaved": True, "rotary_embedding_dim": 4},
    ),
    "IScaleLayer": lambda n: (
        n.add_scale_nd(data(n), trt.ScaleMode.CHANNEL, np.zeros(2, np.float32), None, None, 1),
        {"shift": np.ones(2, np.float32), "scale": np.ones(2, np.float32), "power": np.ones(2, np.float32),
         "mode": when(trt.ScaleMode.UNIFORM, shift=np.ones(1, np.float32)), "channel_axis": 2},
    ),
    "IScatterLayer": lambda n: (
        n.add_scatter(data(n), data(n, SHAPE, trt.int32), data(n)), {"axis": 1, "mode": trt.ScatterMode.ND},
    ),
    "IShuffleLayer": shuffle,
    "ISliceLayer": slice_layer,
    "ISoftMaxLayer": lambda n: (n.add_softmax(data(n)), {"axes": 8}),
    "ITopKLayer": lambda n: (
        n.add_topk(data(n), trt.TopKOperation.MAX, 2, 4),
        {"axes": 8, "k": 1, "op": trt.TopKOperation.MIN, "indices_type": trt.int64},
    ),
    "IUnaryLayer": lambda n: (n.add_unary(data(n), trt.UnaryOperation.EXP), {"op": trt.UnaryOperation.ABS}),
}  # fmt: skip
COMMON = {"name", "precision"}
"""Every layer has them; they are tried below."""
KINDS = [
    kind for name in trt.__all__
    if inspect.isclass(kind := getattr(trt, name)) and issubclass(kind, (trt.ILayer, trt.IAttention))
]  # fmt: skip


def own(kind: type) -> set[str]:
    """The attributes of a class that are to mean something, but for those of every layer."""
    return {name for name in settable(kind) if without_meaning(kind, name) is None} - COMMON


def state(network: Network) -> object:
    """Return what the builder would build of `network`, or its messages."""
    if errors := network.errors():
        return errors
    try:
        model = network.compose().model().SerializeToString(deterministic=True)
    except ValueError as error:
        model = str(error)
    return model


def make_layer(name: str, network: Network) -> tuple[Any, dict[str, Any]]:
    layer, values = RECIPES[name](network)
    for i in range(layer.num_outputs):
        network.mark_output(layer.get_output(i))
    return layer, values


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_attribute_is_tried(kind, network) -> None:
    tried = set(RECIPES[kind.__name__](network)[1]) if kind.__name__ in RECIPES else set()
    assert own(kind) - {"message"} <= tried  # an assertion's message: test_trt_layers_more


@pytest.mark.parametrize(
    ("name", "attribute"),
    [(kind.__name__, a) for kind in KINDS if kind.__name__ in RECIPES for a in sorted(own(kind))],
)
def test_setting_it_changes_what_is_built(name, attribute, network) -> None:
    layer, values = make_layer(name, network)
    value = values[attribute]
    if isinstance(value, Other):
        for other, value_set in value.first.items():
            setattr(layer, other, value_set)
        value = value.make(network)
    before = state(network)
    assert before == state(network), "a state compares equal to itself"
    setattr(layer, attribute, value)
    assert state(network) != before


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_the_name_is_in_the_plan(name, network) -> None:
    layer, _ = make_layer(name, network)
    before = state(network)
    layer.name = "another name"
    assert layer.name == "another name"
    assert state(network) != before or isinstance(layer, (trt.IConstantLayer, trt.ILoopOutputLayer))


@pytest.mark.parametrize("name", sorted(set(RECIPES) - {"IAttention", "IIteratorLayer"}))
def test_a_pin_is_met_or_fails_the_build(name, network, log) -> None:
    layer, _ = make_layer(name, network)
    layer.precision = trt.int8
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    met = builder.is_network_supported(network, config)
    assert met == (name in ("IQuantizeLayer", "IDequantizeLayer"))
    assert met or "is pinned to INT8 and runs in float" in log.of("ERROR")[-1]


@pytest.mark.parametrize("name", sorted(set(RECIPES) - {"IAttention"}))
def test_every_input_may_be_wired_anew(name, network) -> None:
    layer, _ = make_layer(name, network)
    for index in range(layer.num_inputs):
        tensor = layer.get_input(index)
        before = state(network)
        layer.set_input(index, data(network, tensor.shape, tensor.dtype))
        assert state(network) != before, index


def test_weights_and_biases_of_gates_are_used(network) -> None:
    layer, _ = make_layer("IRNNv2Layer", network)
    for call, shape in ((layer.set_weights_for_gate, (4, 4)), (layer.set_bias_for_gate, (4,))):
        for of_data in (True, False):
            before = state(network)
            call(1, trt.RNNGateType.INPUT, of_data, np.full(shape, 3, np.float32))
            assert state(network) != before


def test_types_of_outputs_are_cast_or_noted(network, log) -> None:
    layer = network.add_unary(data(network), trt.UnaryOperation.ABS)
    network.mark_output(layer.get_output(0))
    before = state(network)
    layer.set_output_type(0, trt.float16)
    assert state(network) == before
    assert any("set_output_type is accepted and changes nothing" in m for m in log.of("INFO"))
    layer.set_output_type(0, trt.int32)
    assert state(network) != before
    layer.reset_output_type(0)
    assert state(network) == before

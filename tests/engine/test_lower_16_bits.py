"""Q/DQ pairs of 16 bits: floats on a grid (N56), or two tensors of bytes that layers multiply (N62)."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import intact
from intact import numerics
from intact.engine import Plan, Tensor
from intact.engine.files.limits import check_limits
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import Conv, Epilogue, FakeQuantize
from intact.engine.steps.elements.split_quantize import split_codes
from intact.errors import FileFormatError
from intact.graph import Session, load, normalize, to_proto
from intact.spec import Format, QuantSpec

GRIDS = [(0.0003, 0, "int16"), (0.0002, -12345, "int16"), (0.0002, 40000, "uint16"), (0.0001, 0, "uint16")]


@pytest.mark.rule("N56")
@pytest.mark.parametrize("grid", GRIDS)
def test_a_pair_is_one_step_and_equals_onnx_runtime(qdq, lower_graph, grid):
    g = qdq()
    x = g.input("x", ["n", 3, 5, 7])
    lowered = lower_graph(g, g.pair(x, *grid), sizes={"n": 2}).exact()
    assert lowered.kinds == ["fake_quantize"]
    (want,) = lowered.expected.values()
    got = lowered.values[lowered.plan.outputs[0]]
    np.testing.assert_array_equal(got, want)
    scale, zero, dtype = grid
    spec = QuantSpec(Format.parse(dtype), symmetric=zero == 0)
    np.testing.assert_array_equal(
        got, numerics.fake_quantize(lowered.feeds["x"], np.float32(scale), zero, spec)
    )


@pytest.mark.rule("N56")
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_layers_between_pairs_of_4_bits_are_int8(qdq, lower_graph, dtype):
    """A Relu in front is one of the ends: the layer writes no other codes."""
    g = qdq()
    g.constants.append(helper.make_tensor("zero", getattr(TensorProto, dtype.upper()), [], [0]))

    def pair(x, scale):
        q = g.node("QuantizeLinear", x, g.constant(np.float32(scale)), "zero")
        return g.node("DequantizeLinear", q, g.constant(np.float32(scale)), "zero")

    h = pair(g.node("Relu", g.conv(pair(g.input("x", [2, 3, 9, 9]), 0.4), 3, 8)), 0.3)
    lowered = lower_graph(g, pair(g.conv(h, 8, 4), 0.5)).exact()
    assert lowered.kinds == ["clip", "conv", "conv", "dequantize"]
    spec = Format.parse(dtype)
    ends = [(step.epilogue.low, step.epilogue.high) for step in lowered.plan.steps if step.kind == "conv"]
    assert ends == [(0, spec.qmax), (spec.qmin, spec.qmax)]
    (want,) = lowered.expected.values()
    off = np.abs(lowered.values[lowered.plan.outputs[0]] - want) / 0.5
    assert off.max() <= 1.001 and (off > 0.5).mean() < 0.01


@pytest.mark.parametrize("channels", [1, 3, 16])
def test_an_image_that_lies_in_another_order(qdq, lower_graph, channels):
    g = qdq()
    x = g.pair(g.input("x", ["n", channels, 37, 21]), 0.0003, 0, "int16")
    weight = g.floats(4, channels, 3, 3)
    lowered = lower_graph(g, g.node("Sigmoid", g.node("Conv", x, weight)), sizes={"n": 2}).agree(1e-4)
    assert lowered.kinds == ["fake_quantize", "float_conv", "function"]


@pytest.mark.rule("N62")
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("channels", [1, 3, 16])
def test_a_convolution_multiplies_codes_of_16_bits(qdq, lower_graph, channels, grid):
    """Of an image that lies in another order, with a rim that reads the code of 0."""
    g = qdq()
    x = g.pair(g.input("x", ["n", channels, 37, 21]), *grid)
    lowered = lower_graph(g, g.node("Sigmoid", g.conv(x, channels, 4)), sizes={"n": 2}).agree(1e-4)
    assert lowered.kinds == ["split_quantize", "conv"]
    assert_exact_sums(lowered, x, grid)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 1]},
        {"group": 2},
        {"dilations": [2, 3]},
        {"group": 10},
        {"group": 10, "strides": [2, 2]},
    ],
    ids=str,
)
def test_windows_of_any_kind_over_codes_of_16_bits(qdq, lower_graph, attributes, grid):
    g = qdq()
    x = g.pair(g.input("x", [2, 10, 13, 9]), *grid)
    outputs = 10 if attributes.get("group") == 10 else 6  # 10: each channel by itself
    lowered = lower_graph(g, g.conv(x, 10, outputs, **attributes)).agree(1e-4)
    assert lowered.kinds == ["split_quantize", "conv"]
    assert_exact_sums(lowered, x, grid, **attributes)


def assert_exact_sums(lowered, x, grid, **attributes) -> None:
    """Floats of a convolution are those of the integer sums of the whole codes; its bias is part of them."""
    scale, zero, dtype = grid
    step = lowered.step("conv")
    codes = numerics.quantize(
        lowered.feeds["x"], np.float32(scale), zero, QuantSpec(Format.parse(dtype), symmetric=zero == 0)
    )
    acc = numerics.conv(
        codes.astype(np.int32), np.moveaxis(lowered.plan.constants[step.weight], 3, 1), zero,
        stride=tuple(attributes.get("strides", (1, 1))), dilation=tuple(attributes.get("dilations", (1, 1))),
        padding=((1, 1), (1, 1)), groups=attributes.get("group", 1),
    )  # fmt: skip
    multiplier, bias = (
        lowered.plan.constants[name] for name in (step.epilogue.multiplier, step.epilogue.bias)
    )
    real = numerics.to_real(acc, multiplier, bias)
    if step.epilogue.activation:
        real = numerics.FUNCTIONS["sigmoid"](real)
    np.testing.assert_array_equal(lowered.values[lowered.plan.outputs[0]], real)


@pytest.mark.parametrize("shape", [(6, 9), (2, 3, 9), (1, 2, 3, 9)], ids=str)
@pytest.mark.parametrize("op", ["Gemm", "MatMul"])
def test_products_of_16_bits(qdq, lower_graph, op, shape):
    if op == "Gemm" and len(shape) != 2:
        pytest.skip("Gemm multiplies matrices")
    g = qdq()
    a, b = (g.pair(g.input("x", shape), 0.0003, 0, "int16"), g.weight(9, 5, axis=1))
    y = g.node(op, a, b)
    lowered = lower_graph(g, g.pair(y, 0.01, 100, "uint8")).agree()
    assert lowered.kinds == ["split_quantize", "linear", "dequantize"]


def test_layers_that_read_one_tensor_share_its_bytes(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 8, 6, 6]), 0.0003, 0, "int16")
    lowered = lower_graph(g, g.conv(x, 8, 8), g.conv(x, 8, 4, 1), g.node("Tanh", x)).agree(1e-4)
    assert sorted(lowered.kinds) == ["conv", "conv", "fake_quantize", "function", "split_quantize"]


def test_a_convolution_over_sequences(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [2, 6, 30]), 0.0003, -77, "int16")
    y = g.node("Conv", x, g.weight(5, 6, 3), g.floats(5), pads=[1, 1])
    lowered = lower_graph(g, y).agree(1e-4)
    assert lowered.kinds == ["split_quantize", "reshape", "reshape", "conv", "reshape"]


@pytest.mark.rule("N62")
@pytest.mark.parametrize(("size", "shift"), [(255, 0), (257, 1), (2000, 3), (32000, 7), (33000, None)])
def test_sums_that_could_leave_int32_are_rounded_or_stay_in_float_and_say_so(qdq, lower_graph, size, shift):
    """Weights of -128 and codes of 65535: 255 of them fit."""
    g = qdq()
    x = g.pair(g.input("x", [3, size]), 0.0001, 0, "uint16")
    weight = g.constant(np.full((size, 4), -128, np.int8))
    y = g.node("MatMul", x, g.node("DequantizeLinear", weight, g.constant(np.float32(0.01))))
    lowered = lower_graph(g, y).exact()
    (layer,) = (layer for layer in lowered.plan.layers if layer.op_type == "MatMul")
    if shift is None:
        assert lowered.kinds == ["fake_quantize", "float_linear"] and layer.precision == "float"
        assert "beyond int32" in layer.reason
        return
    assert lowered.kinds == ["split_quantize", "linear"] and layer.precision == "int8"
    step = lowered.step("linear")
    assert step.shift == shift
    spec = QuantSpec(Format.parse("uint16"), symmetric=True)
    codes = numerics.quantize(lowered.feeds["x"], np.float32(0.0001), 0, spec).astype(np.int64)
    sums = np.repeat(codes.sum(axis=1, keepdims=True) * -128, 4, axis=1)
    rounded = np.floor(sums / 2**shift + 0.5).astype(np.int32)
    real = numerics.to_real(
        rounded, lowered.plan.constants[step.epilogue.multiplier][0], np.zeros(4, np.float32)
    )
    np.testing.assert_array_equal(lowered.values[lowered.plan.outputs[0]], real)


@pytest.mark.parametrize(("kernel", "shift"), [(15, 0), (17, 1)])
def test_large_windows_of_channels_by_themselves(qdq, lower_graph, kernel, shift):
    """Depthwise kernels do not round."""
    g = qdq()
    x = g.pair(g.input("x", [1, 4, 20, 20]), 0.0001, 0, "uint16")
    weight = g.constant(np.full((4, 1, kernel, kernel), -128, np.int8))
    w = g.node("DequantizeLinear", weight, g.constant(np.float32(0.01)))
    lowered = lower_graph(g, g.node("Conv", x, w, group=4)).exact()
    assert lowered.kinds == ["split_quantize", "conv"] and lowered.step("conv").shift == shift


@pytest.mark.parametrize("shift", [-1, 8])
def test_a_file_cannot_round_sums_by_what_no_kernel_rounds(shift):
    high, low = split_codes("int16", 0.001, 0)
    image = ("n", 4, 6, 6)
    tensors = {"h": Tensor("h", "codes", image, high), "l": Tensor("l", "codes", image, low)}
    tensors["y"] = Tensor("y", "float32", image)
    constants = {"w": np.ones((4, 1, 1, 4), np.int8), "m": np.ones(4, np.float32)}
    constants["b"] = np.zeros(4, np.float32)
    epilogue = Epilogue("m", "b", low=-9.0, high=9.0)
    step = Conv("conv", (), "h", "y", "w", epilogue, low="l", shift=shift)
    plan = Plan((step,), tensors, constants, ("h", "l"), ("y",))
    with pytest.raises(FileFormatError, match="sums rounded to multiples"):
        check_limits(plan, {name: (a.dtype.name, a.shape) for name, a in constants.items()})


def test_layers_behind_it_multiply_its_codes_and_say_so(qdq, lower_graph):
    g = qdq()
    h = g.pair(g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 9, 9])), 3, 8)), 0.001, 0, "int16")
    h = g.pair(g.conv(h, 8, 8), 0.001, 30000, "uint16")
    y = g.node("MatMul", g.node("Sigmoid", h), g.weight(9, 4, axis=1, dtype="int16"))
    lowered = lower_graph(g, y).agree(1e-3)
    assert lowered.kinds == [
        "quantize", "conv", "split_quantize", "conv", "fake_quantize", "function", "float_linear",
    ]  # fmt: skip
    reasons = [layer.reason for layer in lowered.plan.layers]
    assert "it writes float" in reasons[0]
    assert reasons[1].startswith(
        "it multiplies codes of 16 bits by int8 weights, in integers; it writes float"
    )
    assert "weights alone are quantized (int16)" in reasons[3]
    assert [layer.precision for layer in lowered.plan.layers] == ["int8", "int8", "float", "float"]


@pytest.mark.rule("N56")
def test_borders_between_8_and_16_bits(qdq, lower_graph):
    """16 bits to codes of 8 and back are one step each, whose floats nobody stores."""
    g = qdq()
    codes = g.quantize(g.pair(g.pair(g.input("x", [2, 40])), 0.0004, 7, "int16"), 0.06, 3)
    lowered = lower_graph(g, codes).agree()
    assert lowered.kinds == ["quantize", "fake_quantize"]
    step = lowered.step("fake_quantize")
    assert lowered.plan.tensors[step.x].codes and lowered.plan.tensors[step.y].codes


def test_a_residual_of_16_bits_meets_a_layer_of_8(qdq, lower_graph):
    g = qdq()
    x = g.input("x", [1, 4, 8, 8])
    wide = g.pair(x, 0.0003, 0, "int16")
    y = g.node("Relu", g.node("Add", g.conv(g.pair(x), 4, 4), wide))
    lowered = lower_graph(g, g.quantize(y)).agree()
    assert "onnx" not in lowered.kinds and "conv" in lowered.kinds


@pytest.mark.rule("N56")
def test_doubles_are_shared_and_repeats_vanish(qdq, lower_graph):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", ["n", 4, 6]))
    a, b = g.pair(x, 1e-4, 0, "int16"), g.pair(x, 1e-4, 0, "int16")
    turned = g.pair(g.node("Transpose", a, perm=[0, 2, 1]), 1e-4, 0, "int16")
    wide = g.pair(g.node("Reshape", g.node("Concat", a, b, axis=1), g.ints(0, -1)), 1e-4, 0, "int16")
    other = g.pair(turned, 2e-4, 0, "int16")
    outputs = [g.node("Tanh", v) for v in (turned, wide, other)]
    lowered = lower_graph(g, *outputs, sizes={"n": 3}).agree()
    assert lowered.kinds.count("fake_quantize") == 2, "one grid, and the other one"
    assert sum("lie on its grid already" in note for note in lowered.plan.notes) == 2


@pytest.mark.rule("N56")
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    "bounds", [(0.0, 6.0), (-0.51234, 0.7), (None, 3.0), (-2.0, None), (2.0, 2.5), (3.0, 1.0)]
)
def test_bounds_in_front_are_ends_of_the_grid(qdq, lower_graph, grid, bounds):
    g = qdq()
    ends = ["" if end is None else g.constant(np.float32(end)) for end in bounds]
    y = g.node("Clip", g.input("x", [4, 50]), *ends)
    lowered = lower_graph(g, g.pair(y, *grid)).exact()
    assert lowered.kinds[-1] == "fake_quantize"
    (want,) = lowered.expected.values()
    np.testing.assert_array_equal(lowered.values[lowered.plan.outputs[0]], want)


def test_a_relu_in_front_is_part_of_it(qdq, lower_graph):
    g = qdq()
    x = g.node("MatMul", g.input("x", [4, 6]), g.floats(6, 8))
    y = g.node("MatMul", g.pair(g.node("Relu", x, name="relu"), 0.0003, -100, "int16"), g.floats(8, 2))
    lowered = lower_graph(g, y).agree(1e-3)
    assert lowered.kinds == ["float_linear", "fake_quantize", "float_linear"]
    step = lowered.step("fake_quantize")
    assert (step.low, step.high) == (-100, None) and "relu" in step.nodes
    assert ("relu",) in [layer.nodes for layer in lowered.plan.layers]


def test_floats_that_others_read_keep_their_bounds_apart(qdq, lower_graph):
    g = qdq()
    y = g.node("Relu", g.input("x", [4, 6]))
    lowered = lower_graph(g, y, g.pair(y, 0.0003, -100, "int16")).agree()
    assert lowered.kinds == ["function", "fake_quantize"]


def test_a_pad_that_fills_with_another_number_is_rounded_again(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 2, 3, 3]), 0.001, 0, "int16")
    pads = g.ints(0, 0, 1, 1, 0, 0, 1, 1)
    y = g.pair(g.node("Pad", x, pads, g.constant(np.float32(0.12345678))), 0.001, 0, "int16")
    lowered = lower_graph(g, g.node("Tanh", y)).exact()
    (want,) = lowered.expected.values()
    np.testing.assert_allclose(lowered.values[lowered.plan.outputs[0]], want, atol=2e-6)
    assert not any("lie on its grid" in note for note in lowered.plan.notes)


def test_codes_that_others_read_stay_with_onnx_runtime(qdq, lower_graph):
    """Codes that go out, and codes that come in; the pair in between is a step all the same."""
    g = qdq()
    wide_input = g.input("given", [2, 5], TensorProto.INT16)
    codes = g.quantize(g.node("Tanh", g.input("x", [2, 5])), 1e-4, 0, "int16")
    real = g.node("Add", g.dequantize(codes, 1e-4, 0, "int16"), g.dequantize(wide_input, 1e-4, 0, "int16"))
    lowered = lower_graph(g, codes, real).agree(1.5e-4)
    assert {"fake_quantize", "onnx"} <= set(lowered.kinds)


def test_a_pair_of_two_grids_stays_with_onnx_runtime(qdq, lower_graph):
    g = qdq()
    codes = g.quantize(g.input("x", [2, 5]), 1e-3, 0, "int16")
    lowered = lower_graph(g, g.dequantize(codes, 2e-3, 5, "int16")).agree()
    assert lowered.kinds == ["onnx"]
    assert "no Q/DQ pair of one grid" in lowered.step("onnx").reason


@pytest.mark.parametrize("opset", [13, 17])
def test_pairs_of_onnx_runtimes_own_domain(qdq, lower_graph, opset):
    """As its quantizer writes 16 bits, and on request all pairs, in files below opset 21."""
    g = qdq(opset)
    h = g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 9, 9])), 3, 8))
    h = g.pair(h, 0.001, 0, "uint16")
    h = g.node("MatMul", h, g.weight(9, 4, axis=1, dtype="int16"))
    for node in g.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = "com.microsoft"
    g.domains["com.microsoft"] = 1
    h = g.node("Cast", h, to=TensorProto.FLOAT)  # ONNX knows no types behind other domains
    lowered = lower_graph(g, h).agree(1e-3)
    assert lowered.kinds == ["quantize", "conv", "fake_quantize", "float_linear"]
    model = load(g.proto(h))
    normalize(model)
    assert model.opset_imports[""] == 21 and "com.microsoft" not in model.opset_imports
    feeds = g.feeds()
    was, now = (Session(m.SerializeToString()).run(feeds)[h] for m in (g.proto(h), to_proto(model)))
    np.testing.assert_array_equal(now, was)


def test_a_plan_file_keeps_it(qdq, tmp_path):
    g = qdq()
    y = g.node("Tanh", g.pair(g.node("Sigmoid", g.input("x", [2, 5])), 1e-4, 0, "int16"))
    engine, feeds = intact.compile(g.proto(y)), g.feeds()
    engine.save(tmp_path / "it.intact")
    again = intact.load(tmp_path / "it.intact")
    np.testing.assert_array_equal(again.run(feeds)[y], evaluate(lower(g.proto(y)), feeds)[y])


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (("int8", 0.1, 0), "one of int16"), (("int16", 0.1, 40000), "a code of int16"),
        (("int16", 0.0, 0), "a positive float32"), (("uint16", 1e39, 0), "a positive float32"),
        (("uint16", 1e-60, 0), "a positive float32"), (("int16", 0.1, 0, 3, 2), "in order"),
        (("int16", 0.1, 0, None, 2**15), "ends within int16"),
    ],
)  # fmt: skip
def test_a_file_cannot_name_a_grid_that_is_none(grid, message):
    tensors = {name: Tensor(name, "float32", ("n",)) for name in "xy"}
    plan = Plan((FakeQuantize("pair", (), "x", "y", *grid),), tensors, {}, ("x",), ("y",))
    with pytest.raises(FileFormatError, match=message):
        check_limits(plan, {})


@pytest.mark.parametrize("kernel", [(2, 2), (1, 3), (3, 2), (5,)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_transposed_convolution_whose_windows_lie_side_by_side(qdq, lower_graph, kernel, bias):
    """The last layers of segmentation networks, where 16 bits are asked for."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 5, *(4, 6)[-len(kernel) :]]), 0.0003, 0, "int16")
    third = [g.floats(7)] if bias else []
    y = g.node("ConvTranspose", x, g.weight(5, 7, *kernel, axis=1), *third, strides=list(kernel))
    lowered = lower_graph(g, g.node("Sigmoid", y), sizes={"n": 2}).agree()
    assert (
        "onnx" not in lowered.kinds
        and lowered.kinds[0] == "fake_quantize"
        and "float_conv_transpose" in lowered.kinds
    )


@pytest.mark.parametrize(
    "attributes",
    [{"strides": [1, 1]}, {"strides": [2, 2], "pads": [1, 0, 0, 0]}, {"strides": [2, 2], "group": 2},
     {"strides": [2, 2], "output_padding": [1, 1]}],
)  # fmt: skip
def test_other_transposed_convolutions_are_floats_too(qdq, lower_graph, attributes):
    g = qdq()
    x = g.pair(g.input("x", [1, 4, 4, 6]), 0.0003, 0, "int16")
    groups = attributes.get("group", 1)
    y = g.node("ConvTranspose", x, g.weight(4, 16 // groups, 2, 2, axis=None), **attributes)
    lowered = lower_graph(g, y).agree(1e-4)
    assert lowered.kinds == ["fake_quantize", "float_conv_transpose"]

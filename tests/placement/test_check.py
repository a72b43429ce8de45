"""Every message of TensorRT's parser and builder, each from a small file that earns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tests.onnx_models import onnx_model

from intact.errors import QuantValueError
from intact.graph import parse_model
from intact.placement import Finding, check

INT8 = np.int8


class Pairs:
    """Adds pairs to a `Net`."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def pair(self, x: str, name: str, scale: Any = 0.1, zero: Any = None, **attributes: Any) -> str:
        n = self.net
        s = n.weight(f"{name}.s", np.asarray(scale, np.float32))
        z = n.weight(f"{name}.z", np.zeros(np.shape(scale), INT8) if zero is None else zero)
        q = n.node("QuantizeLinear", x, s, z, name=f"{name}.q", **attributes)
        y: str = n.node("DequantizeLinear", q, s, z, name=name, **attributes)
        n._channels[y] = n._channels.get(x, 0)
        return y

    def add_stored(self, codes: Any, name: str, scale: Any, **attributes: Any) -> str:
        n = self.net
        s = n.weight(f"{name}.s", np.asarray(scale, np.float32))
        z = n.weight(f"{name}.z", np.zeros(np.shape(scale), np.asarray(codes).dtype))
        return str(n.node("DequantizeLinear", n.weight(f"{name}.c", codes), s, z, name=name, **attributes))

    def conv(self, x: str, name: str, channels: int = 16, **attributes: Any) -> str:
        n = self.net
        w = self.add_stored(
            np.ones((channels, n._channels[x], 1, 1), INT8), f"{name}.w", np.ones(channels), axis=0
        )
        y: str = n.node("Conv", x, w, name=name, **attributes)
        n._channels[y] = channels
        return y


Write = Callable[[Any, Pairs], str]


def findings_of(net: Callable[..., Any], write: Write, opset: int = 21) -> list[Finding]:
    n = net(opset)
    output = write(n, Pairs(n))
    proto = onnx_model(n.nodes, n.inputs, {output: None}, n.weights, domains=n.domains, ir_version=10)
    model = onnx.shape_inference.infer_shapes(proto)
    return check(parse_model(model.SerializeToString(), "net"))


def image(n: Any, name: str = "x") -> str:
    return str(n.input(name, [1, 16, 8, 8]))


def rows(n: Any, *shape: Any) -> str:
    return str(n.input("x", list(shape or (4, 16))))


def q_only(n: Any, p: Pairs) -> str:
    codes = n.node("QuantizeLinear", rows(n), n.weight("s", np.float32(1)), n.weight("z", INT8(0)), name="p")
    return str(n.node("Cast", codes, name="cast", to=TensorProto.FLOAT))


def dq_only(n: Any, p: Pairs) -> str:
    codes = n.node("Cast", rows(n), name="cast", to=TensorProto.INT8)
    return str(
        n.node("DequantizeLinear", codes, n.weight("s", np.float32(1)), n.weight("z", INT8(0)), name="p")
    )


def one_input(n: Any, p: Pairs) -> str:
    return str(n.node("DequantizeLinear", n.weight("c", np.ones((4, 4), INT8)), "", name="p"))


def dynamic_scale(n: Any, p: Pairs) -> str:
    s = n.input("s", ["K"])
    q = n.node("QuantizeLinear", rows(n), s, name="p.q", output_dtype=TensorProto.INT8)
    return str(n.node("DequantizeLinear", q, s, name="p"))


def computed_scale(n: Any, p: Pairs) -> str:
    s, z = n.input("s", []), n.weight("z", INT8(0))
    return str(n.node("DequantizeLinear", n.node("QuantizeLinear", rows(n), s, z, name="q"), s, z, name="p"))


def computed_zero_point(n: Any, p: Pairs) -> str:
    s, z = n.weight("s", np.float32(1)), n.input("z", [], TensorProto.INT8)
    q = n.node("QuantizeLinear", rows(n), s, z, name="p.q")
    return str(n.node("DequantizeLinear", q, s, z, name="p"))


def two_types(n: Any, p: Pairs) -> str:
    s, z = n.weight("s", np.float32(1)), n.weight("z", INT8(0))
    q = n.node("QuantizeLinear", rows(n), s, z, name="p", output_dtype=TensorProto.INT16)
    return str(n.node("DequantizeLinear", q, s, z, name="dq"))


def half_scale(n: Any, p: Pairs) -> str:
    s, z = n.weight("s", np.float16(1)), n.weight("z", INT8(0))
    q = n.node("QuantizeLinear", rows(n), s, z, name="p")
    return str(n.node("DequantizeLinear", q, n.weight("s2", np.float32(1)), z, name="dq"))


def block(shape: tuple[int, ...], scales: tuple[int, ...], size: int) -> Write:
    def write(n: Any, p: Pairs) -> str:
        w = p.add_stored(np.ones(shape, INT8), "p", np.ones(scales), axis=0, block_size=size)
        return str(n.node("MatMul", rows(n, 4, shape[0]), w, name="mm"))

    return write


def bias(n: Any, p: Pairs) -> str:
    b = p.add_stored(np.ones(16, np.int32), "p", 1.0)
    w = p.add_stored(np.ones((16, 16, 1, 1), INT8), "w", np.ones(16), axis=0)
    return str(n.node("Conv", p.pair(image(n), "x.p"), w, b, name="conv"))


def no_type(n: Any, p: Pairs) -> str:
    s = n.weight("s", np.float32(1))
    return str(n.node("DequantizeLinear", n.node("QuantizeLinear", rows(n), s, name="p"), s, name="dq"))


def int4(n: Any, p: Pairs) -> str:
    w = p.add_stored(np.ones((16, 3), ml_dtypes.int4), "p", 1.0)
    return str(n.node("MatMul", rows(n), w, name="mm"))


def stored_pair(shape: tuple[int, ...], scale: Any, **attributes: Any) -> Write:
    return lambda n, p: p.add_stored(np.ones(shape, INT8), "p", scale, **attributes)


POSITIVE = "Scale coefficients must all be positive"
ZERO = "TensorRT only supports symmetric quantization. The zero point must be all zeros."
TYPES = "TensorRT only allows FP8, INT8, and INT4 quantization"

PARSER_CASES: dict[str, tuple[Write, str, str]] = {
    "scale of zero": (lambda n, p: p.pair(rows(n), "p", 0.0), "scale-positive", POSITIVE),
    "negative scale": (stored_pair((4, 4), [1.0, -1, 1, 1], axis=0), "scale-positive", POSITIVE),
    "zero point": (lambda n, p: p.pair(rows(n), "p", zero=np.array(3, INT8)), "zero-point-zero", ZERO),
    "volumes": (
        lambda n, p: p.pair(rows(n), "p", zero=np.zeros(2, INT8)), "zero-point-volume",
        "The scale and zero point must have the same volume",
    ),
    "no scale": (
        stored_pair((4, 4), np.zeros(0, np.float32)),
        "scale-count", "Cannot have scale with no coefficients.",
    ),
    "dynamic scale": (dynamic_scale, "scale-shape", "Dynamic shape for scale tensor is not supported"),
    "channels": (
        stored_pair((4, 6), np.ones(6), axis=0), "channel-count",
        "The number of scales is not equal to the number of output channels",
    ),
    "channels without an axis": (
        stored_pair((4, 6), np.ones(6)), "channel-count",
        "The number of scales is not equal to the number of output channels",
    ),
    "two blocked axes": (
        block((64, 32), (2, 2), 32), "block-dimensions", "Only a single blocking dimension is allowed",
    ),
    "ragged blocks": (block((48, 16), (5, 16), 10), "block-size", "Inferred block size is not an integer"),
    "rank": (stored_pair((2, 4, 4), np.ones((4, 4))), "scale-rank", "Invalid rank for the scale tensor"),
    "odd int4": (
        int4, "int4-even", "Quantization to INT4 is not supported for tensors with an odd last dimension",
    ),
    "int16": (lambda n, p: p.pair(rows(n), "p", zero=np.array(0, np.int16)), "code-type", TYPES),
    "int32 bias": (bias, "code-type", TYPES),
    "uint8": (
        lambda n, p: p.pair(rows(n), "p", zero=np.array(0, np.uint8)), "uint8",
        "Found unsupported input type of UINT8",
    ),
    "two types": (
        two_types, "output-dtype",
        "Mismatch between attribute output_dtype 5 and zero-point data type 3",
    ),
    "one input": (
        one_input, "inputs",
        "This version of TensorRT requires at least 2 inputs for the QuantizeLinear/DequantizeLinear "
        "operator.",
    ),
    "activation per channel": (
        lambda n, p: p.pair(image(n), "p", np.ones(16), axis=1), "per-channel-activation",
        "Per-channel quantization is supported only for weight inputs",
    ),
    "computed zero point": (
        computed_zero_point, "zero-point-constant", "The zero point must be a build-time constant",
    ),
    "half scale": (
        half_scale, "scale-type", "The scale's type must match the data's: float16 for float data",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(PARSER_CASES))
def test_the_parsers_message_is_given_as_an_error(case: str, net: Callable[..., Any]) -> None:
    write, rule, message = PARSER_CASES[case]
    hits = [f for f in findings_of(net, write) if f.rule == rule]
    assert {(f.severity, f.message) for f in hits} == {("error", message)}
    assert all(f.fix and f.node.startswith("p") for f in hits)


DIALECT_CASES: dict[str, tuple[Write, str, str]] = {
    "missing axis": (
        stored_pair((4, 4), np.ones(4)),
        "missing-axis", "The axis is missing: TensorRT takes 0, ONNX takes 1",
    ),
    "missing type": (
        no_type, "missing-type", "The zero point is missing: TensorRT takes INT8, ONNX takes UINT8",
    ),
    "computed scale": (computed_scale, "computed-scale", "The scale is computed from the network's inputs"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(DIALECT_CASES))
def test_another_reading_than_onnx_is_a_warning(case: str, net: Callable[..., Any]) -> None:
    write, rule, message = DIALECT_CASES[case]
    hits = [f for f in findings_of(net, write) if f.rule == rule]
    assert {(f.severity, f.message) for f in hits} == {("warning", message)}


def both_branches(n: Any, p: Pairs) -> str:
    x = p.pair(image(n), "x.p")
    return p.pair(n.node("Add", p.pair(p.conv(x, "conv"), "y.p"), x, name="add"), "out")


def bare_identity(n: Any, p: Pairs) -> str:
    x = image(n)
    y = n.node("Add", p.conv(p.pair(x, "x.p"), "conv"), x, name="add")
    return p.conv(p.pair(y, "y.p"), "next")


def before_relu(n: Any, p: Pairs) -> str:
    return p.pair(n.node("Relu", p.pair(p.conv(p.pair(image(n), "x.p"), "conv"), "y.p"), name="relu"), "out")


def concat(n: Any, p: Pairs) -> str:
    x = p.pair(image(n), "x.p")
    a, b = p.pair(p.conv(x, "a"), "a.p", 0.1), p.pair(p.conv(x, "b"), "b.p", 0.2)
    return str(n.node("Concat", a, b, name="cat", axis=1))


def fork(n: Any, p: Pairs) -> str:
    x = image(n)
    return str(n.node("Concat", p.conv(p.pair(x, "p1", 0.1), "a"), p.conv(p.pair(x, "p2", 0.2), "b"),
                      name="cat", axis=1))  # fmt: skip


def twice(n: Any, p: Pairs) -> str:
    return p.conv(p.pair(p.pair(image(n), "p1"), "p2"), "conv")


def pad(n: Any, p: Pairs) -> str:
    x = n.node("Pad", image(n), n.shape("pads", 0, 0, 1, 1, 0, 0, 1, 1), name="pad")
    return p.conv(p.pair(x, "p"), "conv")


def half_an_input(n: Any, p: Pairs) -> str:
    return p.conv(image(n), "conv")


def computed_weight(n: Any, p: Pairs) -> str:
    w = p.pair(n.input("w", [16, 16, 1, 1]), "w.p")
    return str(n.node("Conv", p.pair(image(n), "x.p"), w, name="conv"))


def wrong_axis(n: Any, p: Pairs) -> str:
    w = p.add_stored(np.ones((16, 16, 1, 1), INT8), "w", np.ones(16), axis=1)
    return str(n.node("Conv", p.pair(image(n), "x.p"), w, name="conv"))


def gemm_axis(n: Any, p: Pairs) -> str:
    w = p.add_stored(np.ones((16, 16), INT8), "w", np.ones(16), axis=1)
    return str(n.node("Gemm", p.pair(rows(n), "x.p"), w, name="gemm", transB=1))


def grouped_transpose(n: Any, p: Pairs) -> str:
    w = p.add_stored(np.ones((16, 4, 2, 2), INT8), "w", np.ones(4), axis=1)
    return str(n.node("ConvTranspose", p.pair(image(n), "x.p"), w, name="up", group=4))


def volume_transpose(n: Any, p: Pairs) -> str:
    w = p.add_stored(np.ones((4, 4, 2, 2, 2), INT8), "w", np.ones(4), axis=1)
    x = p.pair(n.input("x", [1, 4, 4, 4, 4]), "x.p")
    return str(n.node("ConvTranspose", x, w, name="up"))


def identity(n: Any, p: Pairs) -> str:
    x = n.node("Identity", p.pair(image(n), "x.p"), name="same")
    n._channels[x] = 16
    return p.conv(x, "conv")


def cast_in_front(n: Any, p: Pairs) -> str:
    x = n.node("Cast", n.input("x", [1, 16, 8, 8], TensorProto.FLOAT16), name="cast", to=TensorProto.FLOAT)
    n._channels[x] = 16
    return p.conv(p.pair(x, "x.p"), "conv")


def fp8(n: Any, p: Pairs) -> str:
    x = p.pair(image(n), "x.p")
    y = p.pair(p.conv(x, "conv"), "f", zero=np.zeros((), ml_dtypes.float8_e4m3fn))
    return str(n.node("Relu", y, name="relu"))


def qlinear(n: Any, p: Pairs) -> str:
    s, z = n.weight("s", np.float32(1)), n.weight("z", INT8(0))
    x = n.input("x", [4, 4], TensorProto.INT8)
    w = n.weight("w", np.ones((4, 4), INT8))
    y = n.node("QLinearMatMul", x, s, z, w, s, z, s, z, name="p")
    return str(n.node("DequantizeLinear", y, s, z, name="dq"))


def integer(n: Any, p: Pairs) -> str:
    x = n.input("x", [4, 4], TensorProto.INT8)
    y = n.node("MatMulInteger", x, n.weight("w", np.ones((4, 4), INT8)), name="p")
    return str(n.node("Cast", y, name="cast", to=TensorProto.FLOAT))


STRUCTURE_CASES: dict[str, tuple[Write, str, str, str, str]] = {
    "pairs on both branches": (
        both_branches, "warning", "add", "pairs-on-both-branches",
        "Q/DQ on both inputs of Add 'add' keep Conv 'conv' from taking it in",
    ),
    "no pair on the identity": (
        bare_identity, "warning", "add", "no-pair-on-identity",
        "the identity branch of Add 'add' has no Q/DQ: Conv 'conv' and it run in float",
    ),
    "pair before Relu": (
        before_relu, "warning", "conv", "pair-before-activation",
        "a pair stands between Conv 'conv' and its Relu, which keeps them from being one kernel",
    ),
    "concat": (
        concat, "warning", "cat", "different-scales-at-concat",
        "the inputs of Concat 'cat' have different scales: each is rescaled before it is copied",
    ),
    "fork": (
        fork, "warning", "b", "different-scales-of-one-tensor",
        "'x' is quantized with other scales for Conv 'a' than for Conv 'b'",
    ),
    "twice": (
        twice, "warning", "conv", "redundant-pairs",
        "two pairs stand one behind the other on input 0 of Conv 'conv'",
    ),
    "pad": (pad, "warning", "pad", "pair-behind-pad", "Pad 'pad' pads floats that are quantized behind it"),
    "one input": (
        half_an_input, "warning", "conv", "inputs",
        "input 0 ('x') does not come from a DequantizeLinear: the layer does not run in int8",
    ),
    "weight": (
        computed_weight, "error", "conv", "weight",
        "The weight must be an initializer in front of its pair, or stored codes",
    ),
    "axis of Conv": (
        wrong_axis, "error", "w", "weight-axis",
        "The quantization axis 1 is not the output channel of Conv 'conv'",
    ),
    "axis of Gemm": (
        gemm_axis, "error", "w", "weight-axis",
        "The quantization axis 1 is not the output channel of Gemm 'gemm'",
    ),
    "grouped ConvTranspose": (
        grouped_transpose, "error", "up", "grouped-conv-transpose",
        "Could not find any implementation for node up: ConvTranspose with groups and a scale for each "
        "channel",
    ),
    "3-D ConvTranspose": (
        volume_transpose, "warning", "up", "conv-transpose-3d",
        "Could not find any implementation for node up: int8 ConvTranspose over volumes",
    ),
    "Identity": (
        identity, "warning", "same", "between",
        "Identity stands between a pair and Conv 'conv': they are not fused",
    ),
    "Cast": (
        cast_in_front, "warning", "cast", "between",
        "Cast stands in front of QuantizeLinear 'x.p.q': they are not fused",
    ),
    "int8 and fp8": (
        fp8, "error", "f.q", "mixed-formats", "INT8 and FP8 quantization are mixed in one network",
    ),
    "Q alone": (
        q_only, "error", "p", "unpaired",
        "QuantizeLinear without a DequantizeLinear: its codes go to cast",
    ),
    "DQ alone": (
        dq_only, "error", "p", "unpaired",
        "DequantizeLinear without a QuantizeLinear or stored codes in front of it",
    ),
    "QOperator form": (
        qlinear, "error", "p", "operator", "QLinearMatMul is not an operator that TensorRT imports",
    ),
    "integer form": (
        integer, "error", "p", "operator", "MatMulInteger is not an operator that TensorRT imports",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(STRUCTURE_CASES))
def test_structure_around_pairs(case: str, net: Callable[..., Any]) -> None:
    write, severity, node, rule, message = STRUCTURE_CASES[case]
    hits = [f for f in findings_of(net, write) if f.rule == rule]
    assert [(f.severity, f.node, f.message) for f in hits] == [(severity, node, message)]
    assert all(f.fix for f in hits)


def test_an_opset_beyond_the_parsers_is_an_error(net: Callable[..., Any]) -> None:
    n = net(8)
    model = n.model(n.node("Relu", rows(n), name="relu"))
    assert [f.rule for f in check(model)] == ["opset"]


def test_errors_come_before_warnings(net: Callable[..., Any]) -> None:
    def write(n: Any, p: Pairs) -> str:
        return str(n.node("Relu", p.pair(twice(n, p), "z", 0.0), name="relu"))

    severities = [f.severity for f in findings_of(net, write)]
    assert severities == sorted(severities) and set(severities) == {"error", "warning"}


def test_a_well_placed_block_passes(net: Callable[..., Any]) -> None:
    def write(n: Any, p: Pairs) -> str:
        x = p.pair(image(n), "x.p")
        y = n.node("Relu", n.node("Add", p.conv(x, "conv"), x, name="add"), name="relu")
        n._channels[y] = 16
        return p.conv(p.pair(y, "y.p"), "next")

    assert findings_of(net, write) == []


def test_a_target_that_nobody_knows_is_refused(net: Callable[..., Any]) -> None:
    n = net()
    model = n.model(n.node("Relu", rows(n), name="relu"))
    with pytest.raises(QuantValueError, match=r"target: got 'abacus', want 'tensorrt'"):
        check(model, "abacus")

"""Refusals of Quantize and Dequantize layers, in TensorRT's words."""

from __future__ import annotations

import numpy as np
import pytest

import intact.trt as trt


def constant(network: trt.INetworkDefinition, values: object, dtype: type = np.float32) -> trt.ITensor:
    array = np.asarray(values, dtype)
    return network.add_constant(array.shape, array).get_output(0)


def weights(network: trt.INetworkDefinition, shape: tuple[int, ...]) -> trt.ITensor:
    return constant(network, np.ones(shape))


def test_a_scale_that_a_run_makes(network) -> None:
    x = network.add_input("x", trt.float32, (4,))
    network.add_quantize(x, network.add_unary(x, trt.UnaryOperation.ABS).get_output(0))
    network.mark_output(x)
    assert network.errors() == ["(Unnamed Layer* 1) [Quantize]: the scale must be a build-time constant"]


@pytest.mark.parametrize(
    ("shape", "scale", "settings", "message"),
    [
        ((4, 4), [0.0], {}, "Scale coefficients must all be positive"),
        ((4, 4), [-1.0], {}, "Scale coefficients must all be positive"),
        ((4, 4), [np.inf], {}, "Scale coefficients must all be positive"),
        ((4, 4), np.ones((0,)), {}, "Cannot have scale with no coefficients."),
        ((4, 4), np.ones(4), {}, "unexpected negative axis"),
        ((4, 4), np.ones(3), {"axis": 0},
         "The number of scales is not equal to the number of output channels: "
         "3 scales, and axis 0 has 4 channels"),
        ((4, 4), np.ones(4), {"axis": 2}, "axis 2 is out of range for a tensor of 2 dimensions"),
        ((4, 5), [1.0], {"to_type": trt.int4},
         "Quantization to INT4 is not supported for tensors with an odd last dimension"),
        ((4, 8), np.ones((2, 4)), {"to_type": trt.int4}, "Only a single blocking dimension is allowed"),
        ((4, 8), np.ones((3, 8)), {"to_type": trt.int4}, "Inferred block size is not an integer"),
        ((4, 8), np.ones((1, 2, 8)), {"to_type": trt.int4}, "Invalid rank for the scale tensor"),
        ((4, 4), [1.0], {"to_type": trt.int32}, "TensorRT only allows FP8, INT8, and INT4 quantization"),
    ],
    ids=[
        "zero", "negative", "infinite", "empty", "no-axis", "count", "axis", "odd-int4", "two-blocked",
        "fraction", "rank", "type",
    ],
)  # fmt: skip
def test_scales_and_shapes(network, shape, scale, settings, message: str) -> None:
    layer = network.add_quantize(weights(network, shape), constant(network, scale))
    for key, value in settings.items():
        setattr(layer, key, value)
    network.mark_output(layer.get_output(0))
    assert network.errors() == [f"(Unnamed Layer* 2) [Quantize]: {message}"]


def test_a_zero_point_of_another_shape(network) -> None:
    layer = network.add_quantize(weights(network, (4, 4)), constant(network, np.ones(4)))
    layer.axis = 0
    layer.set_input(2, constant(network, np.zeros(3), np.int8))
    network.mark_output(layer.get_output(0))
    assert network.errors() == [
        "(Unnamed Layer* 2) [Quantize]: The scale and zero point must have the same volume"
    ]


def test_a_tensor_that_is_too_large(network) -> None:
    x = network.add_input("x", trt.float32, (2**16, 2**16))
    layer = network.add_quantize(x, constant(network, [1.0]))
    network.mark_output(layer.get_output(0))
    assert network.errors() == ["(Unnamed Layer* 1) [Quantize]: volume of the input exceeds 2147483647"]


def test_dialects_are_three() -> None:
    with pytest.raises(ValueError, match=r"want '8\.x', '10\.x' or '11\.x'"):
        trt.set_dialect("9.x")

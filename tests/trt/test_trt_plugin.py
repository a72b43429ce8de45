"""Custom layers: in codes between pairs, in floats anywhere, from the network and from files."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import intact.trt as trt
from intact.engine.reference import evaluate


@trt.plugin("test.intact::Negate", int8=True)
def negate(x: trt.Quantized, *, outputs: tuple[trt.Grid, ...], gain: float = 1.0) -> np.ndarray:
    grid = outputs[0]
    steps = (x.codes.astype(np.int64) - x.zero_point) * (float(x.scale) / float(grid.scale)) * gain
    return (grid.zero_point - steps.round()).clip(grid.low, grid.high).astype(grid.dtype)


@trt.plugin("test.intact::Halves", shapes=lambda x: [x, x], outputs=2)
def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x / 2, x - x / 2


def pair(network: trt.INetworkDefinition, x: trt.ITensor, scale: float) -> trt.ITensor:
    scale_tensor = network.add_constant((), np.float32([scale])).get_output(0)
    return network.add_dequantize(
        network.add_quantize(x, scale_tensor).get_output(0), scale_tensor
    ).get_output(0)


def conv(network: trt.INetworkDefinition, x: trt.ITensor, out: int) -> trt.ITensor:
    """A 3x3 convolution with quantized weights."""
    kernel = np.random.default_rng(out).standard_normal((out, x.shape[1], 3, 3)).astype(np.float32)
    scale = network.add_constant((out,), np.abs(kernel).max((1, 2, 3)) / 127).get_output(0)
    quantize = network.add_quantize(network.add_constant(kernel.shape, kernel).get_output(0), scale)
    dequantize = network.add_dequantize(quantize.get_output(0), scale)
    quantize.axis = dequantize.axis = 0
    layer = network.add_convolution_nd(x, out, (3, 3))
    layer.set_input(1, dequantize.get_output(0))
    layer.padding_nd = (1, 1)
    return layer.get_output(0)


@pytest.fixture
def residual(network) -> trt.INetworkDefinition:
    """A residual block with an operator of ours in the middle of it."""
    x = pair(
        network, conv(network, pair(network, network.add_input("x", trt.float32, (2, 4, 8, 8)), 0.02), 8), 0.2
    )
    own = network.add_plugin([x], "test.intact::Negate", gain=0.5).get_output(0)
    branch = conv(network, pair(network, own, 0.1), 8)
    total = network.add_elementwise(branch, x, trt.ElementWiseOperation.SUM)
    total.get_output(0).name = "y"
    network.mark_output(total.get_output(0))
    return network


def test_an_operator_in_codes_is_part_of_one_int8_stretch(residual, log) -> None:
    serialized = trt.Builder(log).build_serialized_network(residual, trt.Builder(log).create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(serialized).engine
    kinds = [step.kind for step in engine.plan.steps]
    assert kinds[kinds.index("conv") :] == ["conv", "call", "conv"]
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 4, 8, 8)).astype(np.float32)}
    wanted, got = evaluate(engine.plan, feeds), engine.tap(feeds)
    assert wanted.keys() == got.keys()
    assert all((wanted[name] == got[name]).all() for name in wanted)
    assert wanted["y"].std() > 1


def test_an_operator_in_reals_of_a_files_own_domain(log) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17, "test.intact" : 1]>
        g (float[2, 3] x) => (float[2, 3] y) {
          a, b = test.intact.Halves(x)
          y = Add(a, b)
        }"""
    )
    network = trt.Builder(log).create_network()
    assert trt.OnnxParser(network, log).parse(proto.SerializeToString()), log.messages
    assert network.get_layer(0).type == trt.LayerType.PLUGIN_V2
    builder = trt.Builder(log)
    engine = trt.Runtime(log).deserialize_cuda_engine(
        builder.build_serialized_network(network, builder.create_builder_config())
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (engine.engine.run({"x": x})["y"] == x).all()


def test_codes_outside_the_grid_are_refused_by_name(network, log) -> None:
    trt.plugin("test.intact::Wrong", int8=True)(lambda x, *, outputs: np.full(x.codes.shape, 1000))
    x = pair(network, network.add_input("x", trt.float32, (1, 4)), 0.1)
    y = pair(network, network.add_plugin([x], "test.intact::Wrong").get_output(0), 0.1)
    network.mark_output(y)
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    with pytest.raises(
        ValueError, match=r"operator 'test.intact::Wrong': got int64, want integers from -128 to 127"
    ):
        engine.engine.run({"x": np.zeros((1, 4), np.float32)})


def test_names_without_a_domain_and_unknown_ones_are_refused(network) -> None:
    with pytest.raises(ValueError, match="want 'domain::Name'"):
        trt.plugin("Name")(lambda x: x)
    x = network.add_input("x", trt.float32, (1, 4))
    with pytest.raises(ValueError, match="register it with @plugin first"):
        network.add_plugin([x], "test.intact::Unknown")

"""Weights of ONNX files in blocks: what is written, what is left, and how little is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from tests.onnx_models import onnx_graph, onnx_model

import intact
from intact import graph
from intact.errors import CalibrationError, QuantValueError
from intact.graph import Constants, Session, find_block_weights, read_block_weight
from intact.numerics import dequantize_blocks, nbits_product
from intact.ptq.blocks import quantize_weights

SIZE, INNER = 64, 96


def weight(n: int, k: int, seed: int) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal((n, k)) / np.sqrt(k)).astype(np.float32)


def network() -> onnx.ModelProto:
    """Return two branches that read one tensor, a Gemm with everything, a tied matrix and a product."""
    nodes = [
        helper.make_node("MatMul", ["x", "q"], ["a"], "q_proj"),
        helper.make_node("Transpose", ["k"], ["k_t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "k_t"], ["b"], "k_proj"),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "up", "bias"], ["e"], "up_proj", alpha=0.5, beta=2.0, transB=1),
        helper.make_node("Tanh", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "down"], ["g"], "down_proj"),
        helper.make_node("Transpose", ["g"], ["g_t"], perm=[1, 0]),
        helper.make_node("MatMul", ["g", "g_t"], ["h"], "scores"),
        helper.make_node("MatMul", ["h", "tied"], ["i"], "tied_proj"),
        helper.make_node("Add", ["i", "tied"], ["y"]),
    ]
    constants = {
        "q": weight(SIZE, SIZE, 0).T, "k": weight(SIZE, SIZE, 1), "up": weight(INNER, SIZE, 2),
        "bias": weight(1, INNER, 3)[0], "down": weight(SIZE, INNER, 4).T, "tied": weight(8, 8, 5),
    }  # fmt: skip
    return onnx_model(nodes, {"x": [8, SIZE]}, {"y": [8, 8]}, constants)


def batches(count: int = 24, seed: int = 7) -> list[dict[str, NDArray]]:
    """Return inputs whose channels go together, some much larger than others."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(3).standard_normal((SIZE, SIZE)) * np.exp(-np.arange(SIZE) / 8)[:, None]
    mix[:, 5] *= 10
    return [{"x": (rng.standard_normal((8, SIZE)) @ mix).astype(np.float32)} for _ in range(count)]


def run(model: bytes, data: list[dict[str, NDArray]], name: str = "g") -> NDArray:
    session = Session(model, extra=[name])
    return np.concatenate([session.run(feeds)[name] for feeds in data])


def relative_error(model: Any, reference: NDArray, data: list[dict[str, NDArray]]) -> float:
    return float(((run(graph.to_bytes(model), data) - reference) ** 2).sum() / (reference**2).sum())


def errors(**options: Any) -> float:
    """Return the error of a tensor behind all layers, on data that codes were not chosen by."""
    samples = batches(8, seed=11)
    reference = run(network().SerializeToString(), samples)
    result = quantize_weights(network(), batches(), progress=False, **options)
    return relative_error(result.model, reference, samples)


@pytest.mark.parametrize("operator", ["DequantizeLinear", "MatMulNBits"])
@pytest.mark.parametrize("weights", ["int4", "uint4", "uint8"])
def test_the_file_holds_codes_that_mean_the_weights(operator: str, weights: str) -> None:
    result = quantize_weights(network(), weights=weights, block=32, operator=operator, progress=False)
    assert [layer.name for layer in result.layers] == ["q_proj", "k_proj", "up_proj", "down_proj"]
    assert result.in_float == {
        "scores": "it multiplies two activations",
        "tied_proj": "other nodes read its weight, too",
    }
    constants = Constants(result.model.graph)
    tensors = [
        read_block_weight(node, constants) for _, node in find_block_weights(result.model.graph, constants)
    ]
    expected = [weight(SIZE, SIZE, 0), weight(SIZE, SIZE, 1), weight(INNER, SIZE, 2), weight(SIZE, INNER, 4)]
    for stored, floats, layer in zip(tensors, expected, result.layers, strict=True):
        values = dequantize_blocks(stored) / (
            0.5 if layer.name == "up_proj" and operator == "MatMulNBits" else 1
        )
        assert stored.block_size == 32 and values.shape == floats.shape
        error = ((values - floats) ** 2).sum() / (floats**2).sum()
        assert error < (1e-4 if weights == "uint8" else 9e-3)
    onnx.checker.check_model(result.proto)


@pytest.mark.parametrize("operator", ["DequantizeLinear", "MatMulNBits"])
def test_both_operators_compute_the_same_floats(operator: str) -> None:
    samples = batches(4, seed=11)
    files = [
        graph.to_bytes(quantize_weights(network(), operator=o, progress=False).model)
        for o in ("DequantizeLinear", operator)
    ]
    first, second = (run(data, samples) for data in files)
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-5 * np.abs(first).max())


def test_data_choose_better_codes_than_none() -> None:
    samples = batches(8, seed=11)
    nearest = quantize_weights(network(), progress=False).model
    reference = run(network().SerializeToString(), samples)
    plain = relative_error(nearest, reference, samples)
    assert errors(method="rtn") == pytest.approx(plain)
    assert errors(method="awq") < 0.9 * plain
    assert errors(method="smoothquant") < plain
    assert errors(method="autoround") < 0.6 * plain
    assert errors(method="gptq") < 0.5 * plain
    assert errors() < 0.5 * plain


def test_dynamic_activations_are_said_by_the_accuracy_level() -> None:
    result = quantize_weights(network(), batches(), activations="dynamic-int8", progress=False)
    nodes = [node for node in result.proto.graph.node if node.op_type == "MatMulNBits"]
    levels = {a.i for node in nodes for a in node.attribute if a.name == "accuracy_level"}
    assert len(nodes) == 4 and levels == {4}
    (feeds,) = batches(1, seed=11)
    session = Session(graph.to_bytes(result.model), extra=["d.scaled", "e"])
    values = session.run(feeds)
    constants = Constants(result.model.graph)
    stored = dict(find_block_weights(result.model.graph, constants))["up.codes"]
    bias = 2 * weight(1, INNER, 3)[0]
    expected = nbits_product(values["d.scaled"], read_block_weight(stored, constants), 4, bias)
    np.testing.assert_allclose(values["e"], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("op_type", ["LayerNormalization", "Mul", "Relu"])
def test_channel_scales_go_into_parameters_in_front(op_type: str) -> None:
    """And stay a Mul behind operators without any; the function is the same."""
    parameters = {"LayerNormalization": ["x", "scale", "shift"], "Mul": ["scale", "x"], "Relu": ["x"]}
    nodes = [
        helper.make_node(op_type, parameters[op_type], ["a"], "front"),
        helper.make_node("MatMul", ["a", "w"], ["g"], "layer"),
    ]
    constants = {
        "scale": np.exp(weight(1, SIZE, 1)[0] * 20), "shift": weight(1, SIZE, 2)[0],
        "w": weight(SIZE, 48, 0),
    }  # fmt: skip
    model = onnx_model(nodes, {"x": [8, SIZE]}, {"g": [8, 48]}, constants)
    result = quantize_weights(model, batches(), method="awq", weights="uint8", progress=False)
    kinds = [node.op_type for node in result.model.graph if node.op_type != "DequantizeLinear"]
    assert result.muls and kinds == ([op_type, "Mul", "MatMul"] if op_type == "Relu" else [op_type, "MatMul"])
    samples = batches(4, seed=11)
    reference = run(model.SerializeToString(), samples)
    assert relative_error(result.model, reference, samples) < 1e-3


def test_the_same_file_for_the_same_work() -> None:
    first, second = (
        graph.to_bytes(quantize_weights(network(), batches(4), progress=False).model) for _ in range(2)
    )
    assert first == second


def test_external_data_stay_outside(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    graph.save(graph.load(network()), path, external=True)
    from_file = quantize_weights(path, batches(4), progress=False)
    assert graph.to_bytes(from_file.model) == graph.to_bytes(
        quantize_weights(network(), batches(4), progress=False).model
    )


def test_names_choose_layers() -> None:
    result = quantize_weights(network(), include=["MatMul"], exclude=["q_*"], progress=False)
    assert [layer.name for layer in result.layers] == ["k_proj", "down_proj"]
    with pytest.raises(QuantValueError, match="exclude"):
        quantize_weights(network(), exclude=["nothing"], progress=False)


def test_the_front_door_takes_block_weights() -> None:
    result = intact.quantize(network(), weights="int4", block=16, progress=False)
    assert "int4 in blocks of 16" in str(result) and len(result.layers) == 4
    dynamic = intact.quantize(
        network(), batches(2), activations="dynamic-int8", weights="int4", progress=False
    )
    assert {node.op_type for node in dynamic.model.graph} >= {"MatMulNBits"}


def test_the_engine_takes_the_result() -> None:
    result = intact.quantize(network(), weights="int4", block=32, progress=False)
    (feeds,) = batches(1, seed=11)
    (expected,) = intact.run_reference(result, feeds).values()
    (values,) = intact.compile(result, threads=1).run(feeds).values()
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "nf4"}, "intN or uintN"),
        ({"block": 0}, "positive integer"),
        ({"activations": "int8"}, "dynamic-int8"),
        ({"method": "max"}, "auto, rtn, hqq, .*gptq"),
        ({"operator": "MatMul"}, "DequantizeLinear, MatMulNBits"),
        ({"activations": "dynamic-int8", "operator": "DequantizeLinear"}, "MatMulNBits"),
        ({"activations": "dynamic-int8", "block": 24}, "16, 32, 64"),
        ({"activations": "dynamic-int8", "weights": "int5"}, "2, 4 or 8 bits"),
        ({"method": "gptq"}, "rtn"),
        ({"blocks": 32}, "block"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(QuantValueError, match=words):
        quantize_weights(network(), None, progress=False, **options)


def test_infinite_inputs_name_the_tensor() -> None:
    data = batches(2)
    data[1]["x"][0, 0] = np.inf
    with pytest.raises(CalibrationError, match="'x'"):
        quantize_weights(network(), data, progress=False)


def test_infinite_weights_name_the_layer() -> None:
    model = network()
    (stored,) = [tensor for tensor in model.graph.initializer if tensor.name == "up"]
    stored.CopyFrom(onnx.numpy_helper.from_array(np.full((INNER, SIZE), np.nan, np.float32), "up"))
    with pytest.raises(QuantValueError, match="'up_proj', weight 'up'"):
        quantize_weights(model, progress=False)


@pytest.mark.parametrize("block", [17, 96, 2**30])
def test_blocks_need_not_fit_the_sum(block: int) -> None:
    samples = batches(4, seed=11)
    reference = run(network().SerializeToString(), samples)
    result = quantize_weights(network(), batches(8), weights="int8", block=block, progress=False)
    assert relative_error(result.model, reference, samples) < 1e-3


def test_models_without_linear_layers_are_refused() -> None:
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 2]}, {"y": [2, 2]})
    with pytest.raises(QuantValueError, match="MatMul or Gemm"):
        quantize_weights(model, progress=False)


def test_float16_weights_keep_their_dtype() -> None:
    matrix = weight(SIZE, 48, 0).astype(np.float16)
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "w"], ["y"], "layer"),
        helper.make_node("Cast", ["y"], ["g"], to=onnx.TensorProto.FLOAT),
    ]
    model = onnx_model(nodes, {"x": [8, SIZE]}, {"g": [8, 48]}, {"w": matrix})
    samples = batches(4, seed=11)
    reference = run(model.SerializeToString(), samples)
    for operator in ("DequantizeLinear", "MatMulNBits"):
        result = quantize_weights(model, batches(4), weights="uint8", operator=operator, progress=False)
        scales = result.model.graph.initializers["w.scales"]
        assert scales.dtype is not None and scales.dtype.name == "FLOAT16"
        assert relative_error(result.model, reference, samples) < 1e-3


def test_layers_behind_an_if_get_its_values() -> None:
    branch = onnx_graph([helper.make_node("Identity", ["x"], ["t"])], (), {"t": [8, SIZE]})
    other = onnx_graph([helper.make_node("Neg", ["x"], ["e"])], (), {"e": [8, SIZE]})
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["a"], "choice", then_branch=branch, else_branch=other),
        helper.make_node("MatMul", ["a", "w"], ["b"], "first"),
        helper.make_node("Add", ["b", "x"], ["c"]),
        helper.make_node("MatMul", ["c", "v"], ["g"], "second"),
    ]
    constants = {"zero": np.float32(0), "w": weight(SIZE, SIZE, 0), "v": weight(SIZE, 24, 1)}
    model = onnx_model(nodes, {"x": [8, SIZE]}, {"g": [8, 24]}, constants)
    result = quantize_weights(model, batches(8), weights="uint8", progress=False)
    samples = batches(4, seed=11)
    assert len(result.layers) == 2
    assert relative_error(result.model, run(model.SerializeToString(), samples), samples) < 1e-3

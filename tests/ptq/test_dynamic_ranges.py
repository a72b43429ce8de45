"""Linear layers get dynamic ranges where static ones lose more, and only as many as it takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.graph import Session
from intact.ptq.blocks import copy_nbits, round_to_nearest, write_nbits
from intact.ptq.mixed import dynamic_ranges
from intact.ptq.stages import dynamic_layers

RNG = np.random.default_rng(0)


def net(*, act: str = "Relu", gemm: bool = False) -> onnx.ModelProto:
    """Four linear layers; rows that differ in size by factors of a hundred pass through all of them."""
    arrays, nodes, x = dict[str, Any](), [], "x"
    for index in range(4):
        weight = (RNG.standard_normal((64, 64)) / 8).astype(np.float32)
        arrays[f"w{index}"], y = weight, f"y{index}"
        nodes.append(
            helper.make_node("Gemm" if gemm else "MatMul", [x, f"w{index}"], [y], name=f"linear{index}")
        )
        if act and index < 3:
            nodes.append(helper.make_node(act, [y], [f"{y}.act"], name=f"act{index}"))
            y = f"{y}.act"
        x = y
    return onnx_model(nodes, {"x": ["n", 64]}, {x: ["n", 64]}, arrays)


def rows(count: int, spread: float) -> np.ndarray:
    sizes = np.exp(spread * RNG.standard_normal((count, 1)))
    return (RNG.standard_normal((count, 64)) * sizes).astype(np.float32)


def noise(model: onnx.ModelProto, quantized: Any, x: np.ndarray) -> float:
    """Signal to noise of the engine in each row, in dB, on average."""
    (want,) = Session(model.SerializeToString()).run({"x": x}).values()
    got = intact.compile(quantized, threads=1)(x)
    return float(np.mean(10 * np.log10((want**2).sum(-1) / ((got - want) ** 2).sum(-1))))


def test_layers_with_rows_of_different_sizes_get_dynamic_ranges():
    model, data, unseen = net(), rows(64, 2.0), rows(32, 2.0)
    static = intact.quantize(model, data, dynamic_ranges=False, progress=False)
    chosen = intact.quantize(model, data, progress=False)
    assert chosen.dynamic and not static.dynamic
    assert chosen.least_sqnr > static.least_sqnr + 0.5
    assert noise(model, chosen, unseen) > noise(model, static, unseen) + 3
    assert "layers with dynamic ranges" in repr(chosen)


def test_rows_of_one_size_keep_the_static_file():
    model, data = net(), np.sign(rows(64, 0.0))
    unseen = np.sign(np.random.default_rng(1).standard_normal((32, 64))).astype(np.float32)
    static = intact.quantize(model, data, dynamic_ranges=False, progress=False)
    chosen = intact.quantize(model, data, progress=False)
    if not chosen.dynamic:
        assert chosen.proto == static.proto
    assert noise(model, chosen, unseen) >= noise(model, static, unseen) - 0.5


@pytest.mark.parametrize("gemm", [False, True])
def test_every_layer_on_request(gemm):
    quantized = intact.quantize(net(gemm=gemm), rows(16, 0.0), dynamic_ranges=True, progress=False)
    counts = Counter(node.op_type for node in quantized.proto.graph.node)
    assert counts["MatMulNBits"] == 4 and counts["QuantizeLinear"] == 0
    assert sorted(quantized.dynamic) == [f"linear{index}" for index in range(4)]
    reasons = {row["reason"] for row in quantized.explain() if row["precision"] == "int8"}
    assert reasons == {"dynamic ranges: they were asked for"}


def test_engine_equals_the_reference_and_onnxruntime_runs_the_file(tmp_path):
    quantized = intact.quantize(net(), rows(16, 1.0), dynamic_ranges=True, progress=False)
    quantized.save(tmp_path / "model.onnx")
    x = rows(9, 1.0)
    engine = intact.compile(tmp_path / "model.onnx", threads=2)
    (expected,) = intact.run_reference(engine.plan, {"x": x}).values()
    np.testing.assert_array_equal(engine(x), expected)
    (other,) = Session((tmp_path / "model.onnx").read_bytes()).run({"x": x}).values()
    np.testing.assert_allclose(engine(x), other, rtol=0, atol=1e-4 * np.abs(other).max())


def test_a_layer_whose_input_another_node_reads_in_codes_stays_static():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="linear"),
        helper.make_node("Transpose", ["a"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("MatMul", ["t", "b"], ["y"], name="product"),
    ]
    model = onnx_model(nodes, {"x": [32, 64]}, {"y": [64, 64]}, {"w": np.eye(64, dtype=np.float32)})
    data = [{"x": RNG.standard_normal((32, 64)).astype(np.float32)} for _ in range(4)]
    quantized = intact.quantize(model, data, dynamic_ranges=True, progress=False)
    assert list(quantized.dynamic) == ["linear"]
    pairs = [node for node in quantized.proto.graph.node if node.op_type == "QuantizeLinear"]
    assert pairs, "the product of two activations keeps its pairs"


def test_profiles_of_other_engines_and_formats_by_hand_stay_static():
    data = rows(32, 2.0)
    assert not intact.quantize(net(), data, profile="tensorrt", progress=False).dynamic
    assert not intact.quantize(net(), data, activations="int8", progress=False).dynamic
    by_hand = intact.quantize(net(), data, overrides={"linear0": {"range": [-9, 9]}}, progress=False)
    assert "linear0" not in by_hand.dynamic


def test_a_word_that_is_no_switch_is_refused():
    with pytest.raises(intact.QuantValueError, match="dynamic_ranges"):
        intact.quantize(net(), rows(4, 0.0), dynamic_ranges="sometimes", progress=False)


def test_layers_are_rounded_once_though_the_last_stages_run_again(monkeypatch):
    model, data = net(act="Tanh"), rows(64, 2.0)
    monkeypatch.setattr(dynamic_ranges, "_CHEAP", -1.0)  # so that fewer layers are searched
    rounded, copied = list[int](), list[str]()

    def round_and_count(weight, grid):
        rounded.append(id(weight))
        return round_to_nearest(weight, grid)

    def copy_and_count(model, layer, written):
        copied.append(layer.name)
        copy_nbits(model, layer, written)

    monkeypatch.setattr(dynamic_layers, "round_to_nearest", round_and_count)
    monkeypatch.setattr(dynamic_layers, "copy_nbits", copy_and_count)
    once = intact.quantize(model, data, progress=False)
    assert len(rounded) == 4
    assert set(once.dynamic) <= set(copied)  # the trial without pairs copies all
    assert set(once.dynamic) < {f"linear{index}" for index in range(4)}

    def round_again(model, layer, written):
        write_nbits(model, layer, round_to_nearest(layer.rows(), dynamic_layers.GRID), accuracy_level=4)

    monkeypatch.setattr(dynamic_layers, "copy_nbits", round_again)
    again = intact.quantize(model, data, progress=False)
    assert graph.to_proto(once.model) == graph.to_proto(again.model)


def test_products_of_activations_lose_no_more_than_linear_layers():
    """With dynamic ranges and no pairs outputs have far more decibels: pairs that lose most of them go."""
    weights = {name: (RNG.standard_normal((64, 64)) / 8).astype(np.float32) for name in ("w0", "w1")}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["queries"], name="q"),
        helper.make_node("MatMul", ["x", "w1"], ["keys"], name="k"),
        helper.make_node("Transpose", ["keys"], ["turned"], name="turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["queries", "turned"], ["scores"], name="product"),
    ]
    model = onnx_model(nodes, {"x": ["n", 8, 64]}, {"scores": ["n", 8, 8]}, weights)
    data, unseen = ([{"x": rows(8, 1.0)[None]} for _ in range(count)] for count in (24, 8))
    chosen = intact.quantize(model, data, progress=False)
    without = intact.quantize(model, data, float_budget=0, progress=False)
    assert set(chosen.in_float) | set(chosen.bits16)
    assert "that every output has to have" in next(iter([*chosen.in_float.values(), *chosen.bits16.values()]))
    x = np.concatenate([feeds["x"] for feeds in unseen])
    assert noise(model, chosen, x) > noise(model, without, x) + 3

"""Smoothing in front of matrix products: the same bits in float, on only where it helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from intact import graph
from intact.calib import METHODS
from intact.ptq import quantize
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.settings import Settings
from intact.ptq.stages import smoothing
from intact.ptq.stages.collect_statistics import with_statistics
from intact.ptq.stages.prepare_model import prepare_state
from intact.ptq.stages.smoothing import smooth_products

WIDTH = 64
SHAPES = {"x": ["N", "T", WIDTH]}, {"y": ["N", "T", WIDTH]}


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parameters(loudest: float) -> dict[str, np.ndarray]:
    """Of a LayerNormalization whose channel 5 is `loudest` times as large as the others, and of products."""
    gain = np.ones(WIDTH, np.float32)
    gain[5] = loudest
    wide, narrow = normal(0, WIDTH, 4 * WIDTH) / 8, normal(1, 4 * WIDTH, WIDTH) / 16
    return {"g": gain, "b": 0.1 * normal(2, WIDTH), "w": wide, "c": 0.1 * normal(3, 4 * WIDTH), "v": narrow}


def block(build: Any, *, loudest: float = 30.0, residual: bool = False, **changed: np.ndarray) -> Any:
    """LayerNormalization, MatMul, Add, Tanh, MatMul; `residual`: the normalized input is added at the end."""
    nodes = [
        ("LayerNormalization", "x g b", "n"), ("MatMul", "n w", "m"), ("Add", "m c", "a"),
        ("Tanh", "a", "t"), ("MatMul", "t v", "f" if residual else "y"),
    ]  # fmt: skip
    nodes += [("Add", "f n", "y")] if residual else []
    return build(nodes, *SHAPES, **(parameters(loudest) | changed))


@pytest.fixture
def tokens() -> np.ndarray:
    """16 sequences of 12 tokens."""
    return normal(7, 16, 12, WIDTH)


def collect_state(model: onnx.ModelProto, data: np.ndarray) -> State:
    state = with_statistics(prepare_state(model, data, Settings(progress=False)))
    assert state is not None
    return state


def operators(result: Any) -> list[str]:
    return [node.op_type for node in result.proto.graph.node]


def initializers(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}


@pytest.mark.parametrize("residual", [False, True], ids=["parameters", "mul"])
def test_the_float_model_computes_the_same_bits(build: Any, tokens: np.ndarray, residual: bool) -> None:
    state = collect_state(block(build, residual=residual), tokens)
    got = smooth_products(state)
    assert got is not None
    before, after = (graph.Session(item.model).run({"x": tokens})["y"] for item in (state, got))
    assert np.array_equal(before, after)
    assert float(got.calibration["n.smoothed"].amax) < float(got.calibration["n"].amax) / 3
    assert "n.smoothed" in got.tensors_to_calibrate and "n" not in got.tensors_to_calibrate


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
def test_a_loud_channel_no_longer_takes_the_codes_of_the_others(
    build: Any, tokens: np.ndarray, symmetric: bool
) -> None:
    model = block(build)
    smooth, plain = (
        quantize(model, tokens, progress=False, symmetric=symmetric, equalization=on, float_budget=0)
        for on in ("auto", False)
    )
    assert smooth.smoothed == ["n"] and plain.smoothed == []
    assert smooth.sqnr["y"] > plain.sqnr["y"] + 6


def test_factors_go_into_a_normalization_that_nothing_else_reads(build: Any, tokens: np.ndarray) -> None:
    result = quantize(block(build), tokens, progress=False)
    gain = next(a for n, a in initializers(result.proto).items() if n == "n.smoothing")
    assert "Mul" not in operators(result)
    assert gain[5] < 30 and np.array_equal(np.delete(gain, 5), np.ones(WIDTH - 1))
    assert np.log2(30 / gain[5]) == int(np.log2(30 / gain[5]))


def test_factors_become_a_mul_where_others_read_the_tensor(build: Any, tokens: np.ndarray) -> None:
    result = quantize(block(build, residual=True), tokens, progress=False)
    assert result.smoothed == ["n"]
    assert operators(result).count("Mul") == 1
    (row,) = [row for row in result.explain() if row["op_type"] == "Mul"]
    assert row["precision"] == "float" and "smoothing" in row["reason"]
    assert np.array_equal(initializers(result.proto)["g"], parameters(30.0)["g"])


def test_even_channels_stay(build: Any, tokens: np.ndarray) -> None:
    for on in ("auto", True):
        assert quantize(block(build, loudest=1.0), tokens, progress=False, equalization=on).smoothed == []


def test_a_weight_that_others_read_stays(build: Any, tokens: np.ndarray) -> None:
    model = build(
        [("LayerNormalization", "x g b", "n"), ("MatMul", "n w", "m"), ("MatMul", "x w", "k"),
         ("Add", "m k", "y")],
        SHAPES[0], {"y": ["N", "T", 4 * WIDTH]},
        **{name: array for name, array in parameters(30.0).items() if name in "gbw"},
    )  # fmt: skip
    state = collect_state(model, tokens)
    assert smooth_products(state) is None


def test_a_reader_that_is_no_product_with_a_constant_keeps_the_tensor(build: Any, tokens: np.ndarray) -> None:
    model = build(
        [("LayerNormalization", "x g b", "n"), ("MatMul", "n w", "m"),
         ("Transpose", "n", "t", {"perm": [0, 2, 1]}), ("MatMul", "n t", "s"), ("MatMul", "s m", "y")],
        SHAPES[0], {"y": ["N", "T", 4 * WIDTH]},
        **{name: array for name, array in parameters(30.0).items() if name in "gbw"},
    )  # fmt: skip
    state = collect_state(model, tokens)
    assert "n" in state.tensors_to_calibrate
    assert smooth_products(state) is None


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_scales_the_right_side(build: Any, transposed: int) -> None:
    w = normal(4, WIDTH, 32) / 8
    model = build(
        [("LayerNormalization", "x g b", "n"), ("Gemm", "n w", "y", {"transB": transposed})],
        {"x": ["N", WIDTH]}, {"y": ["N", 32]}, g=parameters(30.0)["g"], b=parameters(30.0)["b"],
        w=np.ascontiguousarray(w.T) if transposed else w,
    )  # fmt: skip
    x = normal(8, 64, WIDTH)
    state = collect_state(model, x)
    got = smooth_products(state)
    assert got is not None
    before, after = (graph.Session(item.model).run({"x": x})["y"] for item in (state, got))
    assert np.array_equal(before, after)


def test_what_the_held_runs_did_not_reach_still_fits(build: Any) -> None:
    """A channel that is large in one sample of many, and as small as the others in those that are held."""
    gain = parameters(30.0)["g"]
    gain[9] = 12
    model = build(
        [("Tanh", "x", "t"), ("Mul", "t g", "n"), ("MatMul", "n w", "y")],
        {"x": ["N", 2, WIDTH]}, {"y": ["N", 2, 4 * WIDTH]}, g=gain, w=parameters(30.0)["w"],
    )  # fmt: skip
    data = normal(7, 400, 2, WIDTH)
    data[:, :, 9] = 0.01
    sample_bytes = b"".join(run.feeds["x"].tobytes() for run in collect_state(model, data).runs)
    rare = next(sample for sample in data if sample.tobytes() not in sample_bytes)
    rare[:, 9] = 3
    got = smooth_products(collect_state(model, data))
    assert got is not None and got.smoothed == ("n",)
    result = graph.Session(got.model, extra=["n.smoothed"]).run({"x": data})["n.smoothed"]
    assert float(got.calibration["n.smoothed"].amax) == float(np.abs(result).max())


def test_the_file_does_not_depend_on_batches_or_their_order(
    build: Any, tokens: np.ndarray, tmp_path: Path
) -> None:
    model, files = block(build, residual=True), []
    shuffled = tokens[np.random.default_rng(5).permutation(len(tokens))]
    for data in (tokens, [shuffled[:3], shuffled[3:]]):
        quantize(model, data, progress=False).save(tmp_path / "out.onnx")
        files.append((tmp_path / "out.onnx").read_bytes())
    assert files[0] == files[1]


def test_the_statistics_serve_the_model_as_it_was(build: Any, tokens: np.ndarray) -> None:
    model = block(build)
    result = quantize(model, tokens, dynamic_ranges=False, progress=False)
    again = quantize(model, result.calibration, method="max")
    assert result.smoothed == ["n"] and again.smoothed == []
    assert again.ranges["n"][1] > 2 * result.ranges["n.smoothed"][1]


def test_overrides_of_a_tensor_stay_with_it(build: Any, tokens: np.ndarray) -> None:
    result = quantize(block(build), tokens, progress=False, overrides={"n": {"method": "max"}})
    assert result.smoothed == ["n"] and result.methods["n.smoothed"] == "max"


def test_ranges_are_compared_with_corrected_biases(build: Any, tokens: np.ndarray) -> None:
    result = quantize(block(build), tokens, dynamic_ranges=False, progress=False, bias_correction=True)
    assert set(result.errors) == {"least expected error", *METHODS, "without corrected biases"}
    compared = {k: v for k, v in result.errors.items() if k != "without corrected biases"}
    clearly = 2 * min(compared.values()) < compared["max"]
    assert result.errors[result.chosen] == (min(compared.values()) if clearly else compared["max"])
    assert 10 ** (-result.sqnr["y"] / 10) == pytest.approx(result.errors[result.chosen])


def test_tensors_that_are_not_kept_are_computed_again(
    build: Any, tokens: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = quantize(block(build), tokens, progress=False)
    monkeypatch.setattr(smoothing, "_KEPT_BYTES", 2**14)  # some of the runs
    computed = quantize(block(build), tokens, progress=False)
    assert result.smoothed
    assert graph.to_bytes(result.model) == graph.to_bytes(computed.model)

"""Bias correction and equalization: exact where they must be, on only where they help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import intact
from intact import graph
from intact.engine.reference import evaluate
from intact.numerics import fake_quantize
from intact.ptq import quantize
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.scope.quantization_ranges import QuantizedWeight, weight_ends
from intact.ptq.scope.settings import Settings
from intact.ptq.stages.bias_correction import mean_errors
from intact.ptq.stages.collect_statistics import with_statistics
from intact.ptq.stages.cross_layer_equalization import equalize, find_pairs
from intact.ptq.stages.prepare_model import prepare_state
from intact.ptq.stages.smoothing import smooth_images
from intact.spec import QuantSpec

PADS: dict[str, Any] = {"pads": [1, 1, 1, 1]}


def uneven(build: Any, activation: str = "Relu") -> onnx.ModelProto:
    """Conv, depthwise Conv, Conv, with channels of very unlike size between the first and the last."""
    rng = np.random.default_rng(0)
    sizes = np.exp(1.5 * rng.standard_normal(16))

    def normal(*shape: int) -> np.ndarray:
        return (0.3 * rng.standard_normal(shape)).astype(np.float32)

    return build(
        [("Conv", "x w1 b1", "c1", PADS), (activation, "c1", "r1"),
         ("Conv", "r1 w2", "c2", {**PADS, "group": 16}), ("Relu", "c2", "r2"), ("Conv", "r2 w3", "c3"),
         ("GlobalAveragePool", "c3", "p"), ("Flatten", "p", "y")],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 8]},
        w1=normal(16, 3, 3, 3) * sizes[:, None, None, None].astype(np.float32), b1=normal(16),
        w2=normal(16, 1, 3, 3), w3=normal(8, 16, 1, 1) / sizes[None, :, None, None].astype(np.float32),
    )  # fmt: skip


def test_equalization_balances_channels_and_leaves_the_outputs(build: Any, images: np.ndarray) -> None:
    model = graph.load(uneven(build))
    before = graph.Session(model).run({"x": images})["y"]
    assert equalize(model) == 2
    after = graph.Session(model).run({"x": images})["y"]
    assert np.abs(after - before).max() < 1e-5 * np.abs(before).max() + 1e-6
    first, second = (model.graph.initializers[n].const_value.numpy() for n in ("w1", "w2"))
    spans = np.abs(first).max(axis=(1, 2, 3)), np.abs(second).max(axis=(1, 2, 3))
    assert spans[0] == pytest.approx(spans[1], rel=0.05)


@pytest.mark.parametrize("activation, pairs", [("Relu", 2), ("LeakyRelu", 2), ("Sigmoid", 1)])
def test_only_what_a_factor_passes_through_makes_a_pair(build: Any, activation: str, pairs: int) -> None:
    assert len(find_pairs(graph.load(uneven(build, activation)))) == pairs


def test_relu6_makes_no_pair_and_the_result_says_why(build: Any, images: np.ndarray) -> None:
    model = uneven(build, "Clip")
    assert len(find_pairs(graph.load(model))) == 1
    result = quantize(model, images, progress=False, method="max")
    assert result.not_equalized == (
        "1 pair of convolutions has a Clip between them, one bound for all channels: 'n_r1'"
    )
    assert quantize(model, images, progress=False, equalization=False, method="max").not_equalized == ""


def test_a_second_reader_or_a_shared_weight_makes_no_pair(build: Any) -> None:
    w = np.ones((3, 3, 1, 1), np.float32)
    ends = {"x": ["N", 3, 4, 4]}, {"y": ["N", 3, 4, 4]}
    shared = build([("Conv", "x w", "c"), ("Conv", "c w", "y")], *ends, w=w)
    branch = build([("Conv", "x w", "c"), ("Conv", "c v", "d"), ("Add", "c d", "y")], *ends, w=w, v=w)
    assert find_pairs(graph.load(shared)) == find_pairs(graph.load(branch)) == []


def test_equalization_stays_on_where_it_helps(build: Any, cnn: onnx.ModelProto, images: np.ndarray) -> None:
    options = {"progress": False, "profile": "tensorrt"}
    helped = quantize(uneven(build), images, **options)
    without = quantize(uneven(build), images, **options, equalization=False)
    assert helped.equalized and not without.equalized
    assert helped.sqnr["y"] > without.sqnr["y"] + 6
    assert not quantize(cnn, images, progress=False, per_channel=False, scale_bits=None).equalized
    assert quantize(cnn, images, progress=False, equalization=True).equalized


def test_what_depthwise_layers_read_is_smoothed_without_a_second_pass(build: Any, images: np.ndarray) -> None:
    model = uneven(build)
    helped = quantize(model, iter([images]), progress=False, float_budget=0)
    without = quantize(model, images, progress=False, equalization=False, float_budget=0)
    assert "r1" in helped.smoothed and not helped.equalized
    assert helped.sqnr["y"] > without.sqnr["y"] + 6
    operators = [node.op_type for node in helped.proto.graph.node]
    assert "Mul" not in operators, "Relu lets factors through to the convolution in front"


@pytest.mark.parametrize("activation", ["HardSwish", "Relu"])
def test_factors_leave_the_float_model_its_bits(build: Any, images: np.ndarray, activation: str) -> None:
    rng = np.random.default_rng(0)
    sizes = np.exp2(np.arange(16) % 6).reshape(-1, 1, 1, 1).astype(np.float32)
    shapes = {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (16, 1, 3, 3)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    model = build(
        [("Conv", "x w1 b1", "c", {"pads": [1, 1, 1, 1]}), (activation, "c", "h"), ("Mul", "h a", "m"),
         ("Add", "m o", "s"), ("Conv", "s w2", "y", {"group": 16})],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 16, 6, 6]}, w1=arrays["w1"] * sizes, b1=arrays["b1"],
        w2=arrays["w2"] / sizes, a=np.float32([1.5]), o=np.float32([0.25]),
    )  # fmt: skip
    state = with_statistics(prepare_state(model, images, Settings(progress=False)))
    assert state is not None
    got = smooth_images(state)
    assert got is not None
    before, after = (graph.Session(item.model).run({"x": images})["y"] for item in (state, got))
    assert np.array_equal(before, after) and got.smoothed == ("s",)
    ends = [item.calibration[name] for item, name in ((state, "s"), (got, "s.smoothed"))]
    assert float(ends[1].amax) < float(ends[0].amax) / 4
    equalized, plain = (
        quantize(model, images, progress=False, equalization=how, float_budget=0) for how in ("auto", False)
    )
    assert equalized.sqnr["y"] > plain.sqnr["y"] + 3


def test_a_factor_that_would_be_a_pass_of_its_own_is_left_out(build: Any, images: np.ndarray) -> None:
    """A spectrogram: what makes the image is a sum of squares, which takes no factors."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    model = build(
        [("Mul", "x x", "m"), ("Sqrt", "m", "s"), ("Conv", "s w", "y")],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 4, 6, 6]}, w=weight * np.float32([1, 60, 900]).reshape(1, 3, 1, 1),
    )  # fmt: skip
    uneven = images / np.float32([1, 60, 900]).reshape(1, 3, 1, 1)
    state = with_statistics(prepare_state(model, uneven, Settings(progress=False)))
    assert state is not None and smooth_images(state) is None


def test_constant_nodes_are_weights_like_others(build: Any, images: np.ndarray) -> None:
    model = uneven(build)
    nodes = onnx.ModelProto()
    nodes.CopyFrom(model)
    for array in list(nodes.graph.initializer)[::-1]:
        nodes.graph.node.insert(0, onnx.helper.make_node("Constant", [], [array.name], value=array))
    del nodes.graph.initializer[:]
    plain, lifted = (quantize(item, images, progress=False) for item in (model, nodes))
    assert lifted.smoothed == plain.smoothed != [] and lifted.sqnr == plain.sqnr


def test_data_that_are_read_once_are_not_read_twice(build: Any, images: np.ndarray) -> None:
    result = quantize(uneven(build), iter([images]), progress=False, profile="tensorrt")
    assert not result.equalized
    assert any("read" in line and "equalization" in line for line in result.warnings)


LAYERS = {
    "conv": (("Conv", "x w", "y", {"pads": [1, 0, 2, 1], "strides": [2, 1]}), (6, 4, 3, 3)),
    "dilated groups": (("Conv", "x w b", "y", {"group": 2, "dilations": [2, 2]}), (6, 2, 3, 3)),
    "same": (("Conv", "x w b", "y", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}), (6, 4, 2, 3)),
    "transposed": (("ConvTranspose", "x w b", "y", {"strides": [2, 3], "pads": [1, 0, 0, 2]}), (4, 6, 3, 4)),
    "transposed groups": (
        (
            "ConvTranspose",
            "x w",
            "y",
            {
                "group": 2,
                "dilations": [2, 1],
                "strides": [3, 2],
                "output_padding": [2, 1],
                "pads": [0, 1, 3, 0],
            },
        ),
        (4, 3, 2, 3),
    ),
    "gemm": (("Gemm", "x w b", "y", {"transB": 1}), (6, 4)),
    "gemm as stored": (("Gemm", "x w", "y"), (4, 6)),
}


@pytest.mark.parametrize("node, shape", LAYERS.values(), ids=LAYERS)
def test_the_mean_error_is_that_of_the_layer(build: Any, node: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(6).astype(np.float32)
    x = (rng.standard_normal((5, 4, 8, 7)[: len(shape)]) + 1).astype(np.float32)
    opens = ["N", 4, 8, 7][: len(shape)]
    model = build(
        [node], {"x": opens}, {"y": ["N", 6, "H", "W"][: len(shape)]},
        **({"w": w, "b": b} if "b" in node[1] else {"w": w}),
    )  # fmt: skip
    spec = QuantSpec("int4")
    ends = weight_ends(w, spec)
    loaded = graph.load(model)
    before = graph.Session(loaded).run({"x": x})["y"]
    weight = QuantizedWeight((("n_y", 1),), w, spec, ends)
    (layer,) = mean_errors(loaded, [weight], [HoldoutSample(b"", {"x": x}, {})])
    scale, zero_point = weight.grid
    graph.set_initializer(loaded, "w", fake_quantize(w, scale, zero_point, spec))
    lost = graph.Session(loaded).run({"x": x})["y"] - before
    want = lost.mean(axis=tuple(a for a in range(lost.ndim) if a != 1), dtype=np.float64)
    assert layer.added == ("b" not in node[1])
    assert layer.error == pytest.approx(want, abs=1e-5)


def test_bias_correction_lowers_the_error_or_stays_off(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    result = quantize(cnn, images, progress=False)
    before, after = result.errors["without corrected biases"], result.errors[result.chosen]
    assert result.corrected == (after < before)
    off = quantize(cnn, images, progress=False, bias_correction=False)
    assert not off.corrected and "without corrected biases" not in off.errors
    assert quantize(cnn, images, progress=False, bias_correction=True).corrected


def test_a_layer_without_bias_gets_one_only_for_a_correction(build: Any) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 4, 3, 3)).astype(np.float32)
    x = (rng.standard_normal((16, 4, 8, 8)) + 2).astype(np.float32)
    model = build([("Conv", "x w", "y")], {"x": ["N", 4, 8, 8]}, {"y": ["N", 8, 6, 6]}, w=w)
    inputs = {}
    for correct in (True, False):
        proto = quantize(model, x, progress=False, bias_correction=correct).proto
        (conv,) = [node for node in proto.graph.node if node.op_type == "Conv"]
        inputs[correct] = len(conv.input)
    assert inputs == {True: 3, False: 2}


@pytest.mark.parametrize("quiet_first", [True, False])
def test_a_concats_range_does_not_reach_the_other_readers_of_its_parts(
    build: Any, tmp_path: Path, quiet_first: bool
) -> None:
    """A branch a hundred times smaller than what it is joined with: its other reader saw three codes."""
    rng = np.random.default_rng(0)
    w, u = (rng.standard_normal((4, 4, 1, 1)).astype(np.float32) for _ in range(2))
    v = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    parts = "small large" if quiet_first else "large small"
    built = build(
        [("Conv", "a w", "small"), ("Conv", "b w", "large"), ("Concat", parts, "cat", {"axis": 1}),
         ("Transpose", "cat", "turned", {"perm": [0, 1, 3, 2]}), ("Conv", "turned v", "y"),
         ("Conv", "small u", "z")],
        {"a": ["N", 4, 6, 6], "b": ["N", 4, 6, 6]}, {"y": ["N", 8, 4, 4], "z": ["N", 4, 6, 6]},
        w=w, u=u, v=v,
    )  # fmt: skip
    a = rng.standard_normal((16, 4, 6, 6)).astype(np.float32)
    data = {"a": a, "b": 100 * a}
    result = quantize(built, data, method="max", progress=False)
    assert result.sqnr["z"] > 35 and result.sqnr["y"] > 30
    result.save(tmp_path / "q.onnx")
    engine = intact.compile(tmp_path / "q.onnx")
    assert [s.kind for s in engine.plan.steps].count("rescale") == 0, "the Concat does it"
    results, expected = engine.run(data), evaluate(engine.plan, data)
    assert all(np.array_equal(results[name], expected[name]) for name in ("y", "z"))

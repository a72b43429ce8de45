"""Small inner tensors of hold-out samples: what they tell is not computed again, and is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from intact import graph
from intact.ptq import quantize
from intact.ptq.measure import holdout_samples, layer_inputs, output_errors, tensor_counter
from intact.ptq.measure.input_means import _Mean, mean_readers, weight_shapes
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.settings import Settings
from intact.ptq.stages import collect_statistics, smoothing
from intact.ptq.stages.bias_correction import with_bias_errors
from intact.ptq.stages.collect_statistics import with_statistics
from intact.ptq.stages.insert_qdq import with_weights
from intact.ptq.stages.prepare_model import prepare_state
from intact.ptq.stages.smoothing import smooth_products
from intact.ptq.stages.stage_list import STAGES, run


def collect_state(model: onnx.ModelProto, data: Any) -> State:
    state = with_statistics(prepare_state(model, data, Settings(progress=False)))
    assert state is not None
    return with_weights(state)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The operators of every session that is made of a float or quantized model."""
    result: list[list[str]] = []

    class Watched(graph.Session):
        def __init__(self, model: Any, **more: Any) -> None:
            result.append([node.op_type for node in model.graph])
            super().__init__(model, **more)

    for module in (tensor_counter, layer_inputs, smoothing, output_errors):
        monkeypatch.setattr(module, "Session", Watched)
    return result


@pytest.fixture
def steps(build: Any) -> onnx.ModelProto:
    """A product behind an Unsqueeze of what is quantized in front of it, as exporters of audio write it."""
    rng = np.random.default_rng(3)
    nodes = [
        ("Conv", "x w", "c", {"pads": [1, 1]}), ("Relu", "c", "r"), ("Unsqueeze", "r axes", "u"),
        ("Conv", "u v", "d"), ("Squeeze", "d axes", "y"),
    ]  # fmt: skip
    return build(
        nodes, {"x": [1, 4, 12]}, {"y": [1, 5, 12]}, axes=np.array([3]),
        w=rng.standard_normal((6, 4, 3)).astype(np.float32),
        v=rng.standard_normal((5, 6, 1, 1)).astype(np.float32),
    )  # fmt: skip


@pytest.fixture
def sounds() -> list[np.ndarray]:
    return list(np.random.default_rng(4).standard_normal((20, 1, 4, 12)).astype(np.float32))


def test_means_of_biases_take_no_run_of_the_model(
    steps: onnx.ModelProto, sounds: list[np.ndarray], sessions: list[list[str]]
) -> None:
    """One session counts; what is behind a tensor that is held is made of it, and of nothing in front."""
    state = collect_state(steps, sounds)
    assert len(sessions) == 1 and state.has_run
    with_errors = with_bias_errors(state.with_own_model())
    assert sessions[1:] == [["Unsqueeze"]]
    alone = with_bias_errors(replace(state.with_own_model(), traced_model=None))
    assert len(sessions) == 3 and "Conv" in sessions[2]
    assert with_errors is not None and alone is not None and len(with_errors.bias_errors) == 2
    for mine, other in zip(with_errors.bias_errors, alone.bias_errors, strict=True):
        assert mine.node == other.node
        assert np.allclose(mine.error, other.error, rtol=1e-6, atol=1e-9)


def test_sessions_of_the_model_are_one_for_counting_one_for_ranges_and_one_where_inner_tensors_went(
    cnn: onnx.ModelProto, images: np.ndarray, sessions: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [image[None] for image in images]
    monkeypatch.setattr(tensor_counter, "INNER_BYTES", 0)
    plain = quantize(cnn, data, progress=False)
    before = sum("Conv" in operators for operators in sessions)
    monkeypatch.setattr(tensor_counter, "INNER_BYTES", holdout_samples.INNER_BYTES)
    sessions.clear()
    result = quantize(cnn, data, progress=False)
    assert sum("Conv" in operators for operators in sessions) == before - 1, "halves are counted again"
    assert graph.to_bytes(result.model) == graph.to_bytes(plain.model)


def test_moments_noted_while_runs_are_counted_round_weights_as_others_do(
    cnn: onnx.ModelProto, images: np.ndarray, sessions: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run of the model is made for them; where they are not known one is, and the file is the same."""
    data = [image[None] for image in images]
    monkeypatch.setattr(tensor_counter, "INNER_BYTES", 0)
    noted = quantize(cnn, data, progress=False)
    few = sum("Conv" in operators for operators in sessions)
    sessions.clear()
    monkeypatch.setattr(collect_statistics, "narrow_layers", lambda *_: {})
    again = quantize(cnn, data, progress=False)
    assert sum("Conv" in operators for operators in sessions) == few + 1
    assert graph.to_bytes(noted.model) == graph.to_bytes(again.model)


def test_what_large_tensors_tell_is_noted_while_runs_are_counted(
    cnn: onnx.ModelProto, images: np.ndarray, sessions: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither means of biases nor squares of channels take another run of the model, in whatever order."""
    monkeypatch.setattr(tensor_counter, "INNER_BYTES", 0)
    monkeypatch.setattr(holdout_samples, "HOLDOUT_MOST", holdout_samples.HOLDOUT_LEAST)
    data = [image[None] for image in images]
    state, turned = collect_state(cnn, data), collect_state(cnn, data[::-1])
    sessions.clear()
    assert smoothing.smooth_images(state) is None
    corrected = with_bias_errors(state.with_own_model())
    assert not sessions and corrected is not None
    alone = with_bias_errors(replace(state.with_own_model(), input_means=None))
    other = with_bias_errors(turned.with_own_model())
    assert alone is not None and other is not None and corrected.bias_errors
    for item, two, three in zip(corrected.bias_errors, alone.bias_errors, other.bias_errors, strict=True):
        assert np.allclose(item.error, two.error, rtol=1e-5, atol=1e-9)
        assert np.array_equal(item.error, three.error)


def test_means_of_smoothed_tensors_are_those_of_the_smoothed_model(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_counter, "INNER_BYTES", 0)
    rng, gain = np.random.default_rng(0), np.ones(32, np.float32)
    gain[3] = 40
    model = build(
        [("LayerNormalization", "x g b", "n"), ("MatMul", "n w", "m"), ("Add", "m c", "y")],
        {"x": [1, 5, 32]}, {"y": [1, 5, 48]}, g=gain, b=np.full(32, 2, np.float32),
        w=rng.standard_normal((32, 48)).astype(np.float32) / 6, c=np.zeros(48, np.float32),
    )  # fmt: skip
    state = collect_state(model, list(rng.standard_normal((20, 1, 5, 32)).astype(np.float32)))
    got = smooth_products(state)
    assert got is not None and got.input_means is not None and got.input_means.are_of(got)
    again = replace(with_weights(got), input_means=None).with_own_model()
    expected = with_bias_errors(with_weights(got).with_own_model())
    measured = with_bias_errors(again)
    assert expected is not None and measured is not None
    (item,), (two,) = expected.bias_errors, measured.bias_errors
    assert np.allclose(item.error, two.error, rtol=1e-5, atol=1e-9)


def test_large_tensors_are_let_go(steps: onnx.ModelProto, sounds: list[np.ndarray]) -> None:
    state = collect_state(steps, sounds)
    (size,) = {
        sum(a.nbytes for a in sample.inner.values()) for sample in state.runs if sample.inner is not None
    }
    counted = collect_with_room(steps, sounds, size - 1)
    assert all(sample.inner is None for sample in counted.runs)
    assert [sample.digest for sample in counted.runs] == [sample.digest for sample in state.runs]


def collect_with_room(model: onnx.ModelProto, data: Any, room: int) -> State:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensor_counter, "INNER_BYTES", room)
        return collect_state(model, data)


def test_smoothed_tensors_are_those_of_the_smoothed_model(build: Any) -> None:
    rng = np.random.default_rng(0)
    gain = np.ones(32, np.float32)
    gain[3] = 40
    model = build(
        [("LayerNormalization", "x g b", "n"), ("MatMul", "n w", "m"), ("Tanh", "m", "t"),
         ("MatMul", "t v", "y")],
        {"x": [1, 5, 32]}, {"y": [1, 5, 32]}, g=gain, b=np.zeros(32, np.float32),
        w=rng.standard_normal((32, 48)).astype(np.float32) / 6,
        v=rng.standard_normal((48, 32)).astype(np.float32) / 7,
    )  # fmt: skip
    state = collect_state(model, list(rng.standard_normal((20, 1, 5, 32)).astype(np.float32)))
    got = smooth_products(state)
    assert got is not None and got.smoothed == ("n",) and got.has_run and state.model is not got.model
    names = [name for name in got.tensors_to_calibrate if name != "x"]
    session = graph.Session(got.model, extra=names, folded=True)
    for sample in got.runs:
        assert sample.inner is not None
        for name, array in session.stream(sample.feeds, names):
            assert np.array_equal(sample.inner[name], array), name


@pytest.mark.parametrize(
    "op, attributes, weight, shape",
    [
        ("Conv", {}, (5, 3, 3, 3), (1, 3, 9, 8)),
        ("Conv", {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}, (5, 3, 3, 2), (1, 3, 9, 8)),
        ("Conv", {"group": 3, "pads": [2, 2]}, (3, 1, 5), (1, 3, 11)),
        ("Conv", {}, (4, 1, 1), (1, 1, 130)),
        ("ConvTranspose", {"strides": [2, 2], "pads": [1, 1, 0, 0]}, (3, 2, 3, 3), (1, 3, 4, 5)),
        ("MatMul", {}, (7, 4), (1, 6, 7)),
        ("MatMul", {}, (1, 4), (1, 40, 1)),
    ],
)
def test_means_of_many_runs_are_those_of_each(
    build: Any, op: str, attributes: dict[str, Any], weight: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    opens = ["N", *shape[1:]]
    model = graph.load(build(
        [(op, "x w", "y", attributes)], {"x": opens}, {"y": [None] * len(shape)},
        w=np.ones(weight, np.float32),
    ))  # fmt: skip
    (node,) = model.graph
    runs = [np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i in range(7)]
    mean = _Mean(node, weight)
    assert [(sums.totals[0].tobytes(), sums.count) for sums in mean.together(runs)] == [
        (sums.totals[0].tobytes(), sums.count) for sums in map(mean, runs)
    ]
    pair = np.concatenate(runs[:2])  # of several samples, and of several sizes: one by one
    result = mean.together([pair, runs[2]])
    assert [sums.count for sums in result] == [2, 1]
    assert np.allclose(result[0].mean, (mean(runs[0]).mean + mean(runs[1]).mean) / 2)


def test_a_run_of_stages_copies_a_model_for_each_that_may_be_dropped(
    cnn: onnx.ModelProto, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the pairs the model is its own: ranges and biases off boundaries go in where it is."""
    copies: list[graph.Model] = []
    plain = graph.Model.clone

    def clone(self: graph.Model, *more: Any, **other: Any) -> graph.Model:
        copies.append(plain(self, *more, **other))
        return copies[-1]

    at = [stage.name for stage in STAGES].index("pairs")
    before = run(prepare_state(cnn, images, Settings(progress=False)), STAGES[:at])
    monkeypatch.setattr(graph.Model, "clone", clone)
    stages = STAGES[at:]
    done = run(before, stages)
    assert len(copies) == 1 and done.model is copies[0]
    assert run(done, stages[1:2]).model is copies[1]  # what others may have is never changed


def test_readers_look_at_every_tensor(steps: onnx.ModelProto, sounds: list[np.ndarray]) -> None:
    state = collect_state(steps, sounds)
    recorded: list[float] = []

    def look(x: np.ndarray) -> float:
        recorded.append(float(x.sum()))
        return recorded[-1]

    result = list(measure(state, {"r": {"a": look, "b": look}, "x": {"c": look}}))
    assert len(result) == len(state.runs) and len(recorded) == 3 * len(result)
    for sample, (item,) in zip(state.runs, result, strict=True):
        assert sample.inner is not None
        assert item == {
            "a": sample.inner["r"].sum(),
            "b": sample.inner["r"].sum(),
            "c": sample.feeds["x"].sum(),
        }
    readers = mean_readers(state.model, weight_shapes(state.model, state.weights))
    convolutions = {n.name for n in state.model.graph if n.op_type == "Conv"}
    assert all(set(item) == convolutions for (item,) in measure(state, readers))


def measure(state: State, *readers: Any) -> Iterator[tuple[dict[str, Any], ...]]:
    return layer_inputs.read_layer_inputs(state.model, state.runs, *readers, has_run=True)

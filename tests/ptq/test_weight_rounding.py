"""Weights rounded with regard to each other: codes of the grid, and a smaller error of what layers make."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, product
from typing import Any

import numpy as np
import onnx
import pytest

from intact import graph
from intact.graph import ops
from intact.ptq import quantize
from intact.ptq.measure import weight_rows
from intact.ptq.measure.holdout_samples import halves_of
from intact.ptq.measure.quantization_state import State
from intact.ptq.measure.weight_rows import InputRows, as_rows, from_rows
from intact.ptq.scope.settings import Settings
from intact.ptq.stages import weight_rounding
from intact.ptq.stages.prepare_model import prepare_state
from intact.ptq.stages.proposal_scores import error_of_weights
from intact.ptq.stages.stage_list import STAGES, run
from intact.ptq.stages.weight_rounding import _Grid, round_all_weights, round_weights

_ALL = [stage.name for stage in STAGES].index("round all weights")
PLAIN: dict[str, Any] = {"bias_correction": False, "equalization": False, "method": "max", "progress": False}


def together(count: int, channels: int, size: int = 6) -> np.ndarray:
    """float32 [count, channels, size, size]: what lies side by side goes together, and so do channels."""
    rng = np.random.default_rng(3)
    few = rng.standard_normal((count, 3, size, size)).cumsum(axis=2).cumsum(axis=3)
    mixed = np.einsum("cf,nfhw->nchw", rng.standard_normal((channels, 3)), few)
    return (mixed + 0.05 * rng.standard_normal(mixed.shape)).astype(np.float32)


def layers(build: Any) -> dict[str, onnx.ModelProto]:
    """One layer of each kind that reads [N, 16, 6, 6], or rows of 16."""
    rng = np.random.default_rng(4)

    def w(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    image, pads = {"x": ["N", 16, 6, 6]}, [1, 1, 1, 1]
    conv = {"kernel_shape": [3, 3], "pads": pads}
    return {
        "dense": build([("Conv", "x w", "y", conv)], image, {"y": ["N", 8, 6, 6]}, w=w(8, 16, 3, 3)),
        "depthwise": build(
            [("Conv", "x w", "y", {**conv, "group": 16})], image, {"y": ["N", 16, 6, 6]}, w=w(16, 1, 3, 3)
        ),
        "strided": build(
            [("Conv", "x w", "y", {"pads": [2, 1, 0, 1], "strides": [2, 1],
                                   "dilations": [1, 2], "group": 2})],
            image, {"y": ["N", 8, 3, 6]}, w=w(8, 8, 3, 2),
        ),
        "matmul": build([("MatMul", "x w", "y")], {"x": ["N", 6, 6, 16]}, {"y": ["N", 6, 6, 8]}, w=w(16, 8)),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["dense", "depthwise", "strided", "matmul"])
def test_rows_times_inputs_are_the_layer(build: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = graph.load(layers(build)[name])
    (node,) = (node for node in model.graph if ops.read(node) is not None)
    weight = model.graph.initializers["w"].const_value.numpy()
    x = together(2, 16)
    x = x.transpose(0, 2, 3, 1) if name == "matmul" else x
    rows, met = as_rows(node, weight), np.concatenate([*InputRows(node, weight.shape[2:], 10**6)(x)])
    result = np.einsum("gok,gpk->gop", rows, met)
    want = graph.Session(model).run({"x": x})["y"]
    want = np.moveaxis(want, -1 if name == "matmul" else 1, 0).reshape(result.shape)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)
    assert np.array_equal(from_rows(node, rows, weight.shape), weight)
    few = np.concatenate([*InputRows(node, weight.shape[2:], 7)(x)])
    assert few.shape == (*met.shape[:1], 7, met.shape[2])
    monkeypatch.setattr(weight_rows, "_PART_BYTES", 1)
    by_group = list(InputRows(node, weight.shape[2:], 10**6)(x))
    assert len(by_group) == len(met) and np.array_equal(np.concatenate(by_group), met)


@pytest.mark.parametrize("name", ["dense", "depthwise", "matmul"])
def test_errors_of_one_sum_cancel(build: Any, name: str) -> None:
    model = layers(build)[name]
    data = together(24, 16)
    data = data.transpose(0, 2, 3, 1).copy() if name == "matmul" else data
    plain, fitted = (quantize(model, data, activations="float", rounding=r, **PLAIN) for r in (False, True))
    fresh = data[::-1] * 0.7
    want = graph.Session(graph.load(model)).run({"x": fresh})["y"]
    lost = [np.square(graph.Session(q.model).run({"x": fresh})["y"] - want).sum() for q in (plain, fitted)]
    assert lost[1] < 0.5 * lost[0]


def test_it_is_hardly_worse_than_the_best_of_all_codes() -> None:
    rng, errors = np.random.default_rng(5), []
    for _ in range(20):
        x = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((40, 4))
        hessian, w = x.T @ x / 40, rng.uniform(-3, 2, 4)
        result = _Grid(np.ones((1, 1, 4)), -4, 3).round_with_hessians(w[None, None], [hessian[None]])[0, 0]
        assert set(result) <= set(range(-4, 4))
        every = np.array(
            [np.rint(w), result, *(np.floor(w) + np.array(list(product(range(-1, 3), repeat=4))))]
        )
        errors.append(np.einsum("nk,kl,nl->n", every - w, hessian, every - w))
    nearest, mine, best = np.sum([(e[0], e[1], e.min()) for e in errors], axis=0)
    assert best <= mine < best + 0.2 * (nearest - best)


def test_a_weight_that_others_read_in_float_stays_as_it_is(build: Any) -> None:
    rng = np.random.default_rng(6)
    model = build(
        [("MatMul", "x w", "a"), ("Mul", "a s", "y"), ("ReduceSum", "w axes", "z", {"keepdims": 0})],
        {"x": ["N", 16]}, {"y": ["N", 8], "z": [8]},
        w=rng.standard_normal((16, 8)).astype(np.float32), s=np.float32(2), axes=np.array([0]),
    )  # fmt: skip
    data = together(24, 16).transpose(0, 2, 3, 1).reshape(-1, 16)
    result = quantize(model, data, **PLAIN)
    feeds = {"x": data[:4]}
    sums = [graph.Session(m).run(feeds)["z"] for m in (graph.load(model), result.model)]
    assert np.array_equal(*sums)


def test_unlike_inputs_keep_the_nearest_codes(build: Any) -> None:
    """Unrelated inputs have nothing to gain, and the file is as without."""
    rng = np.random.default_rng(7)
    model = build(
        [("MatMul", "x w", "y")],
        {"x": ["N", 16]},
        {"y": ["N", 4]},
        w=rng.standard_normal((16, 4)).astype("f4"),
    )
    data = np.eye(16, dtype=np.float32)[rng.integers(0, 16, 64)]
    plain, fitted = (quantize(model, data, rounding=r, **PLAIN) for r in (False, True))
    codes = [q.model.graph.initializers["w.codes"].const_value.numpy() for q in (plain, fitted)]
    assert np.abs(codes[0].astype(int) - codes[1]).max() <= 1


def coarse(build: Any, inputs: int) -> onnx.ModelProto:
    """A layer whose every output has one weight that is twenty times as large as the others."""
    w = np.random.default_rng(8).standard_normal((inputs, 8)).astype(np.float32)
    w[0] *= 20
    return build([("MatMul", "x w", "y")], {"x": ["N", inputs]}, {"y": ["N", 8]}, w=w)


def codes_of(model: onnx.ModelProto, data: np.ndarray, rounding: Any) -> np.ndarray:
    result = quantize(model, data, rounding=rounding, **PLAIN).model
    return result.graph.initializers["w.codes"].const_value.numpy()


def test_auto_fits_all_weights_where_that_halves_their_error(build: Any) -> None:
    model, rng = coarse(build, 48), np.random.default_rng(9)
    few = rng.standard_normal((256, 4)) @ rng.standard_normal((4, 48))
    data = (few + 0.02 * rng.standard_normal(few.shape)).astype(np.float32)
    nearest, auto, fitted = (codes_of(model, data, rounding) for rounding in (False, "auto", True))
    assert np.array_equal(auto, fitted) and not np.array_equal(nearest, fitted)


def test_auto_keeps_nearest_codes_where_fitted_ones_gain_little(build: Any) -> None:
    model, rng = coarse(build, 48), np.random.default_rng(9)
    mixed = np.eye(48) + 0.02 * rng.standard_normal((48, 48))
    data = (rng.standard_normal((256, 48)) @ mixed).astype(np.float32)
    state = run(prepare_state(model, data, Settings(**PLAIN)), STAGES[:_ALL])
    fitted = round_weights(replace(state, settings=Settings(rounding=True, **PLAIN)))
    assert fitted is not None and error_of_weights(state) > 1e-4
    assert 0.5 * error_of_weights(state) < error_of_weights(fitted) < error_of_weights(state)
    assert round_all_weights(state) is None
    assert np.array_equal(codes_of(model, data, False), codes_of(model, data, "auto"))


def test_codes_are_scored_on_samples_that_they_were_not_fitted_to(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(9)
    few = rng.standard_normal((64, 8)) @ rng.standard_normal((8, 48))
    data = (few + 0.02 * rng.standard_normal(few.shape)).astype(np.float32)
    state = run(prepare_state(coarse(build, 48), data, Settings(**PLAIN)), STAGES[:_ALL])
    if len(state.runs) == 1:  # one stack of small samples
        state = replace(state, runs=tuple(chain(*halves_of(state.runs))))
    scored: list[State] = []

    def score(scored_state: State) -> float:
        scored.append(scored_state)
        return error_of_weights(scored_state)

    monkeypatch.setattr(weight_rounding, "error_of_weights", score)
    result = round_all_weights(state)
    assert result is not None
    (half, _), (whole, _) = ((s.weights[0].rounded, s) for s in (scored[-2], result))
    assert scored[-2].runs == scored[-1].runs == state.runs[1::2]
    assert half is not None and whole is not None and not np.array_equal(half, whole)


def test_auto_leaves_weights_that_lose_little(build: Any) -> None:
    """Below a hundredth of the outputs nothing is fitted, though it would halve the error."""
    data = together(24, 16)
    state = run(prepare_state(layers(build)["dense"], data, Settings(**PLAIN)), STAGES[:_ALL])
    fitted = round_weights(replace(state, settings=Settings(rounding=True, **PLAIN)))
    assert fitted is not None
    assert error_of_weights(fitted) < 0.5 * error_of_weights(state) < error_of_weights(state) <= 1e-4
    assert round_all_weights(state) is None


def test_the_error_of_weights_is_that_of_the_file_with_activations_in_float(build: Any) -> None:
    model, data = layers(build)["dense"], together(24, 16)
    settings = Settings(progress=False, equalization=False, bias_correction=False, rounding=False)
    state = run(prepare_state(model, data, settings), STAGES[:_ALL])
    assert state.runs
    plain = quantize(model, data, activations="float", rounding=False, **PLAIN)
    square = lost = 0.0
    for sample in state.runs[:8]:
        want = sample.outputs["y"].astype(np.float64)
        got = graph.Session(plain.model).run(sample.feeds)["y"]
        square, lost = square + np.square(want).sum(), lost + np.square(got - want).sum()
    assert error_of_weights(state) == pytest.approx(lost / square, rel=1e-3)
    assert graph.to_bytes(state.model) == graph.to_bytes(graph.load(model))  # a trial changes no model

"""Answers that are the place of the largest score are held, besides decibels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.ort.policies import Policy
from intact.ort.trials.gate import compare_outputs
from intact.ort.trials.guard import Guard, GuardedRun
from intact.ort.trials.largest_scores import LargestScores, linear_outputs

CLASSES = 20


def logits(rows: int, lead: float, seed: int = 0) -> NDArray[np.float32]:
    """Return rows of scores whose largest one leads by about `lead`; few lead by much less."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((rows, CLASSES)).astype(np.float32)
    largest = rng.integers(0, CLASSES, rows)
    scores[np.arange(rows), largest] = scores.max(axis=1) + np.float32(lead) * rng.uniform(0, 2, rows)
    return scores


def noisy(scores: NDArray[np.float32], decibels: float, seed: int = 1) -> NDArray[np.float32]:
    noise = np.random.default_rng(seed).standard_normal(scores.shape)
    noise *= np.sqrt(np.mean(scores**2)) * 10 ** (-decibels / 20)
    return (scores + noise).astype(np.float32)


def log_softmax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(np.float32)


def test_outputs_of_linear_layers_are_found_behind_layout_and_bias(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    bias = numpy_helper.from_array(np.ones(4, np.float32), "b")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["b", "product"], ["sum"]),
        helper.make_node("Identity", ["sum"], ["scores"]),
        helper.make_node("Relu", ["sum"], ["features"]),
        helper.make_node("Add", ["features", "b"], ["shifted"]),
    ]
    sizes = ["n", 4]
    outputs = dict.fromkeys(("scores", "features", "shifted"), sizes)
    model = onnx_model(nodes, {"x": sizes}, outputs, [weight, bias])
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert linear_outputs(path) == linear_outputs(model.SerializeToString()) == ["scores"]


@pytest.mark.parametrize("kind", ["logits", "log softmax", "softmax"])
@pytest.mark.parametrize(("decibels", "is_close"), [(31.0, False), (75.0, True)])
def test_answers_decide_where_an_output_holds_scores(kind: str, decibels: float, is_close: bool) -> None:
    reference = logits(600, 3.0)
    candidate = noisy(reference, decibels)
    names = ["y"] if kind == "logits" else []
    if kind != "logits":
        reference, candidate = log_softmax(reference), log_softmax(candidate)
    if kind == "softmax":
        reference, candidate = np.exp(reference), np.exp(candidate)
    verdict = compare_outputs([({"y": reference}, {"y": candidate})], Policy(accuracy=25.0), names)
    assert verdict.is_close == is_close, verdict
    assert is_close or "of 600 largest scores move" in verdict.why


@pytest.mark.parametrize("case", ["no linear layer", "not sure", "a map", "wide leads"])
def test_decibels_suffice_where_largest_scores_are_no_answers(case: str) -> None:
    reference = logits(600, {"not sure": 0.1, "wide leads": 300.0}.get(case, 3.0))
    if case == "wide leads":
        reference[np.arange(600), reference.argmax(axis=1)] += 100
    candidate = noisy(reference, 35.0)
    if case == "a map":
        reference, candidate = (part.reshape(1, 20, 30, CLASSES) for part in (reference, candidate))
    names = [] if case == "no linear layer" else ["y"]
    verdict = compare_outputs([({"y": reference}, {"y": candidate})], Policy(), names)
    assert verdict.is_close, verdict


def test_the_estimate_is_near_the_count() -> None:
    reference = logits(20_000, 3.0)
    candidate = noisy(reference, 30.0)
    scores = LargestScores()
    scores.add(reference, candidate, True)
    changes, answers = scores.changes()
    count = np.count_nonzero(reference.argmax(axis=1) != candidate.argmax(axis=1))
    assert answers == 20_000
    assert 0.7 * count < changes < 1.4 * count


def test_rows_of_the_class_between_answers_do_not_count() -> None:
    reference = logits(1000, 3.0)
    reference[:900, 0] = 30.0
    scores = LargestScores()
    scores.add(reference, noisy(reference, 40.0), True)
    _, answers = scores.changes()
    assert answers <= 100


def test_answers_of_several_outputs_are_counted_together() -> None:
    outputs = {f"letter {index}": logits(40, 3.0, index) for index in range(8)}
    candidates = {name: noisy(scores, 33.0, index) for index, (name, scores) in enumerate(outputs.items())}
    alone = [
        compare_outputs([({name: scores}, {name: candidates[name]})], Policy(), [name]).is_close
        for name, scores in outputs.items()
    ]
    together = compare_outputs([(outputs, candidates)], Policy(), list(outputs))
    assert any(alone)
    assert not together.is_close and "of 320 largest scores move" in together.why


def test_a_guard_sums_up_answers_that_change() -> None:
    guard = Guard(Policy(accuracy=20.0, speed=0.0), 20.0, ["y"])
    whys = []
    for seed in range(40):
        reference = logits(20, 3.0, seed)
        candidate = noisy(reference, 27.0, seed)
        whys.append(guard.check(GuardedRun({}, {"y": candidate}), {"y": reference}))
    assert whys[:3] == ["", "", ""]
    assert any("largest scores move" in why for why in whys)


@pytest.mark.parametrize(("levels", "is_sent_back"), [({}, True), ({"y": 0.5}, False)])
def test_silence_is_compared_with_the_level_of_other_runs(
    levels: dict[str, float], is_sent_back: bool
) -> None:
    guard = Guard(Policy(speed=0.0), 35.0, (), levels)
    silence = np.full((1, 1), 0.001, np.float32)
    run = GuardedRun({}, {"y": silence * np.float32(1.2)})
    assert bool(guard.check(run, {"y": silence})) == is_sent_back


def test_levels_hide_no_errors_of_runs_that_are_louder() -> None:
    guard = Guard(Policy(speed=0.0), 35.0, (), {"y": 0.5})
    loud = np.full((4, 4), 100.0, np.float32)
    assert "fell to" in guard.check(GuardedRun({}, {"y": loud * np.float32(1.2)}), {"y": loud})

"""Runs side by side: results in the order of the runs, errors in their turn, few items read ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

from intact import graph
from intact.calib import Calibration
from intact.errors import CalibrationError
from intact.graph.core.edit import settle
from intact.ptq.data.parallel_runs import WORKERS, in_order
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.output_errors import Errors, Evaluator
from intact.ptq.measure.tensor_counter import Counter, CountingRequest, session_of


def compute(seconds: float) -> None:
    """Take so much of this thread's time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_results_come_in_the_order_of_the_items() -> None:
    rest = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            compute(0.02)  # items of that length are worth a thread
        elif item == 1 and WORKERS > 1:
            assert rest.wait(600), "the third item runs while the second one does"
        elif item == 2:
            rest.set()
        return item * item

    assert list(in_order(work, range(5))) == [0, 1, 4, 9, 16]
    assert list(in_order(work, [])) == []


def test_small_runs_stay_in_the_thread_that_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    threads = set(in_order(lambda item: threading.get_ident(), range(100)))
    assert threads == {threading.get_ident()}


def test_one_run_that_another_program_holds_up_starts_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 0.001, 1.0, 3.0, *([4.0] * 20)])  # the second run takes two seconds
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    assert set(in_order(lambda item: threading.get_ident(), range(10))) == {threading.get_ident()}


@pytest.mark.parametrize("seconds", [0.0, 0.02])
def test_an_error_comes_in_its_turn(seconds: float) -> None:
    def work(item: int) -> int:
        compute(seconds)
        if item == 2:
            raise ValueError("two")
        return item

    result = in_order(work, range(5))
    assert [next(result), next(result)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(result)


def test_no_more_is_read_than_is_under_way() -> None:
    read = []

    def items() -> Iterator[int]:
        for item in range(10):
            read.append(item)
            yield item

    def work(item: int) -> int:
        compute(0.02)
        return item

    result = in_order(work, items())
    next(result)
    assert len(read) == 1
    next(result)
    assert len(read) == 1 + WORKERS + 1
    assert len(list(result)) == 8


def test_a_configuration_measured_in_two_rounds_has_the_same_error(
    cnn: onnx.ModelProto, images: np.ndarray
) -> None:
    model = graph.load(cnn)
    settle(model)
    session = graph.Session(model)
    runs = [
        HoldoutSample(bytes([i]), {"x": x[None]}, session.run({"x": x[None]}))
        for i, x in enumerate(images[:12])
    ]
    weights = model.graph.initializers["b4"].const_value.numpy()
    candidates = {str(i): {"b4": (weights + 0.1 * i).astype(np.float32)} for i in (3, 1, 2, 4)}
    evaluator = Evaluator(model, runs, ["b4"])
    chosen, errors = evaluator.best(candidates)
    assert chosen == "1" and errors["1"] == evaluator.errors(candidates["1"])
    assert errors["4"] != evaluator.errors(candidates["4"])


@pytest.mark.parametrize("plain", ["", "max"])
def test_a_candidate_that_lost_is_not_measured_to_the_end(
    plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The choice is that of all runs, in fewer of them."""
    rng, total = np.random.default_rng(5), 0
    names = ["mse", "entropy", "percentile", "max"]
    for _ in range(200):
        errors = {
            name: rng.choice([0.0, 1.0, 2.0, 3.0, 9.0], 16) * rng.choice([1, 1, 2, 5]) for name in names
        }
        squares, ran = rng.choice([0.25, 1.0, 4.0], 16), []

        def each(self: Evaluator, item: Any, runs: Any, errors: Any = errors, squares: Any = squares,
                 ran: Any = ran) -> Any:  # fmt: skip
            for i in runs:
                ran.append(i)
                yield Errors({"y": (errors[names[int(item["s"][0])]][i : i + 1], squares[i : i + 1])})

        monkeypatch.setattr(Evaluator, "__init__", lambda self: setattr(self, "_runs", tuple(range(16))))
        monkeypatch.setattr(Evaluator, "_each", each)
        inputs = {name: {"s": np.array([float(i)])} for i, name in enumerate(names)}
        few = {name: errors[name][:4].sum() / (2 if name == plain else 1) for name in names}
        whole = {name: errors[name].sum() / (2 if name == plain else 1) for name in names}
        bound = 1.5 * min(few.values())
        if any(np.isclose(item, bound) for item in few.values() if item):
            continue  # rounding decides
        better = [n for n in sorted(names, key=few.__getitem__)[:2] if few[n] <= bound]
        expected = min((n for n in names if n in better or n == plain), key=whole.__getitem__)
        chosen, result = Evaluator().best(inputs, unless_halved=plain)
        assert chosen == expected and result[chosen]["y"][0][0] == errors[chosen].sum()
        total += len(ran)
        assert all(result[name]["y"][0][0] <= errors[name].sum() for name in names)
    assert total < 200 * (4 * 4 + 1.5 * 12)


def test_candidates_far_from_the_whole_ranges_are_dropped_after_the_first_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing near half of their error: from then on only the whole ranges are measured."""
    by_run, ran = {"mse": [0.9] * 16, "max": [1.0] * 16, "entropy": [0.95] * 16}, []

    def each(self: Evaluator, item: Any, runs: Any) -> Any:
        name = list(by_run)[int(item["s"][0])]
        for i in runs:
            ran.append(name)
            yield Errors({"y": (np.array([by_run[name][i]]), np.ones(1))})

    monkeypatch.setattr(Evaluator, "__init__", lambda self: setattr(self, "_runs", tuple(range(16))))
    monkeypatch.setattr(Evaluator, "_each", each)
    evaluator = Evaluator()
    inputs = {name: {"s": np.array([float(i)])} for i, name in enumerate(by_run)}
    assert evaluator.best(inputs, unless_halved="max")[0] == "max"
    assert ran.count("max") == 16 and ran.count("mse") + ran.count("entropy") <= 8


def test_small_tensors_of_several_runs_are_counted_together(
    cnn: onnx.ModelProto, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same counts in a few calls, whatever buffer the data come in; an error names the batch."""
    model = graph.load(cnn)
    settle(model)
    calls: list[str] = []
    plain = Calibration.collect

    def collect(self: Calibration, name: str, x: np.ndarray, **more: Any) -> None:
        calls.append(name)
        plain(self, name, x, **more)

    monkeypatch.setattr(Calibration, "collect", collect)
    expected = ["x", "y"]
    data = [images[i % len(images)][None] for i in range(24)]

    def count_in(order: list[np.ndarray]) -> Calibration:
        requested = CountingRequest(expected, ["y"], "data")
        counter = Counter(model, session_of(model, requested, 1), requested, 1)
        buffer = np.empty_like(data[0])
        for number, x in enumerate(order):
            buffer[:] = x
            counter.run((number, {"x": buffer}))
        counter.finish()
        return counter.calibration

    result, other = count_in(data), count_in(data[::-1])
    assert dict(result) == dict(other) and len(calls) < 0.25 * 2 * 2 * len(data)
    alone = Calibration()
    for x in data:
        plain(alone, "x", x)
    assert result["x"] == alone["x"]
    bad = data[7].copy()
    bad[0, 0, 0, 0] = np.nan
    with pytest.raises(CalibrationError, match=r"^batch 7 of data \(data\): tensor 'x'"):
        count_in([*data[:7], bad, *data[8:]])

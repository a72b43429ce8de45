"""Runs side by side: results in the order of the runs, errors in their turn, few items read ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from intact import graph
from intact.ptq.evaluator import Evaluator
from intact.ptq.sample import Held
from intact.ptq.workers import WORKERS, in_order


def compute(seconds: float) -> None:
    """Take so much of this thread's time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_results_come_in_the_order_of_the_items() -> None:
    others = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            compute(0.02)  # items of that length are worth a thread
        elif item == 1 and WORKERS > 1:
            assert others.wait(600), "the third item runs while the second one does"
        elif item == 2:
            others.set()
        return item * item

    assert list(in_order(work, range(5))) == [0, 1, 4, 9, 16]
    assert list(in_order(work, [])) == []


@pytest.mark.parametrize("seconds", [0.0, 0.02])
def test_an_error_comes_in_its_turn(seconds: float) -> None:
    def work(item: int) -> int:
        compute(seconds)
        if item == 2:
            raise ValueError("two")
        return item

    found = in_order(work, range(5))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(found)


def test_no_more_is_read_than_is_under_way() -> None:
    read = []

    def items() -> Iterator[int]:
        for item in range(10):
            read.append(item)
            yield item

    def work(item: int) -> int:
        compute(0.02)
        return item

    found = in_order(work, items())
    next(found)
    assert len(read) == 1
    next(found)
    assert len(read) == 1 + WORKERS + 1
    assert len(list(found)) == 8


def test_a_configuration_measured_in_two_rounds_has_the_same_error(
    cnn: onnx.ModelProto, images: np.ndarray
) -> None:
    model = graph.load(cnn)
    graph.settle(model)
    session = graph.Session(model)
    runs = [Held(bytes([i]), {"x": x[None]}, session.run({"x": x[None]})) for i, x in enumerate(images[:12])]
    weights = model.graph.initializers["b4"].const_value.numpy()
    candidates = {str(i): {"b4": (weights + 0.1 * i).astype(np.float32)} for i in (3, 1, 2, 4)}
    evaluator = Evaluator(model, runs, ["b4"])
    chosen, errors = evaluator.best(candidates)
    assert chosen == "1" and errors["1"] == evaluator.errors(candidates["1"])
    assert errors["2"] == evaluator.errors(candidates["2"]) and errors["4"] != evaluator.errors(
        candidates["4"]
    )

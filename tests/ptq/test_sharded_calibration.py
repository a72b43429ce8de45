"""Runs that are kept, whoever saw them, and models on their way to other processes."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from intact import graph
from intact.graph import PicklableModel
from intact.ptq.measure.holdout_samples import HoldoutSet
from intact.ptq.measure.sharded_calibration import MOST_BYTES, MOST_RUNS, parts_of


def runs(sizes: list[int]) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    return [{"x": rng.standard_normal(size).astype(np.float32)} for size in sizes]


def digests(sample: HoldoutSet) -> list[bytes]:
    return [run.digest for run in sample.runs]


def holdout_set(feeds: list[dict[str, np.ndarray]]) -> HoldoutSet:
    sample = HoldoutSet()
    for feed in feeds:
        sample.offer(feed, {"y": feed["x"][:1]})
    return sample


@pytest.mark.parametrize(
    "sizes",
    [
        [10] * 200,
        [2**18] * 24,
        [*[10] * 30, *[2**19] * 6, *[3] * 30],
        [2**19, *[7] * 90, 2**19, 2**20],
        [5] * 3,
    ],
)
def test_the_runs_that_are_kept_do_not_depend_on_who_saw_them_when(sizes: list[int]) -> None:
    feeds = runs(sizes)
    want = digests(holdout_set(feeds))
    assert want == sorted(want)
    rng = np.random.default_rng(1)
    for parts in (1, 2, 3, 7):
        order = rng.permutation(len(feeds))
        merged = HoldoutSet()
        for part in np.array_split(order, parts):
            merged.merge(holdout_set([feeds[i] for i in part]))
        assert digests(merged) == want


def test_equal_runs_are_kept_as_often_as_they_came() -> None:
    feeds = runs([4, 4, 4]) * 3
    merged = holdout_set(feeds[:4])
    merged.merge(holdout_set(feeds[4:]))
    assert digests(merged) == digests(holdout_set(feeds)) and len(merged.runs) == 9


def test_parts_hold_so_many_runs_or_so_many_bytes() -> None:
    few = list(enumerate(runs([3] * (2 * MOST_RUNS + 1))))
    parts = list(parts_of(few))
    assert [len(part) for part in parts] == [MOST_RUNS, MOST_RUNS, 1]
    assert list(itertools.chain(*parts)) == few
    large = [(0, {"x": np.zeros(MOST_BYTES // 2, np.uint8)})] * 5
    assert [len(part) for part in parts_of(large)] == [2, 2, 1]


def test_a_model_arrives_as_it_was_sent(cnn) -> None:
    model = graph.load(cnn)
    arrived = pickle.loads(pickle.dumps(PicklableModel(model))).model
    assert graph.to_proto(arrived).SerializeToString() == graph.to_proto(model).SerializeToString()
    shapes = [[value.shape for node in item.graph for value in node.outputs] for item in (model, arrived)]
    assert shapes[0] == shapes[1]

"""The collector of cycles looks at new objects alone while a graph is worked on."""

from __future__ import annotations

import gc

import pytest

from intact.free_memory import gc_frozen


def test_what_was_there_is_left_alone_and_comes_back() -> None:
    before = gc.get_freeze_count()
    assert before == 0, "nobody else keeps objects from the collector in these tests"
    with pytest.raises(KeyError), gc_frozen():
        assert gc.get_freeze_count() > 1000
        with gc_frozen():
            pass
        assert gc.get_freeze_count() > 1000, "the inner one leaves the outer one's alone"
        circle: list[object] = []
        circle.append(circle)
        del circle
        assert gc.collect() > 0, "new circles are found"
        raise KeyError
    assert gc.get_freeze_count() == 0


def test_the_collector_runs_rarely_inside_and_as_before_behind() -> None:
    before = gc.get_threshold()
    with gc_frozen():
        assert gc.get_threshold()[0] >= 50_000
        assert gc.get_threshold()[1:] == before[1:]
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with gc_frozen():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)

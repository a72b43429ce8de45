"""A run that another thread cancels, and sessions that two threads use at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.capi.library import CError, CPlan
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq

from intact.engine.compare.c_interface import BAD_ARGUMENT, CANCELLED
from intact.engine.lower import lower

MOST_RUNS = 5000
"""Of several milliseconds each, in which something must happen."""


@pytest.fixture
def slow_plan(c_library, tmp_path):
    """A plan of several milliseconds a run, its inputs, and the engine's outputs."""
    net = Qdq()
    y = net.pair(net.node("Relu", net.conv(net.pair(net.input("x", ("n", 3, 64, 64))), 3, 32)))
    for _ in range(4):
        y = net.pair(net.node("Relu", net.conv(y, 32, 32)))
    engine = save_plan(lower(net.proto(y)), tmp_path / "plan")
    feeds = {"x": net.rng.standard_normal((8, 3, 64, 64)).astype(np.float32)}
    return CPlan(c_library, tmp_path / "plan"), feeds, engine.run(feeds)


def errors_beside(plan, feeds, beside):
    """Return the errors of runs in a thread of their own, while `beside()` is called again and again here."""
    errors = []

    def run():
        for _ in range(MOST_RUNS):
            try:
                plan.run(feeds)
            except CError as error:
                errors.append(error)
                return

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        beside()
        thread.join(0.0005)
    return errors


def test_a_cancelled_run_stops_and_the_next_one_works(slow_plan):
    plan, feeds, want = slow_plan
    for _ in range(3):
        (error,) = errors_beside(plan, feeds, plan.cancel)
        assert error.status == CANCELLED
        got = plan.run(feeds)
        assert all(np.array_equal(got[name], want[name]) for name in want)


def test_a_session_that_runs_nothing_is_not_cancelled(slow_plan):
    plan, feeds, want = slow_plan
    plan.cancel()
    got = plan.run(feeds)
    assert all(np.array_equal(got[name], want[name]) for name in want)
    plan._library.intact_cancel(None)


def test_a_session_that_another_thread_uses_is_refused(slow_plan):
    plan, feeds, want = slow_plan
    refused = []

    def beside():
        try:
            plan.run(feeds)
        except CError as error:
            refused.append(error)

    errors = errors_beside(plan, feeds, beside)
    refused += errors
    assert {error.status for error in refused} == {BAD_ARGUMENT}
    assert "another thread uses the session" in str(refused[0])
    got = plan.run(feeds)
    assert all(np.array_equal(got[name], want[name]) for name in want)

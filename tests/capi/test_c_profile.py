"""Profiles of runs of the C library: seconds of every native step."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest
from tests.capi.library import CError, CPlan
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq

from intact.engine.compare.c_interface import BAD_ARGUMENT, NOT_PREPARED, CStep
from intact.engine.lower import lower


@pytest.fixture
def plan_file(tmp_path):
    net = Qdq()
    y = net.pair(net.node("Relu", net.conv(net.pair(net.input("x", ("n", 3, 24, 24))), 3, 16)))
    pooled = net.pair(net.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    plan = lower(net.proto(net.quantize(pooled)))
    save_plan(plan, tmp_path / "plan")
    return plan, tmp_path / "plan"


@pytest.mark.parametrize("n", [1, 16])
def test_every_step_of_the_plan_is_timed_by_name(plan_file, c_library, n):
    plan, path = plan_file
    opened = CPlan(c_library, path)
    rows = opened.profile({"x": np.zeros((n, 3, 24, 24), np.float32)})
    kinds = {name: kind for name, kind, *_ in rows}
    kernels = {name: kernel for name, _, kernel, _ in rows}
    assert {step.name: step.kind for step in plan.steps}.items() <= kinds.items()
    assert kinds[plan.outputs[0]] == "output"
    (conv,) = [step.name for step in plan.steps if step.kind == "conv"]
    assert kernels[conv] and kernels[conv] != "native"
    assert all(seconds >= 0 for *_, seconds in rows) and sum(seconds for *_, seconds in rows) > 0


def test_a_profiled_run_has_the_outputs_of_any_other(plan_file, c_library):
    opened = CPlan(c_library, plan_file[1])
    x = np.random.default_rng(0).standard_normal((2, 3, 24, 24)).astype(np.float32)
    (want,) = opened.run({"x": x}).values()
    got = np.zeros_like(want)
    count = opened._library.intact_step_count(opened._session)
    pointers = [(c.c_void_p * 1)(array.ctypes.data) for array in (x, got)]
    opened.call("profile", opened._session, *pointers, (c.c_double * count)(), count)
    np.testing.assert_array_equal(got, want)


def test_what_does_not_fit_is_refused(plan_file, c_library):
    opened = CPlan(c_library, plan_file[1])
    step, library = CStep(c.sizeof(CStep)), opened._library
    assert library.intact_step_count(opened._session) == library.intact_step_count(None) == 0
    for call, arguments in (("step_at", (0, c.byref(step))), ("profile", (None, None, None, 0))):
        with pytest.raises(CError, match="not prepared") as caught:
            opened.call(call, opened._session, *arguments)
        assert caught.value.status == NOT_PREPARED
    opened.prepare([(1, 3, 24, 24)])
    count, seconds = library.intact_step_count(opened._session), (c.c_double * 99)()
    for arguments in (
        ("step_at", opened._session, count, c.byref(step)),
        ("step_at", opened._session, 0, None),
        ("step_at", opened._session, 0, c.byref(CStep(c.sizeof(CStep) + 8))),
        ("step_at", None, 0, c.byref(step)),
        ("profile", None, None, None, seconds, count),
        ("profile", opened._session, None, None, seconds, count + 1),
        ("profile", opened._session, None, None, None, count),
        ("profile", opened._session, None, None, seconds, count),
    ):
        with pytest.raises(CError) as caught:
            opened.call(*arguments)
        assert caught.value.status == BAD_ARGUMENT

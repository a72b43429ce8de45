"""The seam between plans and what runs them: the reference is a backend like any other."""

import numpy as np
import pytest

import intact
from intact.engine.backends import BACKENDS
from intact.engine.reference import ReferenceBackend, evaluate
from intact.errors import QuantValueError


@pytest.fixture
def net(qdq):
    net = qdq()
    x = net.pair(net.input("x", ("n", 4, 6, 6)))
    y = net.pair(net.node("Relu", net.conv(x, 4, 8)))
    net.node("Erf", net.node("Flatten", net.node("GlobalAveragePool", y)), name="out")
    return net


@pytest.fixture
def model(net):
    return net.proto("out")


@pytest.fixture
def draw_input(net):
    return lambda shape: net.feeds({"n": shape[0]})["x"]


def test_every_backend_gives_the_same_codes_and_floats(model, draw_input):
    engines = {name: intact.compile(model, threads=1, backend=name) for name in BACKENDS}
    assert {"cpu", "reference"} <= set(engines)
    for batch in (1, 3):
        x = draw_input((batch, 4, 6, 6))
        want = evaluate(engines["cpu"].plan, {"x": x})
        for engine in engines.values():
            (out,) = engine.plan.outputs
            assert np.array_equal(engine(x), want[out])
            assert engine.prepare({"x": x.shape}).shapes[out] == want[out].shape
            tapped = engine.tap({"x": x})
            assert tapped.keys() >= set(want)
            assert all(np.array_equal(tapped[name], array) for name, array in want.items())


def test_every_backend_says_where_its_time_goes(model, draw_input):
    for name in BACKENDS:
        engine = intact.compile(model, threads=1, backend=name)
        timings = engine.profile({"x": draw_input((2, 4, 6, 6))}, runs=2).timings
        steps = [t for t in timings if t.kind != "copy"]
        assert [t.name for t in steps] == [step.name for step in engine.plan.steps]
        (conv,) = [t for t in steps if t.kind == "conv"]
        assert conv.macs == 2 * 6 * 6 * 8 * 4 * 9


def test_a_plan_saved_under_one_backend_runs_under_another(model, draw_input, tmp_path):
    x, path = draw_input((1, 4, 6, 6)), tmp_path / "m.plan"
    intact.compile(model, backend="reference").save(path)
    assert np.array_equal(intact.load(path)(x), intact.load(path, backend="reference")(x))


def test_a_backend_may_be_given_as_what_makes_it(model, draw_input):
    allocations = []

    def make(options):
        allocations.append(options)
        return ReferenceBackend(options)

    x = draw_input((1, 4, 6, 6))
    assert np.array_equal(intact.compile(model, backend=make)(x), intact.compile(model)(x))
    assert len(allocations) == 1


def test_a_backend_that_nobody_has_is_named(model):
    with pytest.raises(QuantValueError, match="'gpu', want 'cpu' or 'reference'"):
        intact.compile(model, backend="gpu")

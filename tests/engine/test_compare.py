"""Counting what differs between the ways to run one model."""

import numpy as np
import pytest

import intact
from intact.engine import Engine
from intact.engine.compare import compare
from intact.engine.compare.comparison_counts import Counts, Distance
from intact.graph import load


@pytest.fixture
def model(qdq):
    net = qdq()
    x = net.pair(net.input("x", ("n", 3, 8, 8)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 8), name="relu"))
    flat = net.node("Flatten", net.pair(net.node("GlobalAveragePool", y)))
    net.node("Gemm", flat, net.weight(10, 8), transB=1, name="logits")
    return net.proto("logits").SerializeToString()


@pytest.fixture
def batches(rng):
    return [{"x": rng.standard_normal((3, 3, 8, 8)).astype(np.float32)} for _ in range(3)]


class Wrong(Engine):
    """An engine that errs in one code of one tensor, and in its answers."""

    def tap(self, inputs):
        outputs = super().tap(inputs)
        outputs["relu"] = outputs["relu"].copy()
        outputs["relu"].flat[0] ^= 1
        return outputs

    def run(self, inputs, out=None):
        return {"logits": -super().run(inputs)["logits"]}


def test_equal_arrays_and_others_are_counted():
    counts = Counts()
    counts.add(np.array([1, 2, 3]), np.array([1, 2, 5]))
    counts.add(np.array([np.nan, np.inf]), np.array([np.nan, 1.0]))
    assert (counts.compared, counts.differing, counts.largest) == (5, 2, np.inf)


def test_the_engine_is_the_reference(model, batches):
    comparison = compare(load(model), intact.compile(model), batches, traced=2)
    assert comparison.exact and comparison.first("engine") is None
    assert (comparison.samples, comparison.traced) == (9, 6)
    assert comparison.total("engine").compared == comparison.total("file").compared == 6 * (192 + 512 + 8 + 8)
    assert {side: (c.compared, c.differing) for side, c in comparison.answers.items()} == {
        "reference": (6, 0), "file": (9, 0)
    }  # fmt: skip


def test_a_wrong_code_is_found_in_its_layer(model, batches):
    engine = Wrong(intact.compile(model).plan, threads=1)
    comparison = compare(load(model), engine, batches, traced=1)
    first = comparison.first("engine")
    assert not comparison.exact and first is not None
    assert (first.tensor, first.engine.differing, first.engine.largest) == ("relu", 1, 1.0)
    assert comparison.total("engine").differing == 1
    assert comparison.answers["file"].differing == 6, "those of the batches that were not traced"


def test_distances_of_outputs_are_counted_end_to_end():
    distance = Distance()
    distance.add(np.array([3.0, 4.0, np.inf]), np.array([3.0, 4.0, np.inf]))
    assert distance.decibels == np.inf and (distance.compared, distance.differing) == (3, 0)
    distance.add(np.array([5.0, np.nan]), np.array([6.0, 1.0]))
    assert (distance.signal, distance.noise, distance.differing) == (50.0, 1.0, 2)
    assert distance.decibels == pytest.approx(16.9897, abs=1e-4)


def test_outputs_of_a_wrong_engine_are_far_from_the_files(model, batches):
    comparison = compare(load(model), Wrong(intact.compile(model).plan, threads=1), batches, traced=1)
    assert comparison.outputs["reference"].differing == 0, "of the traced batch, where no run answers"
    energy = [float((intact.compile(model).run(feeds)["logits"] ** 2).sum()) for feeds in batches]
    wanted = 10 * np.log10(sum(energy) / (4 * sum(energy[1:])))
    assert comparison.outputs["file"].decibels == pytest.approx(wanted, abs=1e-3), (
        "all signs are wrong in two"
    )


def test_the_first_tensor_where_the_file_leaves_may_hold_floats(qdq, rng):
    net = qdq()
    x = net.pair(net.input("x", (64, 32)))
    norm = net.node("LayerNormalization", x, net.floats(32), name="norm")
    net.node("MatMul", net.pair(norm, 0.02), net.weight(32, 8, axis=1), name="y")
    model = net.proto("y", "norm").SerializeToString()
    feeds = {"x": rng.standard_normal((64, 32)).astype(np.float32)}
    comparison = compare(load(model), intact.compile(model, threads=1), [feeds])
    first = comparison.first("file", floats=True)
    assert first is not None and first.tensor == "norm" and first.file.largest < 1e-5
    assert comparison.float_steps == {"LayerNormalization": 1} and comparison.parts == ()


class Turned:
    """A module whose answers are the engine's, turned round."""

    pairs = ()

    def __init__(self, engine):
        self.engine = engine

    def __call__(self, feeds):
        return [-self.engine.run(feeds)["logits"]]

    def trace(self, feeds, tapped_values=None):
        return self(feeds), []


@pytest.mark.parametrize("traced", [0, 1])
def test_a_module_joins_in(model, batches, traced):
    engine = intact.compile(model)
    comparison = compare(load(model), engine, batches, traced=traced, module=Turned(engine))
    assert (comparison.answers["module"].compared, comparison.answers["module"].differing) == (9, 9)
    assert (
        comparison.total("module").compared == 0
        and comparison.departing is None
        and comparison.unmatched == ()
    )


def test_without_tracing_the_outputs_alone_are_compared(model, batches):
    comparison = compare(load(model), intact.compile(model), batches, traced=0)
    assert comparison.exact and comparison.total("engine").compared == 0
    assert set(comparison.answers) == {"file"} and comparison.answers["file"].compared == 9


def test_rows_that_attend_to_nothing_are_compared(qdq, rng):
    net = qdq()
    hidden = np.zeros((8, 8), np.float32)
    hidden[3] = -np.inf
    scores = net.node("Add", net.pair(net.input("x", (8, 8))), net.constant(hidden))
    soft = net.node("Softmax", scores, name="soft")
    guarded = net.node("Where", net.node("IsNaN", soft), net.constant(np.float32(0)), soft, name="guarded")
    shares = net.pair(guarded, 1 / 256, 0, "uint8")
    net.node("MatMul", shares, net.weight(8, 8, axis=1), name="y")
    model = net.proto("y").SerializeToString()
    feeds = {"x": rng.standard_normal((8, 8)).astype(np.float32)}
    comparison = compare(load(model), intact.compile(model, threads=1), [feeds])
    assert comparison.exact and comparison.total("file").compared == 64 + 64
    assert comparison.outputs["file"].compared == 64

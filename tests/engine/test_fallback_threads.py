"""Parts of a plan in ONNX Runtime: their threads, their last bits, and what `verify` says of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import intact
from intact.engine.compare import compare
from intact.engine.reference import evaluate
from intact.engine.steps import FallbackSubgraph
from intact.graph import load

MODEL = """<ir_version: 8, opset_import: ["" : 18]>
net (float[n,26,27,21] x) => (float[n,26,27,21] y) <float s = {0.031}, int8 z = {0}> {
  q = QuantizeLinear(x, s, z)
  d = DequantizeLinear(q, s, z)
  m = LpNormalization(d)
  e = Elu(m)
  qe = QuantizeLinear(e, s, z)
  y = DequantizeLinear(qe, s, z)
}"""


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL)


@pytest.fixture
def feeds(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"x": rng.normal(0, 2, (2, 26, 27, 21)).astype(np.float32)}


def subgraph(engine: intact.engine.Engine) -> FallbackSubgraph:
    (fallback,) = (step for step in engine.plan.steps if isinstance(step, FallbackSubgraph))
    return fallback


def fallback(monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, **options: object) -> list[int]:
    """The threads of the sessions that an engine makes."""
    import intact.graph

    thread_counts, session = list[int](), intact.graph.Session

    def note_threads(*args: object, threads: int = 0, **named: object) -> object:
        thread_counts.append(threads)
        return session(*args, threads=threads, **named)

    engine = intact.compile(model, **options)
    assert subgraph(engine)
    monkeypatch.setattr(intact.graph, "Session", note_threads)
    engine(np.zeros((1, 26, 27, 21), np.float32))
    monkeypatch.undo()
    return thread_counts


def test_one_thread_for_fallback_parts_where_the_same_bits_are_asked_for(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime cuts a tensor between threads, and at the cuts other instructions give other last bits."""
    assert fallback(monkeypatch, model, threads=3) == [3]
    assert fallback(monkeypatch, model, threads=3, deterministic=True) == [1]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_is_the_reference(
    threads: int, model: onnx.ModelProto, feeds: dict[str, np.ndarray]
) -> None:
    """The attack: on two threads 28 of 29,484 numbers were others, and `verify` failed a sound engine."""
    engine = intact.compile(model, threads=threads, deterministic=True)
    comparison = compare(load(model), engine, [feeds], threads=threads)
    assert comparison.exact and comparison.traced
    reference = evaluate(engine.plan, feeds)
    for name, output in engine.tap(feeds).items():
        np.testing.assert_array_equal(output, reference[name], err_msg=name)


def test_what_follows_a_fallback_part_is_compared_though_its_own_bits_are_free(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another last bit of the part is no fault of the engine; a wrong code behind the part is one."""
    engine = intact.compile(model, threads=1)
    plan = engine.plan_for({name: array.shape for name, array in feeds.items()})
    run = engine.backend._fallback_of(plan)._run
    monkeypatch.setattr(
        engine.backend._fallback_of(plan), "_run",
        lambda step, at: {n: np.nextafter(a, np.float32(9)) for n, a in run(step, at).items()},
    )  # fmt: skip
    assert compare(load(model), engine, [feeds]).exact
    monkeypatch.setattr(engine, "deterministic", True)
    assert not compare(load(model), engine, [feeds]).exact
    monkeypatch.setattr(engine, "deterministic", False)
    tap, (fallback_output,) = engine.tap, subgraph(engine).ys

    def wrong(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        tensors = dict(tap(inputs))
        last = list(tensors)[-1]
        assert last != fallback_output
        tensors[last] = tensors[last] + 1
        return tensors

    monkeypatch.setattr(engine, "tap", wrong)
    assert not compare(load(model), engine, [feeds]).exact

"""Weights that several layers read are once in a plan, in its file and in memory, raw and packed."""

from __future__ import annotations

import numpy as np
import pytest

import intact
from intact.engine.engine import Engine
from intact.engine.lower import lower


def int8_constant(g, shape):
    parameters = [g.constant(g.rng.integers(-127, 128, shape).astype(np.int8)), g.constant(np.float32(0.002))]
    return g.node("DequantizeLinear", *parameters)


LAYERS = {
    "MatMul": ([2, 5, 64], (64, 64), {}, True),
    "Conv": ([1, 32, 6, 6], (32, 32, 3, 3), {"pads": [1] * 4}, True),
    "ConvTranspose": ([1, 32, 6, 6], (32, 32, 3, 3), {"pads": [1] * 4}, True),
    "Conv in float": ([1, 32, 6, 6], (32, 32, 3, 3), {"pads": [1] * 4}, False),
    "MatMul in float": ([2, 5, 64], (64, 64), {}, False),
}


def chain(qdq, name, uses):
    shape, weight, attributes, quantized = LAYERS[name]
    g = qdq()
    x = g.input("x", shape)
    w = int8_constant(g, weight) if quantized else g.floats(*weight, spread=0.05)
    for _ in range(uses):
        x = g.node(name.split()[0], g.pair(x) if quantized else x, w, **attributes)
    return g, g.proto(x)


@pytest.mark.parametrize("name", LAYERS)
def test_a_plan_of_many_uses_is_about_as_large_as_of_one(qdq, name, tmp_path):
    sizes = {}
    for uses in (1, 8):
        g, proto = chain(qdq, name, uses)
        engine = Engine(lower(proto), threads=1)
        engine.run(g.feeds())
        engine.save(tmp_path / "one.plan")
        sizes[uses] = [
            sum(array.nbytes for array in engine.plan.constants.values()),
            sum(array.nbytes for array in engine.packed_weights.values()),
            (tmp_path / "one.plan").stat().st_size,
        ]
    assert all(many < 1.7 * single for single, many in zip(sizes[1], sizes[8], strict=True)), sizes


@pytest.mark.parametrize("name", LAYERS)
def test_engines_and_files_with_shared_weights_compute_the_same(qdq, lower_graph, name, tmp_path):
    g, proto = chain(qdq, name, 4)
    lowered = lower_graph(g, proto.graph.output[0].name).exact()
    Engine(lowered.plan, threads=1).save(tmp_path / "one.plan")
    again = intact.load(tmp_path / "one.plan").run(lowered.feeds)
    for output, want in lowered.expected.items():
        np.testing.assert_allclose(again[output], want, rtol=1e-3, atol=0.3)
        np.testing.assert_array_equal(
            again[output], Engine(lowered.plan, threads=1).run(lowered.feeds)[output]
        )


def test_other_strides_and_groups_share_no_packed_form(qdq, lower_graph):
    g = qdq()
    x, w = g.pair(g.input("x", [1, 32, 8, 8])), int8_constant(g, (32, 16, 3, 3))
    wide = g.pair(g.input("z", [1, 16, 8, 8]))
    ys = [
        g.node("Conv", x, w, pads=[1] * 4, group=2), g.node("Conv", x, w, strides=[2, 2], group=2),
        g.node("Conv", wide, w, dilations=[2, 2]), g.node("Conv", wide, w, strides=[2, 1]),
    ]  # fmt: skip
    lowered = lower_graph(g, *ys).exact()
    assert len({step.weight for step in lowered.plan.steps if step.kind == "conv"}) == 1

"""LinearAttention over a state: the step's bits are those of its formula, in chunks, batches and threads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model
from tests.runtime_operators import need_runtime_operator

import intact
from intact import graph, numerics
from intact.graph.ops import MICROSOFT

ORDER = ("q", "k", "v", "past", "decay", "beta")


def model(
    heads=4, kv_heads=2, size=8, value_size=16, rule="gated_delta", columns=1, domain=MICROSOFT, **more
):
    """Build one node whose decays have `columns` numbers for each head of keys."""
    present = {"q", "k", "v", "past"} | ({"decay"} if "gated" in rule else set())
    present |= {"beta"} if "delta" in rule else set()
    node = helper.make_node(
        "LinearAttention", [name if name in present else "" for name in ORDER], ["y", "state"], "attention",
        domain=domain, q_num_heads=heads, kv_num_heads=kv_heads, update_rule=rule, **more,
    )  # fmt: skip
    widths = {
        "q": heads * size, "k": kv_heads * size, "v": kv_heads * value_size, "decay": kv_heads * columns,
        "beta": kv_heads,
    }  # fmt: skip
    inputs = {name: ["batch", "tokens", width] for name, width in widths.items() if name in present}
    inputs["past"] = ["batch", kv_heads, size, value_size]
    outputs = {"y": None, "state": ["batch", kv_heads, size, value_size]}
    return onnx_model([node], inputs, outputs, {}, opset=27 if not domain else 21, domains={MICROSOFT: 1})


def feeds(proto, tokens, batch=1, seed=0):
    rng, sizes, arrays = np.random.default_rng(seed), {"batch": batch, "tokens": tokens}, {}
    for value in proto.graph.input:
        dims = [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        arrays[value.name] = np.float32(rng.normal(size=dims))
    arrays["k"] /= 3
    if "decay" in arrays:
        arrays["decay"] = -np.abs(arrays["decay"])
    if "beta" in arrays:
        arrays["beta"] = 1 / (1 + np.exp(-arrays["beta"]))
    return arrays


CASES = {
    "gated delta": ({}, 7, 1),
    "delta, wide values": ({"rule": "delta", "value_size": 150}, 5, 2),
    "gated, a head each": ({"rule": "gated", "kv_heads": 4, "scale": 1.0}, 6, 1),
    "gated by row": ({"rule": "gated", "columns": 8}, 4, 3),
    "linear": ({"rule": "linear", "value_size": 5}, 3, 1),
    "one token": ({"size": 24, "value_size": 64}, 1, 3),
    "odd sizes": ({"heads": 9, "kv_heads": 3, "size": 5, "value_size": 7, "columns": 5}, 9, 2),
}


@pytest.mark.rule("N76")
@pytest.mark.parametrize("case", CASES)
def test_engine_equals_reference_and_onnx_runtime(case):
    options, tokens, batch = CASES[case]
    proto = model(**options)
    arrays = feeds(proto, tokens, batch)
    wanted = intact.compile(proto, backend="reference").run(arrays)
    for threads in (1, 2):
        engine = intact.compile(proto, threads=threads)
        assert all(step.native for step in engine.plan.steps)
        results = engine.run(arrays)
        for name, array in wanted.items():
            assert results[name].tobytes() == array.tobytes(), name
    need_runtime_operator("LinearAttention")
    other = graph.Session(graph.load(proto)).run(arrays)
    for name, array in wanted.items():
        np.testing.assert_allclose(array, other[name], rtol=0, atol=2e-5)


@pytest.mark.parametrize("rule", ["gated_delta", "gated", "delta", "linear"])
def test_chunks_and_batches_change_no_bit_and_states_are_written_in_place(rule):
    proto = model(rule=rule)
    arrays, engine = feeds(proto, 9, 2), intact.compile(proto)
    whole = engine.run(arrays)
    for sequence in range(2):
        state, rows = arrays["past"][sequence : sequence + 1].copy(), []
        for begin, end in ((0, 1), (1, 6), (6, 9)):
            part = {
                name: array[sequence : sequence + 1, begin:end]
                for name, array in arrays.items() if name != "past"
            }  # fmt: skip
            rows.append(engine.run(part | {"past": state}, {"state": state})["y"])
        assert np.concatenate(rows, 1).tobytes() == whole["y"][sequence].tobytes()
        assert state.tobytes() == whole["state"][sequence].tobytes()


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 27, reason="the installed onnx is older than opset 27")
def test_the_operator_of_onnx_is_the_same_step():
    ours, theirs = model(), model(domain="")
    arrays = feeds(ours, 4)
    results = intact.compile(theirs).run(arrays)
    for name, array in intact.compile(ours).run(arrays).items():
        assert results[name].tobytes() == array.tobytes()


def test_a_factor_for_each_element_of_the_state():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 1, 3, 1, 4)).astype(np.float32)
    v = rng.normal(size=(1, 3, 1, 6)).astype(np.float32)
    decay = rng.uniform(size=(1, 3, 1, 24)).astype(np.float32)
    y, state = numerics.linear_attention(q, k, v, decay=decay)
    expected = np.zeros((4, 6))
    for token in range(3):
        expected = expected * decay[0, token, 0].reshape(4, 6) + np.outer(k[0, token, 0], v[0, token, 0])
        np.testing.assert_allclose(y[0, token, 0], q[0, token, 0] @ expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state[0, 0], expected, rtol=1e-5, atol=1e-6)

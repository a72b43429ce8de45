"""CausalConvWithState: the step's bits are those of its formula, in chunks, batches and threads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model
from tests.runtime_operators import need_runtime_operator

import intact
from intact import graph
from intact.graph.ops import MICROSOFT


def model(columns=6, taps=4, bias=True, past=True, turned=False, activation="none", domain=MICROSOFT):
    """Build one node; `turned`: between Transposes, as decoders that hold tokens as rows have it."""
    rng = np.random.default_rng(5)
    arrays = {"w": np.float32(rng.normal(size=(columns, 1, taps)))}
    arrays |= {"b": np.float32(rng.normal(size=columns))} if bias else {}
    names = ["x.turned" if turned else "x", "w", "b" if bias else "", "past" if past else ""]
    outputs = ["y.turned" if turned else "y", "state"]
    nodes = [
        helper.make_node("CausalConvWithState", names, outputs, "conv", domain=domain, activation=activation)
    ]
    if turned:
        turn = {"perm": [0, 2, 1]}
        nodes.insert(0, helper.make_node("Transpose", ["x"], ["x.turned"], "before", **turn))
        nodes.append(helper.make_node("Transpose", ["y.turned"], ["y"], "behind", **turn))
    inputs = {"x": ["batch", "tokens", columns] if turned else ["batch", columns, "tokens"]}
    inputs |= {"past": ["batch", columns, taps - 1]} if past else {}
    state = {"state": ["batch", columns, taps - 1]}
    return onnx_model(nodes, inputs, {"y": None, **state}, arrays, opset=27 if not domain else 21,
                      domains={MICROSOFT: 1})  # fmt: skip


def feeds(proto, tokens, batch=1):
    rng, sizes, arrays = np.random.default_rng(0), {"batch": batch, "tokens": tokens}, {}
    for value in proto.graph.input:
        dims = [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        arrays[value.name] = np.float32(rng.normal(size=dims))
    return arrays


CASES = {
    "a prompt": ({}, 9, 1),
    "one token": ({"columns": 1100}, 1, 3),
    "fewer tokens than taps": ({"taps": 7, "bias": False}, 3, 2),
    "nothing before": ({"past": False}, 70, 1),
    "rows of tokens": ({"turned": True, "columns": 2050, "taps": 3}, 130, 2),
    "silu": ({"activation": "silu"}, 5, 1),
    "two taps": ({"taps": 2}, 5, 1),
}


@pytest.mark.rule("N77")
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
    need_runtime_operator("CausalConvWithState")
    other = graph.Session(graph.load(proto)).run(arrays)
    for name, array in wanted.items():
        np.testing.assert_allclose(array, other[name], rtol=0, atol=1e-5)


def test_transposes_around_it_fall_away():
    kinds = [step.kind for step in intact.compile(model(turned=True, past=False)).plan.steps]
    assert kinds.count("transpose") == 1, "that of the state, which is an output"


def test_chunks_change_no_bit_and_states_are_written_in_place():
    proto = model(columns=5)
    arrays, engine = feeds(proto, 11), intact.compile(proto)
    whole, state, parts = engine.run(arrays), arrays["past"].copy(), []
    for begin, end in ((0, 1), (1, 3), (3, 9), (9, 11)):
        parts.append(engine.run({"x": arrays["x"][..., begin:end], "past": state}, {"state": state})["y"])
    assert np.concatenate(parts, 2).tobytes() == whole["y"].tobytes()
    assert state.tobytes() == whole["state"].tobytes()


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 27, reason="the installed onnx is older than opset 27")
def test_the_operator_of_onnx_is_the_same_step():
    arrays = feeds(model(), 4)
    results = intact.compile(model(domain="")).run(arrays)
    for name, array in intact.compile(model()).run(arrays).items():
        assert results[name].tobytes() == array.tobytes()

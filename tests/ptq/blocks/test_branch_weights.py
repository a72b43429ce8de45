"""Weights in branches of an If: found, quantized once where branches share them, by the branch that ran."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tests.onnx_models import onnx_graph, onnx_model

import intact
from intact import graph
from intact.cli.verbs.explain import plan_for_each_branch
from intact.engine.steps import FallbackSubgraph
from intact.errors import CalibrationError, QuantValueError
from intact.graph import Session
from intact.ptq.blocks import quantize_weights

SIZE = 64


def weight(n: int, k: int, seed: int) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal((n, k)) / np.sqrt(k)).astype(np.float32)


WEIGHTS = {"q": weight(SIZE, SIZE, 0), "k": weight(SIZE, SIZE, 1), "down": weight(SIZE, SIZE, 2)}
CROSS = weight(SIZE, SIZE, 3)


def body(swap: bool = False) -> list[onnx.NodeProto]:
    """Return a layer as a decoder has it; the other branch has it with the same names."""
    first, second = ("k", "q") if swap else ("q", "k")
    return [
        helper.make_node("MatMul", ["h", first], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", second], ["c"], "second"),
        helper.make_node("Add", ["c", "h"], ["d"]),
        helper.make_node("MatMul", ["d", "down"], ["e"], "third"),
    ]


def decoder(stored: str = "once", *, swap: bool = False, repeat: bool = False) -> onnx.ModelProto:
    """Return a decoder as `decoder_model_merged.onnx` has it: with and without a cache.

    Args:
        stored: Whether branches share weights of the main graph ("once"), or hold them ("twice").
        swap: Whether the second branch reads two of the matrices in the other order.
        repeat: Whether the main graph reads one of them, too.
    """
    inner = WEIGHTS if stored == "twice" else {}
    cached = onnx_graph(
        [helper.make_node("Identity", ["cache"], ["h"]), *body(swap)], (), {"e": ["n", SIZE]}, inner
    )
    plain = onnx_graph(
        [
            helper.make_node("MatMul", ["x", "cross"], ["g"], "cross"),
            helper.make_node("Tanh", ["g"], ["h"]),
            *body(),
        ],
        (), {"e": ["n", SIZE]}, {"cross": CROSS, **inner},
    )  # fmt: skip
    nodes = [helper.make_node("If", ["use_cache"], ["f"], "choice", then_branch=cached, else_branch=plain)]
    tail = ["down"] if repeat else ["x"]
    nodes.append(helper.make_node("MatMul" if repeat else "Add", ["f", *tail], ["y"], "tail"))
    inputs = {
        "x": ["n", SIZE], "cache": ["n", SIZE], "use_cache": (TensorProto.BOOL, [1])
    }  # fmt: skip
    model = onnx_model(nodes, inputs, {"y": ["n", SIZE]}, {} if inner else WEIGHTS)
    onnx.checker.check_model(model, full_check=True)
    return model


def feeds(use_cache: bool, seed: int = 0) -> dict[str, NDArray]:
    """Return inputs whose channels differ by branch."""
    rng = np.random.default_rng(seed)
    spread = np.exp(-np.arange(SIZE) / 8)
    spread = spread if use_cache else spread[::-1]
    x, cache = (rng.standard_normal((2, 8, SIZE)) * spread).astype(np.float32)
    return {"x": x, "cache": cache, "use_cache": np.array([use_cache])}


def run(model: onnx.ModelProto, inputs: dict[str, NDArray]) -> NDArray:
    return Session(model.SerializeToString()).run(inputs)["y"]


def error(quantized: onnx.ModelProto, use_cache: bool, model: onnx.ModelProto) -> float:
    squares = np.zeros(2)
    for seed in range(20, 28):
        inputs = feeds(use_cache, seed)
        want = run(model, inputs)
        squares += ((run(quantized, inputs) - want) ** 2).sum(), (want**2).sum()
    return float(squares[0] / squares[1])


def codes(model: graph.Model) -> int:
    """Return the bytes of all matrices of codes, wherever they are stored."""
    graphs = [model.graph, *model.graph.subgraphs()]
    tensors = [value.const_value for inner in graphs for value in inner.initializers.values()]
    return sum(t.nbytes for t in tensors if t is not None and len(t.shape) > 1 and t.dtype.itemsize <= 1)


OPTIONS = [
    {"weights": "int8"},
    {"weights": "int8", "activations": "dynamic-int8"},
    {"weights": "int5", "activations": "dynamic-int8", "operator": "BlockLinear"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["float", "dynamic", "own operator"])
@pytest.mark.parametrize("stored", ["once", "twice"])
def test_branches_share_codes(stored: str, options: dict[str, Any], tmp_path: Path) -> None:
    result = quantize_weights(decoder(stored), progress=False, **options)
    assert {layer.name: layer.twins for layer in result.layers} == {
        "choice.else_branch/cross": (),
        "choice.else_branch/first": ("choice.then_branch/first_1",),
        "choice.else_branch/second": ("choice.then_branch/second_1",),
        "choice.else_branch/third": ("choice.then_branch/third_1",),
    }
    assert codes(result.model) <= (1 if options["weights"] == "int8" else 5 / 8) * 4 * SIZE**2
    result.save(tmp_path / "model.onnx")
    engine = intact.compile(tmp_path / "model.onnx", threads=1)
    assert engine.plan.deciding == ("use_cache",)
    for use_cache in (True, False):
        inputs = feeds(use_cache)
        got, want = engine.run(inputs)["y"], run(decoder(stored), inputs)
        assert np.square(got - want).sum() < 3e-3 * np.square(want).sum()
        np.testing.assert_array_equal(got, intact.run_reference(tmp_path / "model.onnx", inputs)["y"])
        plan = engine.plan_for({name: array.shape for name, array in inputs.items()}, inputs)
        assert not any(isinstance(step, FallbackSubgraph) for step in plan.steps)


def test_codes_are_chosen_by_both_branches() -> None:
    model = decoder()
    data = [feeds(use_cache, seed) for seed, use_cache in product(range(8), (True, False))]
    nearest = quantize_weights(model, progress=False)
    for method in ("gptq", "auto"):
        result = quantize_weights(model, data, method=method, progress=False)
        assert not result.warnings
        for use_cache in (True, False):
            assert error(result.proto, use_cache, model) < 0.8 * error(nearest.proto, use_cache, model)


def test_branches_may_read_matrices_in_two_orders() -> None:
    """Codes of the second are chosen in the branch that comes to it first."""
    model = decoder(swap=True)
    data = [feeds(use_cache, seed) for seed, use_cache in product(range(8), (True, False))]
    nearest = quantize_weights(model, progress=False)
    result = quantize_weights(model, data, method="gptq", progress=False)
    assert not result.warnings and len(result.layers) == 4
    assert error(result.proto, True, model) < 0.8 * error(nearest.proto, True, model)
    assert error(result.proto, False, model) < 1.2 * error(nearest.proto, False, model)


def test_a_branch_that_no_batch_takes_has_the_nearest_codes() -> None:
    model = decoder()
    result = quantize_weights(model, [feeds(True, seed) for seed in range(8)], method="gptq", progress=False)
    (warning,) = result.warnings
    assert warning.startswith("choice.else_branch/cross: no batch of the data reaches it")
    assert warning in repr(result)
    nearest = quantize_weights(model, progress=False)
    assert error(result.proto, True, model) < 0.8 * error(nearest.proto, True, model)


def test_a_matrix_that_runs_twice_stays() -> None:
    result = quantize_weights(decoder(repeat=True), progress=False)
    reason = "other nodes read its weight, too"
    assert result.in_float == dict.fromkeys(
        ("choice.else_branch/third", "choice.then_branch/third_1", "tail"), reason
    )


def test_patterns_name_branches() -> None:
    result = quantize_weights(decoder("twice"), exclude=["choice.then_branch/*"], progress=False)
    assert [layer.name for layer in result.layers] == [
        "choice.else_branch/cross", "choice.else_branch/first", "choice.else_branch/second",
        "choice.else_branch/third",
    ]  # fmt: skip
    assert result.in_float["choice.then_branch/first_1"] == "excluded"
    with pytest.raises(QuantValueError, match="include"):
        quantize_weights(decoder(), include=["other.then_branch/*"], progress=False)


def test_a_budget_counts_shared_weights_once() -> None:
    data = [feeds(use_cache, seed) for seed, use_cache in product(range(4), (True, False))]
    result = quantize_weights(decoder(), data, bits_budget=6, progress=False)
    assert sorted(layer.format for layer in result.layers) == ["int4", "int4", "int4", "int8"]


def test_infinities_in_a_branch_name_it() -> None:
    inputs = feeds(True)
    inputs["cache"][0, 0] = np.inf
    with pytest.raises(CalibrationError, match=r"'h', input of 'choice\.then_branch/first_1'"):
        quantize_weights(decoder(), [inputs], method="gptq", progress=False)


def branch_within_branch(*, loop: bool) -> onnx.ModelProto:
    """Return an If within a branch, with a layer, and behind it a Loop with another."""
    layer = [helper.make_node("MatMul", ["x", "w"], ["p"], "inner")]
    then = onnx_graph(layer, (), {"p": ["n", SIZE]})
    other = onnx_graph([helper.make_node("Neg", ["x"], ["p"])], (), {"p": ["n", SIZE]})
    outer = onnx_graph(
        [helper.make_node("If", ["deep"], ["o"], "within", then_branch=then, else_branch=other)],
        (), {"o": ["n", SIZE]},
    )  # fmt: skip
    flat = onnx_graph([helper.make_node("MatMul", ["x", "w"], ["o"], "flat")], (), {"o": ["n", SIZE]})
    turn = onnx_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("MatMul", ["state", "v"], ["product"], "turn"),
            helper.make_node("Tanh", ["product"], ["next"]),
        ],
        {"i": (TensorProto.INT64, []), "go_in": (TensorProto.BOOL, []), "state": ["n", SIZE]},
        {"go_out": (TensorProto.BOOL, []), "next": ["n", SIZE]},
    )  # fmt: skip
    nodes = [
        helper.make_node("If", ["use_cache"], ["f"], "choice", then_branch=outer, else_branch=flat),
        helper.make_node("Loop", ["three", "", "f"], ["g"], "loop", body=turn),
        helper.make_node("MatMul", ["g" if loop else "f", "u"], ["y"], "last"),
    ]
    flags = {name: (TensorProto.BOOL, [1]) for name in ("use_cache", "deep")}
    constants = {"w": WEIGHTS["q"], "v": WEIGHTS["k"], "u": WEIGHTS["down"], "three": np.array(3)}
    chain = nodes if loop else [nodes[0], nodes[2]]
    return onnx_model(chain, {"x": ["n", SIZE], **flags}, {"y": ["n", SIZE]}, constants)


def nested_data(count: int) -> list[dict[str, NDArray]]:
    return [
        {"x": feeds(True, seed)["x"], "use_cache": np.array([use]), "deep": np.array([deep])}
        for seed, use, deep in product(range(count), (True, False), (True, False))
    ]


@pytest.mark.parametrize("operator", ["DequantizeLinear", "MatMulNBits", "BlockLinear"])
@pytest.mark.parametrize("loop", [False, True])
def test_branches_within_branches_and_bodies_of_loops(operator: str, loop: bool) -> None:
    model, data = branch_within_branch(loop=loop), nested_data(4)
    result = quantize_weights(model, data, method="gptq", weights="int8", operator=operator, progress=False)
    in_loop = loop and operator != "BlockLinear"
    assert [(layer.name, layer.twins) for layer in result.layers] == [
        ("choice.else_branch/flat", ("choice.then_branch/within.then_branch/inner",)),
        *([("loop.body/turn", ())] if in_loop else []),
        ("last", ()),
    ]  # fmt: skip
    assert [warning.split(":")[0] for warning in result.warnings] == ["loop.body/turn"] * in_loop
    if loop and operator == "BlockLinear":
        assert "no BlockLinear" in result.in_float["loop.body/turn"]
        return
    engine = intact.compile(result.proto, threads=1)
    for inputs in data[:4]:
        got, want = engine.run(inputs)["y"], run(model, inputs)
        assert np.square(got - want).sum() < 1e-3 * np.square(want).sum()
        np.testing.assert_array_equal(got, intact.run_reference(result.proto, inputs)["y"])


def test_our_own_operator_stays_out_of_branches_on_data() -> None:
    model = decoder()
    names = {"zero": np.float32(0)}
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
        helper.make_node("Greater", ["mean", "zero"], ["positive"]),
    ]
    (choice,) = [node for node in model.graph.node if node.op_type == "If"]
    choice.input[0] = "positive"
    chain = [*nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(chain)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in names.items())
    with pytest.raises(QuantValueError, match="has no BlockLinear"):
        quantize_weights(model, weights="int5", operator="BlockLinear", progress=False)
    result = quantize_weights(model, weights="int8", progress=False)
    engine = intact.compile(result.proto, threads=1)
    for seed in range(4):
        got, want = engine.run(feeds(True, seed))["y"], run(result.proto, feeds(True, seed))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * np.abs(want).max())


def test_equal_matrices_of_one_graph_stay_apart() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("MatMul", ["a", "v"], ["y"], "second"),
    ]
    constants = {"w": WEIGHTS["q"], "v": WEIGHTS["q"]}
    result = quantize_weights(
        onnx_model(nodes, {"x": [8, SIZE]}, {"y": [8, SIZE]}, constants), progress=False
    )
    assert [layer.twins for layer in result.layers] == [(), ()]


def test_each_branch_is_explained() -> None:
    result = quantize_weights(decoder(), weights="int8", activations="dynamic-int8", progress=False)
    plans = plan_for_each_branch(intact.compile(result.proto, threads=1).plan)
    counts = {words: sum(x.precision == "int8" for x in plan.layers) for words, plan in plans.items()}
    assert counts == {"use_cache = True": 3, "use_cache = False": 4}

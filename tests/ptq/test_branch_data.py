"""Networks inside an If: the branches that data reach are quantized, and the engine runs the one taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser

import intact
from intact import graph
from intact.cli.verbs.explain import read
from intact.engine.steps import FallbackSubgraph
from intact.graph import load, strip_qdq, to_proto
from intact.graph.infer.inference import HAS_SHAPES
from intact.ptq import branch_data
from intact.ptq.scope.settings import Settings

NET = """<ir_version: 8, opset_import: ["" : 17]>
net (float[n, 3, 8, 8] x, int64 rate) => (float[n, 4, h, w] y) {
    first = Conv (x, w0)
    fast = Equal (rate, sixteen)
    y = If (fast) <
        then_branch = fast_net () => (a) {
            inner = Relu (first)  a = Conv <strides = [2, 2]> (inner, w1)
        },
        else_branch = slow_net () => (b) {
            inner = Sigmoid (first)  more = Conv (inner, w2)  b = Add (more, first)
        }
    >
}"""
"""As a voice detector for two sample rates; both branches use one name, and a weight of the main graph."""


@pytest.fixture
def net() -> onnx.ModelProto:
    result = parser.parse_model(NET)
    for name, size in (("w0", (4, 3, 1, 1)), ("w1", (4, 4, 3, 3)), ("w2", (4, 4, 1, 1))):
        array = np.random.standard_normal(size).astype(np.float32)
        result.graph.initializer.append(numpy_helper.from_array(array, name))
    result.graph.initializer.append(numpy_helper.from_array(np.array(16), "sixteen"))
    onnx.checker.check_model(result, full_check=True)
    return result


def feeds(rate: int, count: int = 4) -> Iterator[dict[str, np.ndarray]]:
    for seed in range(count):
        x = np.random.default_rng(seed).standard_normal((1, 3, 8, 8)).astype(np.float32)
        yield {"x": x, "rate": np.array(rate)}


def by_onnxruntime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, inputs)
    return result


def int8(part: object) -> list[str]:
    return [row["op_type"] for row in part.explain() if row["precision"] == "int8"]  # type: ignore[attr-defined]


def test_both_branches_are_quantized_where_data_take_both(net: onnx.ModelProto) -> None:
    result = intact.quantize(net, [*feeds(16), *feeds(8)], progress=False)
    (if_,) = (node.name for node in result.model.graph if node.op_type == "If")
    assert list(result.branches) == [f"{if_}.then_branch", f"{if_}.else_branch"]
    assert sorted(int8(result)) == ["Conv", "Conv", "Conv"]
    assert min(db for part in result.parts.values() for db in part.sqnr.values()) > 30
    onnx.checker.check_model(result.proto, full_check=True)
    engine = intact.compile(result.proto, threads=1)
    for rate in (16, 8):
        for feed in feeds(rate):
            want, float_ = by_onnxruntime(result.proto, feed), by_onnxruntime(net, feed)
            assert np.square(want - float_).mean() < 1e-3 * np.square(float_).mean()
            # Float sums differ in their last bits, so that a code may be its neighbour (N33).
            np.testing.assert_allclose(engine.run(feed)["y"], want, atol=0.1 * np.abs(float_).max() / 2)
            assert np.mean(np.isclose(engine.run(feed)["y"], want, atol=1e-4)) > 0.95


def test_a_branch_that_no_batch_takes_stays_in_float(net: onnx.ModelProto) -> None:
    result = intact.quantize(net, feeds(16), progress=False)  # a generator: it can be read but once
    assert [name.split(".")[-1] for name in result.branches] == ["then_branch"]
    assert any(
        "else_branch stays in float: no batch of the data takes it" in line for line in result.warnings
    )
    assert sorted(int8(result)) == ["Conv", "Conv"]
    (inputs,) = feeds(8, 1)
    engine = intact.compile(result.proto, threads=1)
    np.testing.assert_allclose(engine.run(inputs)["y"], by_onnxruntime(result.proto, inputs), atol=1e-4)


def test_stored_statistics_are_of_the_main_graph(net: onnx.ModelProto) -> None:
    calibration = intact.ptq.calibrate(net, [*feeds(16)], progress=False)
    result = intact.quantize(net, calibration, progress=False)
    assert not result.branches and int8(result) == ["Conv"]


def test_a_model_of_nothing_but_branches(net: onnx.ModelProto) -> None:
    result = intact.quantize(net, [*feeds(16)], exclude=["Conv_first", "Relu"], include=["*"], progress=False)
    assert result.branches


def test_the_engine_runs_the_branch_taken_natively(net: onnx.ModelProto, tmp_path: Path) -> None:
    result = intact.quantize(net, [*feeds(16), *feeds(8)], progress=False)
    engine = intact.compile(result.proto, threads=1)
    engine.save(tmp_path / "net.plan")
    for item in (engine, intact.load(tmp_path / "net.plan", threads=1)):
        assert item.plan.deciding == ("rate",)
        for rate in (16, 8):
            (inputs,) = feeds(rate, 1)
            shapes = {name: array.shape for name, array in inputs.items()}
            plan = item.plan_for(shapes, inputs)
            assert not any(isinstance(step, FallbackSubgraph) for step in plan.steps)
            assert plan is item.plan_for(shapes, inputs)
            np.testing.assert_array_equal(item.run(inputs)["y"], engine.run(inputs)["y"])
            exact = intact.compile(result.proto, backend="reference").run(inputs)["y"]
            np.testing.assert_array_equal(item.run(inputs)["y"], exact)


def test_values_that_are_ever_others_are_not_lowered_for(net: onnx.ModelProto) -> None:
    """A counter among the inputs: a plan for each value would be lowered in every run."""
    engine = intact.compile(net, threads=1)
    (inputs,) = feeds(16, 1)
    shapes = {name: array.shape for name, array in inputs.items()}
    plans = {id(engine.plan_for(shapes, {"rate": np.array(rate)})) for rate in range(100)}
    assert len(plans) < 12
    last = inputs | {"rate": np.array(99)}
    np.testing.assert_allclose(engine.run(last)["y"], by_onnxruntime(net, last), atol=1e-4)


def test_pairs_in_branches_are_explained_and_taken_away(net: onnx.ModelProto, tmp_path: Path) -> None:
    result = intact.quantize(net, [*feeds(16), *feeds(8)], progress=False)
    result.save(tmp_path / "net.onnx")
    quantized, parts = read(tmp_path / "net.onnx", "intact", (), ())
    assert quantized
    assert [sum(layer.precision == "int8" for layer in part.layers) for part in parts] == [1, 1, 1]
    model = load(result.proto)
    strip_qdq(model)
    assert not any(node.op_type.endswith("Linear") for node in model.graph.all_nodes())
    for rate in (16, 8):
        (inputs,) = feeds(rate, 1)
        want = by_onnxruntime(net, inputs)
        np.testing.assert_allclose(
            by_onnxruntime(to_proto(model), inputs), want, atol=0.05 * np.abs(want).max()
        )


def test_a_branch_on_data_keeps_its_if(net: onnx.ModelProto) -> None:
    text = (
        NET.replace("<strides = [2, 2]>", "<pads = [1, 1, 1, 1]>")
        .replace("int64 rate", "float[1] level")
        .replace("Equal (rate, sixteen)", "Less (level, sixteen)")
    )
    model = parser.parse_model(text)
    arrays = {tensor.name: tensor for tensor in net.graph.initializer}
    model.graph.initializer.extend([*(arrays[n] for n in ("w0", "w1", "w2"))])
    model.graph.initializer.append(numpy_helper.from_array(np.float32([16]), "sixteen"))
    inputs = [{"x": f["x"], "level": np.float32([level])} for level in (3, 30) for f in feeds(0)]
    result = intact.quantize(model, inputs, progress=False)
    assert len(result.branches) == 2
    engine = intact.compile(result.proto, threads=1)
    assert engine.plan.deciding == ()
    for item in (inputs[0], inputs[-1]):
        built = engine.run(item)["y"]
        assert np.mean(np.isclose(built, by_onnxruntime(result.proto, item), atol=1e-4)) > 0.95


@pytest.mark.parametrize("room", [0, 2**26], ids=["nothing kept", "all kept"])
def test_what_reaches_a_branch_is_the_same_in_every_pass(
    net: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(branch_data, "KEPT_BYTES", room)
    model, data = load(net), [*feeds(16, 3), *feeds(8, 2)]
    branch = next(graph.branches_of(model))
    captured = branch_data.BranchRuns(model, branch, [True] * 3 + [False] * 2, data, Settings(progress=False))
    passes = [[{n: a.tobytes() for n, a in result.items()} for result in captured] for _ in range(2)]
    assert len(passes[0]) == 3
    assert passes[0] == passes[1]


def test_a_number_that_decides_is_run_once(net: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    """The branch is looked up for every batch, and computed for each sample rate."""
    ran: list[tuple[str, ...]] = []
    plain = graph.Session.stream

    def stream(self: graph.Session, inputs: dict[str, np.ndarray], names: list[str]) -> object:
        ran.append(tuple(names))
        return plain(self, inputs, names)

    monkeypatch.setattr(branch_data.Session, "stream", stream)
    model = load(net)
    result = list(graph.branches_of(model))
    data = [*feeds(16, 3), *feeds(8, 2), *feeds(16, 1)]
    handed = branch_data.BranchRouting(model, result, data, Settings(progress=False))
    assert list(handed.routes.values()) == [
        [True] * 3 + [False] * 2 + [True],
        [False] * 3 + [True] * 2 + [False],
    ]
    assert ran == [("fast",)] * 2
    ran.clear()  # what a branch reads of an image is computed for each
    work = branch_data._PartialModel(model, ["first"])
    values = [work(feed)["first"] for feed in feeds(16, 3)]
    assert len(ran) == 3 and not np.array_equal(values[0], values[1])


def on_data(net: onnx.ModelProto, then: str = "inner = Relu (first)") -> onnx.ModelProto:
    """`net` with an If whose condition follows from the image, in front of it what `then` needs."""
    text = (
        NET.replace("<strides = [2, 2]>", "<pads = [1, 1, 1, 1]>")
        .replace("fast = Equal (rate, sixteen)", "pair = SequenceConstruct (first, first) "
                 "mean = ReduceMean <keepdims = 0> (first)  fast = Less (mean, limit)")
        .replace("inner = Relu (first)", then, 1)
    )  # fmt: skip
    model = parser.parse_model(text)
    arrays = {tensor.name: tensor for tensor in net.graph.initializer}
    model.graph.initializer.extend([*(arrays[n] for n in ("w0", "w1", "w2"))])
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "limit"))
    return model


def test_what_data_decide_on_and_hand_over_is_found_in_one_pass(
    net: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = load(on_data(net)), [*feeds(16, 8)]
    result = list(graph.branches_of(model))
    handed = branch_data.BranchRouting(model, result, data, Settings(progress=False))
    chosen = list(handed.routes.values())
    assert (
        all(sum(item) > 0 for item in chosen) and [a ^ b for a, b in zip(*chosen, strict=True)] == [True] * 8
    )
    again = [
        branch_data.BranchRuns(model, b, handed.routes[b.name], data, Settings(progress=False))
        for b in result
    ]
    monkeypatch.setattr(branch_data, "_PartialModel", None)  # what was found is not computed once more
    runs_again = [list(handed.data_for(branch)) for branch in result]
    monkeypatch.undo()
    for item, other in zip(runs_again, again, strict=True):
        for mine, want in zip(item, other, strict=True):
            assert mine.keys() == want.keys() == {"first"}
            np.testing.assert_array_equal(mine["first"], want["first"])


def test_a_branch_that_reads_a_sequence_stays_in_float(net: onnx.ModelProto) -> None:
    then = "at = Constant <value = int64 {0}> ()  inner = SequenceAt (pair, at)"
    model = on_data(net, then)
    kind = onnx.helper.make_sequence_type_proto(
        onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    )
    model.graph.value_info.append(onnx.helper.make_value_info("pair", kind))
    result = intact.quantize(model, [*feeds(16, 8)], progress=False)
    assert [name.split(".")[-1] for name in result.branches] == ["else_branch"]


@pytest.mark.parametrize("steers", [True, False], ids=["by a constant around it", "by itself"])
def test_a_branch_knows_the_shapes_that_its_model_or_constants_tell(steers: bool) -> None:
    """Inference within a model does not know what is constant around a branch; within the branch it does."""
    axes = "int64[1] axes = {1}" if steers else "float[1] other = {1}"
    inner = "" if steers else "axes = Constant <value = int64[1] {1}> ()"
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[2, 1, 8] x, bool c) => (float[n, m] y) <{axes}> {{
            h = Relu (x)
            y = If (c) <
                then_branch = one () => (p) {{ {inner} p = Squeeze (h, axes) }},
                else_branch = two () => (q) {{ k = Constant <value = int64[1] {{1}}> () q = Squeeze (h, k) }}
            >
        }}"""
    )
    first, second = (branch.model for branch in graph.branches_of(load(model)))
    assert (first.meta[HAS_SHAPES], second.meta[HAS_SHAPES]) == (not steers, True)
    for part in (first, second):
        assert [list(value.shape or ()) for value in load(part, checked=True).graph.outputs] == [[2, 8]]

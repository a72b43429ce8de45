"""`explain` of a plan shows what its steps do: every node, the parts of ONNX Runtime included."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest
from tests.fuzz.graphs import read
from tests.placement.conftest import Net
from tests.placement.test_nets import NETS, emit

from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.steps import Step
from intact.graph import load
from intact.placement import explain, place, read_placement

CORPUS = sorted((Path(__file__).parents[1] / "fuzz" / "corpus").glob("seed-*.onnx"))
BORDERS = {"quantize", "split_quantize", "dequantize", "rescale", "reinterpret"}
INTEGER = {"conv", "conv_transpose", "linear", "matmul", "add", "pool", "table"}


def outside(plan: Plan) -> Counter[str]:
    """The nodes that ONNX Runtime runs, pairs aside."""
    node_counts: Counter[str] = Counter()
    for step in plan.steps:
        if step.kind == "onnx":
            graph = onnx.ModelProto.FromString(plan.constants[step.model].tobytes()).graph
            pairs = {n.name for n in graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")}
            node_counts.update(set(step.nodes) - pairs)
    return node_counts


def layer_nodes(step: Step) -> tuple[str, ...]:
    """The nodes of a step but its pairs: of one that brings floats to a grid, the bounds in front."""
    return step.nodes[:-2] if step.kind == "fake_quantize" else () if step.kind in BORDERS else step.nodes


def check(plan: Plan) -> None:
    rows = explain(plan)
    listed = Counter(node for row in rows for node in row["nodes"])
    assert all(count == 1 for count in listed.values()), "a node is in one layer"
    fallback = outside(plan)
    native = [step for step in plan.steps if step.kind != "onnx"]
    computing = {node for step in native for node in layer_nodes(step)}
    assert computing | fallback.keys() <= listed.keys(), "what runs is told"
    assert listed.keys() <= {node for step in native for node in step.nodes} | fallback.keys(), (
        "and nothing else"
    )
    for row in rows:
        nodes = set(row["nodes"])
        by_runtime = nodes & fallback.keys()
        assert by_runtime in (set(), nodes), "one layer, one runtime"
        assert bool(by_runtime) == ("ONNX Runtime" in row["reason"])
        kinds = {step.kind for step in native if nodes.intersection(step.nodes)}
        if kinds & INTEGER or by_runtime:
            assert row["precision"] == ("float" if by_runtime else "int8"), row
        assert row["layer"] in nodes and row["reason"] and row["fused"]
    for step in native:
        inside = [set(row["nodes"]) & set(step.nodes) for row in rows]
        assert sum(map(bool, inside)) <= 1, f"step '{step.name}' is in one layer"


@pytest.mark.parametrize("quantized", [True, False], ids=["int8", "float"])
@pytest.mark.parametrize("name", [name for name in NETS if name != "custom_domain"])  # it has no body
def test_a_network(name: str, quantized: bool) -> None:
    write, opset = NETS[name]
    n = Net(opset)
    proto = n.proto(*write(n))
    check(lower(emit(proto, place(load(proto))) if quantized else proto))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_graph_of_the_corpus(path: Path) -> None:
    check(lower(read(path.read_bytes()).proto))


@pytest.mark.parametrize("name", ["basic_blocks", "bottleneck", "inception", "u_net", "inverted_residual"])
def test_layers_are_the_placements_where_all_of_it_runs(name: str) -> None:
    write, opset = NETS[name]
    n = Net(opset)
    proto = n.proto(*write(n))
    model = emit(proto, place(load(proto)))
    assert lower(model).layers == read_placement(model).layers


def test_what_lowering_cannot_do_is_written_back(qdq):
    """A product of two activations takes no function in, a kernel knows no such Clip."""
    g = qdq()
    a, b = (g.pair(g.input(name, [2, 4, 8, 8])) for name in "ab")
    y = g.node("Relu", g.node("MatMul", a, b, name="product"), name="act")
    y = g.node("Softmax", g.node("Add", y, g.floats(1, 1, 8, 8), name="mask"), name="softmax")
    rows = {row["layer"]: row for row in explain(lower(g.proto(g.quantize(g.node("Shrink", y, name="sin")))))}
    assert rows["product"]["fused"] == "MatMul" and rows["product"]["precision"] == "int8"
    assert rows["product"]["reason"].endswith("'act' of MatMul+Relu could not be taken in")
    assert (rows["act"]["precision"], rows["act"]["fused"]) == ("float", "Relu")
    assert rows["softmax"]["nodes"] == ["mask", "softmax"] and rows["softmax"]["fused"] == "Add+Softmax"
    assert rows["sin"]["reason"] == "no rule runs it in int8; ONNX Runtime runs it: no kernel for Shrink"

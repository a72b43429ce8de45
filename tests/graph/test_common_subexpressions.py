"""Nodes that compute the same become one."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from intact import graph


def join_text(text: str) -> tuple[dict[str, list[str]], list[str]]:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18, "mine" : 1]> {text}')
    for node in model.graph.node:
        node.name = node.output[0]
    read = graph.parse_model(model.SerializeToString(), "test")
    return graph.merge_common_subexpressions(read), [node.name or "" for node in read.graph]


def test_what_reads_equal_nodes_is_equal_too():
    same, left = join_text("""g (float[4] x) => (float[4] y) <float half = {0.5}, float also = {0.5}> {
        a = Mul(x, half)  b = Mul(x, also)  c = Exp(a)  d = Exp(b)  y = Add(c, d) }""")
    assert left == ["a", "c", "y"]
    assert same == {"a": ["a", "b"], "c": ["c", "d"], "y": ["y"]}


@pytest.mark.parametrize(
    "two",
    [
        "a = Mul(x, half)  b = Mul(x, other)",
        "a = LeakyRelu<alpha = 0.5>(x)  b = LeakyRelu<alpha = 0.25>(x)",
        "a = RandomNormalLike(x)  b = RandomNormalLike(x)",
        "a = mine.Edge(x)  b = mine.Edge(x)",
        "a = Exp(x)  b = Abs(x)",
    ],
    ids=["other constants", "other attributes", "random numbers", "foreign operators", "other operators"],
)
def test_others_stay_apart(two: str):
    text = "g (float[4] x) => (float[4] y) <float half = {0.5}, float other = {0.25}>"
    assert join_text(f"{text} {{ {two}  y = Add(a, b) }}")[1] == ["a", "b", "y"]


def test_outputs_of_the_graph_stay():
    assert join_text("g (float[4] x) => (float[4] a, float[4] b) { a = Exp(x)  b = Exp(x) }")[1] == ["a", "b"]

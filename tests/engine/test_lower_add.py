"""Additions of codes."""


def test_add_of_codes_with_relu(qdq, lower_graph):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4, 4]), 0.05, 4), g.pair(g.input("b", [2, 3, 4, 4]), 0.03)
    lowered = lower_graph(g, g.quantize(g.node("Relu", g.node("Add", a, b)), 0.07, -10)).agree()
    assert lowered.kinds == ["quantize", "quantize", "add"]
    assert lowered.step("add").low == -10


def test_add_broadcasts(qdq, lower_graph):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4, 4])), g.pair(g.input("b", [2, 3, 1, 1]))
    assert lower_graph(g, g.quantize(g.node("Add", a, b))).agree().kinds[-1] == "add"

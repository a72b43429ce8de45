"""Additions of codes."""


def test_add_of_codes_with_relu(qdq, lowered):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4, 4]), 0.05, 4), g.pair(g.input("b", [2, 3, 4, 4]), 0.03)
    found = lowered(g, g.quantize(g.node("Relu", g.node("Add", a, b)), 0.07, -10)).agree()
    assert found.kinds == ["quantize", "quantize", "add"]
    assert found.step("add").low == -10


def test_add_broadcasts(qdq, lowered):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4, 4])), g.pair(g.input("b", [2, 3, 1, 1]))
    assert lowered(g, g.quantize(g.node("Add", a, b))).agree().kinds[-1] == "add"

"""Softmax, and the mask in front of it."""

import pytest


def test_softmax_takes_the_mask_before_it(qdq, lower_graph):
    g = qdq()
    scores = g.node("Add", g.input("x", ["batch", 2, 5, 5]), g.input("mask", ["batch", 1, 1, 5]))
    lowered = lower_graph(g, g.quantize(g.node("Softmax", scores), 1 / 127), sizes={"batch": 2}).agree()
    assert lowered.kinds == ["softmax"]
    assert lowered.step("softmax").mask == "mask"


@pytest.mark.parametrize("axis", [1, -1])
def test_softmax_over_an_axis(qdq, lower_graph, axis):
    g = qdq()
    y = g.node("Softmax", g.pair(g.input("x", [2, 7, 5])), axis=axis)
    assert lower_graph(g, y).agree().kinds == ["quantize", "softmax"]


@pytest.mark.parametrize("turned", [False, True])
def test_scores_that_are_constants_are_what_is_added_to_a_mask(qdq, lower_graph, turned):
    g = qdq()
    terms = [g.floats(1, 5, 5), g.input("mask", [2, 5, 5])]
    y = g.node("Softmax", g.node("Add", *(reversed(terms) if turned else terms)))
    assert lower_graph(g, y).agree(1e-6).kinds == ["softmax"]

"""GatherND runs natively, by constants and by computed tuples."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few


@pytest.mark.parametrize(
    ("batch", "index"),
    [(0, (5, 2)), (0, (2, 3, 1)), (0, (4, 3)), (1, (2, 5, 1)), (1, (2, 2)), (2, (2, 3, 1))],
)
def test_rows_by_computed_tuples(qdq, lower_graph, batch, index):
    g = qdq()
    x, ids = add_inputs(g, x=few("float32", 2, 3, 4, 5), ids=few("int64", *index, low=-2, high=2))
    exactly(lower_graph(g, g.node("GatherND", x, ids, batch_dims=batch)))


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    "batch, index", [(0, (5, 2)), (0, (2, 3, 1)), (0, (4, 3)), (1, (2, 5, 1)), (1, (2, 2))], ids=str
)
def test_rows_by_several_indices(qdq, lower_graph, batch, index, pair):
    g = qdq()
    (x,) = add_inputs(g, x=few("float32", 2, 3, 4, high=9))
    index_input = g.constant(few("int64", *index, low=-2, high=2))
    y = g.node("GatherND", g.pair(x) if pair else x, index_input, batch_dims=batch)
    exactly(lower_graph(g, y))


def test_places_in_a_sequence_of_which_some_are_padding(qdq, lower_graph):
    """As RoBERTa numbers its tokens, and takes their types from a table."""
    g = qdq()
    (ids,) = add_inputs(g, ids=np.array([[5, 6, 7, 1, 1], [8, 1, 1, 1, 1]]))
    there = g.node("Cast", g.node("Not", g.node("Equal", ids, g.constant(np.array(1)))), to=7)
    places = g.node(
        "Add", g.node("Mul", g.node("CumSum", there, g.constant(np.array(1))), there), g.constant(np.array(1))
    )
    table = g.constant(np.arange(20).reshape(2, 10))
    kinds = g.node("GatherElements", table, places, axis=1)
    y = g.node("Add", g.node("Gather", g.floats(30, 8), places), g.node("Gather", g.floats(30, 8), kinds))
    exactly(lower_graph(g, y))

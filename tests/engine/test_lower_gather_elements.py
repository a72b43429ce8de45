"""GatherElements runs natively, as ONNX Runtime has it."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import QuantValueError


@pytest.mark.parametrize("how", ["given", "constant", "computed"])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_by_index(qdq, lower_graph, how, axis):
    g = qdq()
    index = few("int64", 2, 3, low=-3, high=3)
    x, ids = add_inputs(g, x=few("float32", 3, 4, high=99), ids=index)
    chosen = {
        "given": ids,
        "constant": g.constant(index),
        "computed": g.node("Add", ids, g.constant(np.array(0))),
    }
    exactly(lower_graph(g, g.node("GatherElements", x, chosen[how], axis=axis)))


def test_an_element_out_of_range_is_an_error(qdq):
    g = qdq()
    x, ids = add_inputs(g, x=few("float32", 3, 4, high=5), ids=few("int64", 2, 4, high=5))
    plan = lower(g.proto(g.node("GatherElements", x, g.node("Add", ids, ids), axis=0)))
    wrong = {"x": few("float32", 3, 4, high=5), "ids": np.full((2, 4), 2)}
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="index 4, want -3 to 2"):
            run(wrong)

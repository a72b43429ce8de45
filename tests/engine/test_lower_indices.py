"""Computed indices of what is not there are errors that name them."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, few

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import QuantValueError


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [("ScatterElements", 3), ("ScatterND", 3), ("GatherND", 2)],
)
def test_an_index_out_of_range_is_an_error(qdq, op_type, inputs):
    g = qdq()
    arrays = {"x": few("float32", 3, 4), "ids": np.array([[0], [3]]), "u": few("float32", 2, 4)}
    arrays["u"] = arrays["u"][:, :1] if op_type == "ScatterElements" else arrays["u"]
    names = add_inputs(g, **dict(list(arrays.items())[:inputs]))
    plan, feeds = lower(g.proto(g.node(op_type, *names))), g.feeds()
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="index 3, want -3 to 2"):
            run(feeds)

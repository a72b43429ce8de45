"""ReverseSequence by constant lengths runs natively."""

import numpy as np
import pytest
from tests.engine.conftest import exactly


@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize(
    "lengths", [(4, 4), (4, 1), (2, 3)], ids=str
)  # of 0 ONNX Runtime 1.24 copies nothing
@pytest.mark.parametrize("pair", [True, False])
def test_sequences_the_other_way_round(qdq, lower_graph, time, lengths, pair):
    g = qdq()
    shape = (4, 2, 3) if time == 0 else (2, 4, 3)
    x = g.input("x", list(shape))
    lengths_input = g.constant(np.array(lengths))
    y = g.node(
        "ReverseSequence", g.pair(x) if pair else x, lengths_input, time_axis=time, batch_axis=1 - time
    )
    exactly(lower_graph(g, y))

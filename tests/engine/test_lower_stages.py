"""The stages of `lower`: what each of them leaves, and that their names tell them apart."""

from __future__ import annotations

import numpy as np
import onnx

from intact.engine.lower import lower
from intact.engine.lower.stages import STAGES, Lowering

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 3] x) => (float[1, 4] y)
    <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { m = MatMul (x, w)  y = Relu (m) }
"""


def test_stages_fill_in_the_state_from_top_to_bottom():
    state = Lowering(onnx.parser.parse_model(TEXT), {}, {})
    fields = {}
    for stage in STAGES:
        stage.run(state)
        fields[stage.name] = {name for name, value in vars(state).items() if value}
    assert len(fields) == len(STAGES)
    assert "graph_model" in fields["load"] and "placement" not in fields["rewrite the graph"]
    assert "placement" in fields["read the placement of pairs"]
    assert "builder" in fields["move pairs and select steps"] - fields["read the placement of pairs"]
    assert "unfinished_plan" in fields["order steps and subgraphs"] - fields["move pairs and select steps"]
    want = lower(onnx.parser.parse_model(TEXT))
    assert state.plan.steps == want.steps and state.plan.layers == want.layers and state.plan.layers
    assert all(np.array_equal(state.plan.constants[name], array) for name, array in want.constants.items())

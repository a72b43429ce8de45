"""Products with chosen matrices become one with all of them, and a choice: the same numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

from intact import graph
from intact.graph.rewrites.matmul_operands import GATHERED_MATMUL

E, K, N = 3, 6, 5
"""Matrices, rows of each, columns of each."""

INDICES = {
    "Gather": lambda index: ("Gather", index),
    "GatherND": lambda index: ("GatherND", index[..., None]),
}
CASES = {
    "rows on the left": ((4,), (4, 1, K), False, False),
    "rows on the right": ((4,), (4, K, 1), True, False),
    "matrices transposed behind": ((4,), (4, 1, K), False, True),
    "transposed, rows on the right": ((4,), (4, K, 1), True, True),
    "several axes": ((4, 2), (4, 2, 1, K), False, False),
    "one row for several matrices": ((4, 2), (4, 1, 1, K), False, False),
    "one row for all": ((4,), (1, 1, K), False, False),
}


def product(
    choice: str, leading: tuple, rows: tuple, right: bool, turned: bool, domain: str = "intact"
) -> tuple[onnx.ModelProto, dict]:
    """`domain`: of the node that marks the matrices; "": an Identity."""
    rng = np.random.default_rng(0)
    op_type, index = INDICES[choice](rng.integers(-E, E, leading))
    shape = (E, N, K) if right != turned else (E, K, N)
    array = rng.standard_normal(shape).astype(np.float32)
    mark = helper.make_node("Edge" if domain else "Identity", ["w"], ["m"], name="mark", domain=domain)
    nodes = [mark, helper.make_node(op_type, ["m", "index"], ["own"], name="own")]
    if turned:
        axes = len(leading)
        perm = [*range(axes), axes + 1, axes]
        nodes.append(helper.make_node("Transpose", ["own"], ["turned"], name="turn", perm=perm))
    own = nodes[-1].output[0]
    nodes.append(helper.make_node("MatMul", [own, "x"] if right else ["x", own], ["y"], name="product"))
    feeds = {"x": rng.standard_normal(rows).astype(np.float32), "index": index}
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, rows),
        helper.make_tensor_value_info("index", TensorProto.INT64, index.shape),
    ]
    end = (*leading, N, 1) if right else (*leading, 1, N)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, end)
    infos = [helper.make_tensor_value_info("m", TensorProto.FLOAT, shape)]
    return onnx_model(
        nodes, inputs, [output], {"w": array}, name="chosen", values=infos, domains={"intact": 1}
    ), feeds


def rewrite_proto(proto: onnx.ModelProto) -> tuple[graph.Model, list]:
    model = graph.parse_model(proto.SerializeToString(), "test")
    graph.refresh_shapes(model)
    return model, GATHERED_MATMUL(model)


def run(model: graph.Model, feeds: dict) -> np.ndarray:
    proto = onnx.load_from_string(graph.to_bytes(model))
    for node in proto.graph.node:
        if node.domain == "intact":
            node.domain, node.op_type = "", "Identity"
    return graph.Session(proto.SerializeToString()).run(feeds)["y"]


@pytest.mark.parametrize("choice", INDICES)
@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_the_same(case, choice):
    proto, feeds = product(choice, *CASES[case])
    before = graph.parse_model(proto.SerializeToString(), "test")
    model, notes = rewrite_proto(proto)
    assert len(notes) == 1 and notes[0].node == "product"
    kinds = [node.op_type for node in model.graph]
    assert kinds.count("MatMul") == 1 and kinds.count("GatherND") == 1 and "Gather" not in kinds
    outputs, want = run(model, feeds), run(before, feeds)
    assert outputs.shape == want.shape and np.allclose(outputs, want, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        ("Gather", (4,), (4, 2, K), False, False),  # two rows for each matrix
        ("Gather", (4,), (4, 1, K), False, False, ""),  # nobody marks the matrices
        ("Gather", (4,), (4, 4, 1, K), False, False),  # every row by every chosen matrix
    ],
)
def test_others_stay(options):
    proto, _ = product(*options)
    model, notes = rewrite_proto(proto)
    assert not notes and "GatherND" not in [node.op_type for node in model.graph]


def test_matrices_that_are_computed_stay():
    proto, _ = product("Gather", (4,), (4, 1, K), False, False)
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (E, K, N)))
    del proto.graph.initializer[:]
    assert not rewrite_proto(proto)[1]

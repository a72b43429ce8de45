"""RotaryEmbedding of ONNX becomes slices, products and sums."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.engine.steps import FallbackSubgraph
from intact.graph import pipelines

B, S, N, D = 2, 5, 3, 8
RNG = np.random.default_rng(5)
PLACES = np.int64([[0, 1, 2, 3, 4], [6, 7, 8, 9, 10]])


def real(*shape: int) -> np.ndarray:
    return np.float32(RNG.normal(size=shape))


def model(
    x: np.ndarray, pairs: int, *, places: bool = True, **attributes: int
) -> tuple[onnx.ModelProto, dict]:
    """One node, and what it reads: angles of places, or of each row by itself."""
    tables = {name: real(12, pairs) if places else real(B, S, pairs) for name in ("cos", "sin")}
    feeds = {"x": x} | tables | ({"places": PLACES} if places else {})
    node = helper.make_node("RotaryEmbedding", list(feeds), ["y"], "turn", **attributes)
    begins = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), ["n", *array.shape[1:]]
        )
        for name, array in feeds.items()
    ]
    for value in begins[1:3]:
        value.type.tensor_type.shape.dim[0].dim_value = feeds[value.name].shape[0]
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * x.ndim)
    return onnx_model([node], begins, [end], opset=23), feeds


CASES = {
    "heads apart": (real(B, N, S, D), D // 2, {}),
    "heads side by side": (real(B, S, N * D), D // 2, {"num_heads": N}),
    "pairs side by side": (real(B, N, S, D), D // 2, {"interleaved": 1}),
    "a part": (real(B, N, S, D), 2, {"rotary_embedding_dim": 4}),
    "a part, side by side": (
        real(B, S, N * D), 2, {"rotary_embedding_dim": 4, "num_heads": N, "interleaved": 1}
    ),
    "angles for each row": (real(B, N, S, D), D // 2, {"places": False}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_onnx_says(name):
    x, pairs, options = CASES[name]
    proto, feeds = model(x, pairs, **options)
    (want,) = ReferenceEvaluator(proto).run(None, feeds)
    loaded = graph.load(proto)
    (note,) = graph.run_stages(loaded, pipelines.COMPOUNDS)
    assert note.node == "turn" and "RotaryEmbedding" not in [node.op_type for node in loaded.graph]
    assert np.allclose(graph.Session(loaded).run(feeds)["y"], want, atol=1e-6)
    engine = intact.compile(proto, shapes={key: array.shape for key, array in feeds.items()})
    assert np.allclose(engine.run(feeds)["y"], want, atol=1e-6)
    assert not any(isinstance(step, FallbackSubgraph) for step in engine.plan.steps)


def test_sizes_that_nobody_knows_stay():
    proto, _ = model(real(B, N, S, D), D // 2)
    proto.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "pairs"
    loaded = graph.load(proto)
    assert graph.run_stages(loaded, pipelines.COMPOUNDS) == []

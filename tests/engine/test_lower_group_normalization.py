"""GroupNormalization and InstanceNormalization run natively."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.graph import Session


@pytest.mark.rule("N55")
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("plane", [(6,), (6, 5), ("h", 5), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("affine", ["both", "scale", "bias", "neither"])
def test_norms_of_planes(qdq, lower_graph, affine, plane, codes):
    g = qdq()
    scale = g.rng.uniform(0.5, 2, 4) if affine in ("both", "scale") else np.ones(4)
    bias = g.rng.uniform(-1, 1, 4) if affine in ("both", "bias") else np.zeros(4)
    x = g.node("Sigmoid", g.input("x", [2, 4, *plane]))
    y = g.node("InstanceNormalization", x, g.constant(np.float32(scale)), g.constant(np.float32(bias)))
    lowered = lower_graph(g, g.quantize(y, 0.05) if codes else y, sizes={"h": 3}).agree(1e-5)
    assert "onnx" not in lowered.kinds
    assert lowered.kinds.count("binary") == ("neither", "scale", "both").index(
        affine.replace("bias", "scale")
    )


def test_a_norm_of_planes_of_free_sizes_is_native(qdq, lower_graph):
    g = qdq()
    ones, zeros = g.constant(np.ones(4, np.float32)), g.constant(np.zeros(4, np.float32))
    y = g.node("InstanceNormalization", g.node("Sigmoid", g.input("x", ["n", 4, "h", 5])), ones, zeros)
    lowered = lower_graph(g, y, sizes={"n": 2, "h": 3})
    engine = Engine(lowered.plan, threads=1)
    assert lowered.kinds == ["function", "reshape", "layer_norm", "reshape"]
    np.testing.assert_allclose(engine.run(lowered.feeds)[y], lowered.expected[y], atol=1e-5)


def test_norms_of_groups():
    scale, bias = np.random.default_rng(0).uniform(0.5, 2, (2, 6)).astype(np.float32)
    ports = [helper.make_tensor_value_info(name, 1, ["n", 6, 5, 4]) for name in "xy"]
    node = helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=3)
    initializers = [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(bias, "bias")]
    model = onnx_model([node], ports[:1], ports[1:], initializers, opset=21)
    engine = Engine(lower(model), threads=1)
    assert {step.kind for step in engine.plan.steps} == {"reshape", "layer_norm", "binary"}
    x = np.random.default_rng(1).standard_normal((2, 6, 5, 4)).astype(np.float32)
    (want,) = Session(model.SerializeToString()).run({"x": x}).values()
    np.testing.assert_allclose(engine.run({"x": x})["y"], want, atol=1e-5)


def test_a_computed_scale_stays_with_onnx_runtime(qdq, lower_graph):
    g = qdq()
    x, zeros = g.input("x", [2, 4, 6]), g.constant(np.zeros(4, np.float32))
    assert "onnx" in lower_graph(g, g.node("InstanceNormalization", x, g.input("scale", [4]), zeros)).kinds

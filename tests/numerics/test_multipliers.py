"""The float32 constants of a layer are rounded once."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

from intact import numerics as nx


@pytest.mark.rule("N29")
def test_fold_batchnorm_is_onnx_runtimes_gain_and_shift(rng):
    """Every bit of a BatchNormalization that ONNX Runtime runs without optimizations."""
    channels, numbers = 512, {}
    for name in ("gamma", "beta", "mean", "var", "x"):
        shape = (2, channels, 3) if name == "x" else channels
        numbers[name] = rng.standard_normal(shape).astype(np.float32)
    numbers["var"] = np.square(numbers["var"]) + np.float32(1e-6)
    names = ["x", "gamma", "beta", "mean", "var"]
    node = helper.make_node("BatchNormalization", names, ["y"], epsilon=1e-5)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, numbers[n].shape) for n in names]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, numbers["x"].shape)
    model = onnx_model([node], info, [out])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, numbers)
    gain, shift = nx.fold_batchnorm(*(numbers[n] for n in names[1:]), 1e-5)
    assert gain.dtype == shift.dtype == np.float32
    assert (gain < 0).any()
    assert np.array_equal(numbers["x"] * gain[:, None] + shift[:, None], want)


@pytest.mark.rule("N21")
def test_multiplier_is_rounded_once_from_float64(rng):
    """Products formed in float32 would be rounded twice, and some of them differ."""
    s_x, s_w, s_y = rng.random((3, 100), np.float32) + np.float32(0.001)
    once = np.float32(s_x.astype(float) * s_w.astype(float) / s_y.astype(float))
    assert (nx.multipliers(s_x, s_w, s_y) == once).all()
    assert (s_x * s_w / s_y != once).any()

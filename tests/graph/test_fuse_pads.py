"""Pads with minus infinity in front of MaxPools: one pool, and nothing infinite to calibrate."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_ir.serde import from_proto
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.graph.rewrites.fuse_maxima import FUSE_PADS

LOWEST = float(np.finfo(np.float32).min)


def model(
    pads: list[int],
    fill: float = -np.inf,
    axes: list[int] | None = None,
    own: list[int] | None = None,
    **pool: Any,
) -> bytes:
    """Conv -> Pad -> MaxPool -> Conv."""
    rng = np.random.default_rng(0)
    if own is not None:
        pool["pads"] = own
    constants = {
        "w": rng.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "v": rng.normal(size=(4, 8, 1, 1)).astype(np.float32),
        "pads": np.array(pads), "fill": np.array(fill, np.float32),
    }  # fmt: skip
    if axes is not None:
        constants["axes"] = np.array(axes)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Pad", ["a", "pads", "fill", *(["axes"] if axes else [])], ["b"], name="pad"),
        helper.make_node(
            "MaxPool", ["b"], ["c"], name="pool", **{"kernel_shape": [3, 3], "strides": [2, 2]} | pool
        ),
        helper.make_node("Conv", ["c", "v"], ["y"], name="second"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 12])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return bytes(onnx_model(nodes, [x], [y], constants, opset=18).SerializeToString())


def images(count: int = 4) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(size=(1, 3, 9, 12)).astype(np.float32) for i in range(count)]


def run(file: bytes, x: np.ndarray) -> np.ndarray:
    (y,) = onnxruntime.InferenceSession(file).run(None, {"x": x})
    return np.asarray(y)


JOINED = [
    ([0, 0, 0, 0, 0, 0, 1, 1], {}),
    ([0, 0, 1, 0, 0, 0, 1, 2], {}),
    ([1, 0, 1, 2], {"axes": [-1, 2]}),
    ([0, 0, 1, 1, 0, 0, 1, 1], {"fill": LOWEST}),
    ([0, 0, 1, 0, 0, 0, 0, 1], {"own": [1, 1, 1, 1]}),
    ([0, 0, 1, 1, 0, 0, 1, 1], {"auto_pad": "VALID"}),
    ([0, 0, 1, 1, 0, 0, 1, 1], {"dilations": [2, 2]}),
]


@pytest.mark.parametrize(("pads", "options"), JOINED, ids=str)
def test_the_pool_pads_itself_and_says_the_same(pads: list[int], options: dict[str, Any]) -> None:
    file = model(pads, **options)
    loaded = graph.load(file)
    assert [note.node for note in FUSE_PADS(loaded)] == ["pad"]
    assert [node.op_type for node in loaded.graph] == ["Conv", "MaxPool", "Conv"]
    for x in images():
        assert np.array_equal(run(graph.to_bytes(loaded), x), run(file, x))


LEFT = [
    ([0, 0, 1, 1, 0, 0, 1, 1], {"fill": 0.0}),
    ([0, 0, 1, 1, 0, 0, 1, 1], {"fill": -1e30}),
    ([0, 1, 1, 1, 0, 0, 1, 1], {"kernel_shape": [3, 3]}),  # channels, and the second layer has 8
    ([0, 0, 3, 1, 0, 0, 1, 1], {}),  # a window of padding alone
    ([0, 0, -1, 1, 0, 0, 1, 1], {}),
    ([0, 0, 1, 1, 0, 0, 1, 1], {"ceil_mode": 1}),
    ([0, 0, 1, 1, 0, 0, 1, 1], {"auto_pad": "SAME_UPPER"}),
]


@pytest.mark.parametrize(("pads", "options"), LEFT, ids=str)
def test_what_a_pool_cannot_pad_itself_stays(pads: list[int], options: dict[str, Any]) -> None:
    loaded = from_proto(onnx.load_from_string(model(pads, **options)))
    assert FUSE_PADS(loaded) == []
    assert [node.op_type for node in loaded.graph] == ["Conv", "Pad", "MaxPool", "Conv"]


@pytest.mark.parametrize("options", [{}, {"ceil_mode": 1}, {"fill": LOWEST}], ids=str)
def test_files_are_calibrated_and_run_in_int8(options: dict[str, Any]) -> None:
    file = model([0, 0, 0, 0, 0, 0, 1, 1], **options)
    result = intact.quantize(file, [{"x": x} for x in images(8)], progress=False)
    assert {layer.precision for layer in result.placement.layers} == {"int8"}
    assert min(result.sqnr.values()) > 25
    written = graph.to_bytes(result.model)
    engine = intact.compile(written, threads=1)
    for x in images():
        (got,) = engine.run({"x": x}).values()
        assert np.allclose(got, run(written, x), atol=0.02 * np.abs(got).max())

"""EfficientNMS_TRT: by hand, from a file, in an engine that was read, behind int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model
from tests.trt.networks import outputs_of

import intact.trt as trt
from intact.errors import QuantValueError, UnsupportedError

BOXES = np.array(
    [[[0, 0, 10, 10], [1, 0, 10, 10], [20, 20, 30, 30], [20, 20, 30, 29], [50, 50, 60, 60]]], np.float32
)
SCORES = np.array([[[0.9, 0], [0.8, 0], [0, 0.7], [0.6, 0], [0.1, 0.25]]], np.float32)


def fields(**parameters: Any) -> trt.PluginFieldCollection:
    def field(name: str, value: Any) -> trt.PluginField:
        real = isinstance(value, float)
        kind = trt.PluginFieldType.FLOAT32 if real else trt.PluginFieldType.INT32
        return trt.PluginField(name, np.array([value], np.float32 if real else np.int32), kind)

    return trt.PluginFieldCollection([field(name, value) for name, value in parameters.items()])


def plugin(**parameters: Any) -> Any:
    creator = trt.get_plugin_registry().get_plugin_creator("EfficientNMS_TRT", "1")
    return creator.create_plugin(name="nms", field_collection=fields(**parameters))


def suppress(network: trt.INetworkDefinition, log: Any, *arrays: np.ndarray, **parameters: Any) -> Any:
    inputs = [network.add_input(f"x{i}", trt.float32, a.shape) for i, a in enumerate(arrays)]
    layer = network.add_plugin_v2(inputs, plugin(**parameters))
    for i in range(4):
        network.mark_output(layer.get_output(i))
    return outputs_of(network, log, **{f"x{i}": a for i, a in enumerate(arrays)})


def test_what_is_kept_best_first_then_zeros(network, log) -> None:
    count, boxes, scores, classes = suppress(network, log, BOXES, SCORES, max_output_boxes=5)
    assert (count == 4).all() and count.dtype == np.int32 and classes.dtype == np.int32
    assert scores[0] == pytest.approx([0.9, 0.7, 0.6, 0.25, 0])
    assert classes[0].tolist() == [0, 1, 0, 1, 0]
    assert (boxes[0] == np.concatenate([BOXES[0, [0, 2, 3, 4]], np.zeros((1, 4))])).all()


@pytest.mark.parametrize(
    ("parameters", "want"),
    [
        ({"class_agnostic": 1}, [0.9, 0.7, 0.25]),
        ({"background_class": 1}, [0.9, 0.6]),
        ({"score_threshold": 0.65}, [0.9, 0.7]),
        ({"iou_threshold": 0.95}, [0.9, 0.8, 0.7, 0.6, 0.25]),
        ({"max_output_boxes": 2}, [0.9, 0.7]),
        ({"nobody_knows": 3}, [0.9, 0.7, 0.6, 0.25]),
    ],
)
def test_its_parameters(network, log, parameters, want) -> None:
    count, _, scores, _ = suppress(network, log, BOXES, SCORES, **parameters)
    assert int(count[0, 0]) == len(want) and scores[0, : len(want)] == pytest.approx(want)


def to_centers(corners: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], -1
    )


def test_boxes_by_center_raw_scores_and_boxes_of_each_class_come_out_alike(network, log) -> None:
    raw = np.log(SCORES / (1 - SCORES), where=SCORES > 0, out=np.full_like(SCORES, -20.0))
    wanted = suppress(network, log, BOXES, SCORES)
    each = np.repeat(to_centers(BOXES)[:, :, None], 2, axis=2)
    other = trt.Builder(log).create_network()
    got = suppress(other, log, each, raw, box_coding=1, score_activation=1, score_threshold=0.2)
    for expected, actual in zip(wanted, got, strict=True):
        np.testing.assert_allclose(expected, actual, rtol=1e-5)


def test_boxes_are_decoded_from_anchors(network, log) -> None:
    anchors = np.array([[[5, 5, 10, 10]] * 5], np.float32)
    wanted = to_centers(BOXES)
    deltas = np.concatenate([(wanted[..., :2] - 5) / 10, np.log(wanted[..., 2:] / 10)], -1)
    got = suppress(network, log, deltas, SCORES, anchors, box_coding=1)
    np.testing.assert_allclose(got[1][0, :4], BOXES[0, [0, 2, 3, 4]], atol=1e-5)


def test_what_it_refuses() -> None:
    with pytest.raises(QuantValueError, match="max_output_boxes"):
        plugin(max_output_boxes=0)
    with pytest.raises(UnsupportedError, match="box_coding"):
        plugin()._corners(BOXES, BOXES)


def file() -> bytes:
    """Boxes and scores of a file into a node of the plugin's name, as exporters of detectors write it."""
    node = helper.make_node(
        "EfficientNMS_TRT", ["boxes", "scores"], ["n", "b", "s", "c"], name="nms", domain="TRT",
        plugin_version="1", max_output_boxes=3, score_threshold=0.3, iou_threshold=0.5,
    )  # fmt: skip
    return onnx_model(
        [node],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("boxes", BOXES.shape), ("scores", SCORES.shape))
        ],
        [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in zip("nbsc", (6, 1, 1, 6), strict=True)
        ],
        opset=13,
        domains={"TRT": 1},
        ir_version=8,
    ).SerializeToString()


def test_a_node_of_its_name_is_the_plugin(network, log) -> None:
    assert trt.init_libnvinfer_plugins(log, "")
    assert trt.OnnxParser(network, log).parse(file()), log.messages
    assert [network.get_output(i).shape for i in range(4)] == [(1, 1), (1, 3, 4), (1, 3), (1, 3)]
    count, _, scores, _ = outputs_of(network, log, boxes=BOXES, scores=SCORES)
    assert int(count[0, 0]) == 3 and scores[0] == pytest.approx([0.9, 0.7, 0.6])


def test_a_network_with_plugins_is_calibrated_in_front_of_them(small, log) -> None:
    tail = small.get_output(0)
    small.unmark_output(tail)
    boxes = small.add_input("boxes", trt.float32, (-1, 5, 4))
    scores = small.add_shuffle(tail)
    scores.reshape_dims = (-1, 5, 1)
    layer = small.add_plugin_v2([boxes, scores.get_output(0)], plugin())
    for i in range(4):
        small.mark_output(layer.get_output(i))

    class Batches(trt.IInt8MinMaxCalibrator):
        left = 2

        def get_batch_size(self) -> int:
            return 2

        def get_batch(self, names: list[str]) -> list | None:
            self.left -= 1
            noise = np.random.default_rng(self.left + 1)
            shapes = {"x": (2, 16, 8, 8), "boxes": (2, 5, 4)}
            return [noise.random(shapes[n], np.float32) for n in names] if self.left >= 0 else None

    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = Batches()
    engine = builder.build_engine(small, config)
    assert engine is not None, log.messages
    layers = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.ONELINE)
    assert "INT8" in layers and "EfficientNMS" in layers

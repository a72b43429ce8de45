"""EfficientNMS_TRT, the plugin of TensorRT's own library that detectors end in, on a CPU."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError, UnsupportedError
from intact.trt.base.enums import DataType, PluginFieldType
from intact.trt.base.itensor import at_address
from intact.trt.plugins.plugin_interfaces import (
    IPluginCreator,
    IPluginV2DynamicExt,
    PluginField,
    PluginFieldCollection,
)
from intact.trt.plugins.plugin_registry import get_plugin_registry

NAME = "EfficientNMS_TRT"
FIELDS: dict[str, tuple[type, PluginFieldType, Any]] = {
    "score_threshold": (float, PluginFieldType.FLOAT32, 0.25),
    "iou_threshold": (float, PluginFieldType.FLOAT32, 0.5),
    "max_output_boxes": (int, PluginFieldType.INT32, 100),
    "background_class": (int, PluginFieldType.INT32, -1),
    "score_activation": (int, PluginFieldType.INT32, 0),
    "class_agnostic": (int, PluginFieldType.INT32, 0),
    "box_coding": (int, PluginFieldType.INT32, 0),
}
"""Each parameter: its kind, the type of its field, what it is where a script leaves it out."""
CANDIDATES = 4096
"""Only so many scores, the highest ones, are looked at in each image."""


class EfficientNMS(IPluginV2DynamicExt):
    """Boxes [N, B, 4] or [N, B, C, 4] and scores [N, B, C] in; count, boxes, scores and classes out.

    Outputs are int32 [N, 1], float32 [N, K, 4] (corners) and [N, K], int32 [N, K], K = ``max_output_boxes``;
    what lies behind the count is zero. A third input, anchors [1 or N, B, 4], is what boxes are decoded from.
    """

    plugin_type = NAME
    num_outputs = 4

    def __init__(self, parameters: dict[str, Any]) -> None:
        super().__init__()
        self.parameters = {
            name: kind(parameters.get(name, default)) for name, (kind, _, default) in FIELDS.items()
        }
        if self.parameters["max_output_boxes"] < 1:
            raise QuantValueError(NAME, "max_output_boxes < 1", "at least 1", "correct the field")

    def get_output_datatype(self, index: int, input_types: list[DataType]) -> DataType:
        """Return the type of an output: int32 for classes and counts, float32 for boxes and scores."""
        return DataType.INT32 if index in (0, 3) else DataType.FLOAT

    def get_output_dimensions(self, index: int, inputs: list[Any], builder: Any) -> list[Any]:
        """Return the sizes: the batch, then the count, or as many rows as `max_output_boxes` says."""
        batch, rows = inputs[0][0], builder.constant(self.parameters["max_output_boxes"])
        shapes = [
            [batch, builder.constant(1)],
            [batch, rows, builder.constant(4)],
            [batch, rows],
            [batch, rows],
        ]
        return shapes[index]

    def supports_format_combination(self, pos: int, descriptions: list[Any], num_inputs: int) -> bool:
        """Return whether types fit: floats in, floats and int32 out."""
        wanted = DataType.FLOAT if pos < num_inputs else self.get_output_datatype(pos - num_inputs, [])
        return bool(descriptions[pos].type == wanted)

    def serialize(self) -> bytes:
        """Serialize the parameters."""
        return json.dumps(self.parameters, sort_keys=True).encode()

    def clone(self) -> EfficientNMS:
        """Copy the plugin."""
        return EfficientNMS(self.parameters)

    def enqueue(
        self, input_desc: list[Any], output_desc: list[Any], inputs: list[int], outputs: list[int],
        workspace: int, stream: int,
    ) -> int:  # fmt: skip
        """Suppress boxes, image by image."""
        arrays_in = [
            at_address(a, tuple(d.dims), d.type.numpy) for a, d in zip(inputs, input_desc, strict=True)
        ]
        arrays_out = [
            at_address(a, tuple(d.dims), d.type.numpy) for a, d in zip(outputs, output_desc, strict=True)
        ]
        boxes, scores = arrays_in[0], arrays_in[1]
        boxes = self._corners(boxes, arrays_in[2] if len(arrays_in) > 2 else None)
        if self.parameters["score_activation"]:
            scores = np.float32(1) / (np.float32(1) + np.exp(-scores))
        for array in arrays_out:
            array[...] = 0
        for image in range(len(scores)):
            self._suppress(boxes[image], scores[image], [array[image] for array in arrays_out])
        return 0

    def _corners(self, boxes: NDArray, anchors: NDArray | None) -> NDArray:
        """Convert boxes [N, B, 1 or C, 4] to their corners."""
        boxes = boxes.astype(np.float32)
        boxes = boxes if boxes.ndim == 4 else boxes[:, :, None, :]
        centered = self.parameters["box_coding"] == 1
        if anchors is not None:
            if not centered:
                raise UnsupportedError(
                    NAME, "anchors with box_coding 0", "box_coding 1", "decode the boxes in front of it"
                )
            anchors = anchors.astype(np.float32)[:, :, None, :]
            middle = boxes[..., :2] * anchors[..., 2:] + anchors[..., :2]
            boxes = np.concatenate([middle, np.exp(boxes[..., 2:]) * anchors[..., 2:]], axis=-1)
        if centered:
            half = boxes[..., 2:] * np.float32(0.5)
            boxes = np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)
        return boxes

    def _suppress(self, boxes: NDArray, scores: NDArray, outputs: list[NDArray]) -> None:
        """Write one image's boxes [B, 1 or C, 4] and scores [B, C], best first, into its outputs."""
        wanted = scores >= self.parameters["score_threshold"]
        if 0 <= self.parameters["background_class"] < scores.shape[1]:
            wanted[:, self.parameters["background_class"]] = False
        rows, classes = np.nonzero(wanted)
        best = np.argsort(-scores[rows, classes], kind="stable")[:CANDIDATES]
        rows, classes = rows[best], classes[best]
        corners = boxes[rows, classes if boxes.shape[1] > 1 else np.zeros_like(classes)]
        areas = np.prod(np.maximum(corners[:, 2:] - corners[:, :2], 0), axis=1)
        alive, chosen = np.ones(len(rows), bool), []
        for i in range(len(rows)):
            if not alive[i]:
                continue
            chosen.append(i)
            if len(chosen) == self.parameters["max_output_boxes"]:
                break
            alive &= ~self._find_overlaps(i, corners, areas, classes)
        count, kept_boxes, kept_scores, kept_classes = outputs
        count[0] = len(chosen)
        kept_boxes[: len(chosen)] = corners[chosen]
        kept_scores[: len(chosen)] = scores[rows[chosen], classes[chosen]]
        kept_classes[: len(chosen)] = classes[chosen]

    def _find_overlaps(self, i: int, corners: NDArray, areas: NDArray, classes: NDArray) -> NDArray:
        """Mark the boxes that overlap box `i` by more than is allowed: of its class, unless classes do not
        count.
        """
        low, high = np.maximum(corners[:, :2], corners[i, :2]), np.minimum(corners[:, 2:], corners[i, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = areas + areas[i] - shared
        over: NDArray = shared > self.parameters["iou_threshold"] * union
        return over if self.parameters["class_agnostic"] else over & (classes == classes[i])


class EfficientNMSCreator(IPluginCreator):
    """Makes `EfficientNMS` from fields, from nodes of ONNX files of that name, and from engines."""

    name = NAME
    field_names = PluginFieldCollection(
        PluginField(name, np.asarray([default], np.float32 if kind is float else np.int32), type)
        for name, (kind, type, default) in FIELDS.items()
    )

    def create_plugin(self, name: str, field_collection: Any, *_: Any) -> EfficientNMS:
        """Create the plugin that `field_collection` describes; unknown fields are ignored."""
        fields = (field for field in field_collection if field.name in FIELDS)
        return EfficientNMS({field.name: np.asarray(field.data).reshape(-1)[0] for field in fields})

    def deserialize_plugin(self, name: str, data: bytes) -> EfficientNMS:
        """Recreate the plugin from the bytes of `serialize`."""
        return EfficientNMS(json.loads(bytes(data)))


def install() -> None:
    """Register the plugin's creator, unless a script has registered one of its own."""
    if get_plugin_registry().get_creator(NAME, "1") is None:
        get_plugin_registry().register_creator(EfficientNMSCreator())

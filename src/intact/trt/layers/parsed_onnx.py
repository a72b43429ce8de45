"""Layers that a parser reads from an ONNX file: one node each, written back as it was."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from intact.graph import TypedComposer
from intact.trt.base.operation_enums import LayerType, layer_type_of
from intact.trt.layers.base import ILayer

SIZES: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "CenterCropPad": (1,), "ConstantOfShape": (0,), "Expand": (1,), "MaxUnpool": (2,),
    "OneHot": (1,), "Pad": (1,), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (2, 3), "Slice": (1, 2, 3, 4),
    "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,), "Upsample": (1,),
    "BlackmanWindow": (0,), "Col2Im": (1, 2), "DFT": (1,), "HammingWindow": (0,), "HannWindow": (0,),
    "MelWeightMatrix": (0, 1), "STFT": (1, 3),
    **dict.fromkeys((
        "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceProd", "ReduceSum", "ReduceSumSquare",
    ), (1,)),
}  # fmt: skip
"""ONNX's operators with inputs whose values say what shapes the outputs have, and which those are."""
COUNTED = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose data say how large the outputs are."""


class IOnnxLayer(ILayer):
    """A node of an ONNX file.

    Attributes:
        node: The node (an ``onnx.NodeProto``).
    """

    IS_PARSED = True
    node: Any = None

    def _is(self, kinds: Container[str]) -> bool:
        return self.node is not None and not self.node.domain and self.node.op_type in kinds

    @property
    def VALUES(self) -> tuple[int, ...]:  # type: ignore[override]
        """Inputs whose values determine the shape of the output."""
        return SIZES[self.node.op_type] if self._is(SIZES) else ()

    @property
    def DATA_DEPENDENT(self) -> bool:  # type: ignore[override]
        """Return whether the data, and not only shapes, decide the sizes of the outputs."""
        return self._is(COUNTED)

    @property
    def OF_SHAPES(self) -> bool:  # type: ignore[override]
        """Return whether the output follows from the shapes of the inputs."""
        return self._is(("Shape", "Size"))

    def _title(self) -> str:
        return str(self.node.op_type) if self.node is not None else "Onnx"

    def _count(self) -> int:
        return len(self.node.output)

    def layer_type(self) -> LayerType:
        """Return TensorRT's type of the layer."""
        return layer_type_of(self.node.op_type) if not self.node.domain else LayerType.PLUGIN_V2

    def _cast_to(self, index: int) -> int | None:
        """Return the ONNX type that an output of the network was given; other types are the file's."""
        return super()._cast_to(index) if self._outputs[index].is_network_output else None

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        """Copy the node; outputs that it leaves unnamed stay so."""
        outputs = [name if wanted else "" for name, wanted in zip(y, self.node.output, strict=True)]
        c.copy(self.node, x, outputs, self.name)

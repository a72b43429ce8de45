"""Move DequantizeLinear up through operators that move codes, to the QuantizeLinear above them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.quantization_view import QuantizedValue, is_op, quantization_of
from intact.graph.core.scene import Scene


def lift_dequantize(model: ir.Model) -> None:
    """Let operators that move codes move floats instead, in place; the numbers stay the same.

    Before: ``Q(x) -> MaxPool -> Reshape -> DQ``.  After: ``Q(x) -> DQ -> MaxPool -> Reshape``.

    Guards: one scale; whoever reads the moved codes dequantizes them alike; the codes are no constant; a Pad
    fills with a constant.
    """
    lifter = _Lifter(model.graph)
    waiting = [node for node in reversed(list(model.graph)) if is_op(node, "DequantizeLinear")]
    while waiting:
        waiting = [new for node in waiting for new in lifter.lift(node)]


class _Lifter:
    def __init__(self, graph: ir.Graph) -> None:
        self._graph, self._scene = graph, Scene(graph)
        self._constants = self._scene.constants

    def lift(self, node: ir.Node) -> list[ir.Node]:
        """Return the DequantizeLinear nodes that stand in front of the moving operator now."""
        codes = node.inputs[0] if node.graph is not None else None
        mover = codes.producer() if codes is not None else None
        view = quantization_of(node.outputs[0], self._constants) if node.graph is not None else None
        if mover is None or view is None or view.constant or view.spec.axis is not None:
            return []
        if not ops.may_move(mover) or mover.graph is not self._graph or self._interpolates(mover):
            return []
        behind = [v for v in mover.outputs if v.dtype is None or v.dtype == view.codes.dtype]
        readers = [use.node for value in behind for use in value.uses()]
        if any(v.is_graph_output() for v in behind) or not all(self._is_like(r, view) for r in readers):
            return []
        fill = self._fill(mover, view)
        if fill is None:
            return []
        return self._swap(mover, node, readers, behind, ops.data_inputs(mover), fill)

    def _interpolates(self, mover: ir.Node) -> bool:
        """Return whether `mover` makes new values; a Pad does not, because its fill moves along."""
        return not is_op(mover, "Pad") and bool(ops.computes(mover, self._constants))

    def _is_like(self, reader: ir.Node, view: QuantizedValue) -> bool:
        """Return whether `reader` dequantizes as `view` does."""
        other = quantization_of(reader.outputs[0], self._constants) if reader.outputs else None
        return (
            other is not None and other.spec == view.spec and other.value.dtype == view.value.dtype
            and bool(other.scale == view.scale) and bool(other.zero_point == view.zero_point)
        )  # fmt: skip

    def _fill(self, mover: ir.Node, view: QuantizedValue) -> float | None:
        """Return the real that a Pad fills with; 0 for other operators, None where it is computed."""
        if mover.op_type != "Pad":
            return 0.0
        fill_value = mover.inputs[2] if len(mover.inputs) > 2 else None
        code = self._constants(fill_value) if fill_value is not None else np.zeros(1, np.int32)
        if code is None:
            return None
        return float((np.float32(code.reshape(-1)[0]) - np.float32(view.zero_point)) * view.scale)

    def _swap(
        self, mover: ir.Node, node: ir.Node, readers: list[ir.Node], behind: list[ir.Value],
        inputs: Sequence[int], fill: float,
    ) -> list[ir.Node]:  # fmt: skip
        insert, dtype, parameters = (
            self._scene.inserter(mover),
            node.outputs[0].dtype,
            node.inputs,
        )
        dequantized: dict[ir.Value, ir.Value] = {}
        for index in inputs:
            codes = mover.inputs[index]
            assert codes is not None
            if codes not in dequantized:
                dequantized[codes] = insert.node(
                    "DequantizeLinear",
                    [codes, *parameters[1:]],
                    f"{codes.name}.real",
                    dtype=dtype,
                    shape=codes.shape,
                )
            mover.replace_input_with(index, dequantized[codes])
        if mover.op_type == "Pad" and (fill or len(mover.inputs) > 2):
            mover.resize_inputs(max(3, len(mover.inputs)))
            real = np.array(fill, np.float32 if dtype is None else dtype.numpy())
            mover.replace_input_with(2, insert.constant(f"{mover.name}.fill", real))
        for value in behind:
            value.type = None if dtype is None else ir.TensorType(dtype)
        for reader in dict.fromkeys(readers):
            moved = reader.inputs[0]
            assert moved is not None
            self._scene.replace(reader, moved)
        return [producer for value in dequantized.values() if (producer := value.producer()) is not None]

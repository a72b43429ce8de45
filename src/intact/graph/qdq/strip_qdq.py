"""Remove Q/DQ pairs from a model, and report the grid of each tensor that had one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact import numerics
from intact.graph import ops
from intact.graph.core.build import is_read
from intact.graph.core.prune import move_constants_first, prune
from intact.graph.core.quantization_view import QuantizedValue, is_op, quantization_of, quantized_bias_of
from intact.graph.core.scene import Note, Scene
from intact.graph.infer.branches import branches_of, graft
from intact.graph.qdq.code_bounds import CODE_BOUNDS
from intact.graph.qdq.dynamic_layers import DYNAMIC, DYNAMIC_DATA, is_dynamic
from intact.graph.qdq.emit_qdq import QUANTIZER_KEY, REASON_KEY
from intact.graph.qdq.lift_dequantize import lift_dequantize
from intact.spec import QuantSpec

_CODES_SUFFIXES = (".codes", "_quantized", ".int8")
"""Suffixes that tools give to the codes of a tensor: ours, ONNX Runtime's, and `normalize`'s."""


@dataclass(frozen=True)
class Stripped:
    """Quantization of a tensor before `strip_qdq`.

    Attributes:
        spec: Grid and granularity.
        scale: float32, granule shape.
        zero_point: int32, granule shape.
        bounds: Floats that a Clip of the codes left, as where 7 bits of 8 are used.
    """

    spec: QuantSpec
    scale: NDArray[np.float32]
    zero_point: NDArray[np.int32]
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def range(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(rmin, rmax): the floats that the codes reached."""
        low, high = numerics.representable_range(self.scale, self.zero_point, self.spec)
        return np.maximum(low, np.float32(self.bounds[0])), np.minimum(high, np.float32(self.bounds[1]))


def strip_qdq(model: ir.Model, *, keeps_codes: bool = False) -> dict[str, Stripped]:
    """Remove Q/DQ pairs, in place, and return how each tensor was quantized.

    Before: ``y = Conv(DQ(Q(x)), DQ(w_codes), DQ(b_codes))``.  After: ``y = Conv(x, w, b)``, w and b the
    floats of their codes; casts and clips that our emitter put around a pair go with it. Operators that moved
    codes move floats. A DequantizeLinear stays where its scale is computed, or where its codes come from
    anything but a QuantizeLinear. Layers that quantize their input anew for each batch, and those whose
    weights alone have codes, become the float layers that they stand for (`DYNAMIC`). So in the
    branches of an If.

    Args:
        model: Changed.
        keeps_codes: Layers whose weights alone have codes stay (`DYNAMIC_DATA`), and so does a
            DequantizeLinear of weights of 4 bits.
    Returns:
        By the name of the float tensor: the input of the QuantizeLinear, or the stored weight.
    """
    (DYNAMIC_DATA if keeps_codes else DYNAMIC)(model)
    move_constants_first(model)
    CODE_BOUNDS(model)
    lift_dequantize(model)
    stripper = _Stripper(model.graph, keeps_codes)
    for node in list(model.graph):
        node.metadata_props.pop(REASON_KEY, None)
        if is_op(node, "DequantizeLinear"):
            stripper.strip(node)
    for branch in branches_of(model):
        dynamic = any(map(is_dynamic, branch.model.graph.all_nodes()))
        if (within := strip_qdq(branch.model, keeps_codes=keeps_codes)) or dynamic:
            graft(model, branch, branch.model)
            stripper.pairs = within | stripper.pairs
    prune(model)
    return stripper.pairs


def strip_dynamic(model: ir.Model, *, keeps_codes: bool = False) -> list[Note]:
    """Run `strip_qdq` on a model with dynamic quantization and no QuantizeLinear, in place.

    Such a file holds nothing that its float network does not, but for the codes of its weights.

    Args:
        model: Changed.
        keeps_codes: See `strip_qdq`.
    Returns:
        The notes of `DYNAMIC`.
    """
    if any(is_op(node, "QuantizeLinear") for node in model.graph.all_nodes()):
        return []
    notes = (DYNAMIC_DATA if keeps_codes else DYNAMIC)(model)
    if any(note.changed for note in notes) or any(map(is_dynamic, model.graph.all_nodes())):
        strip_qdq(model, keeps_codes=keeps_codes)
    return notes


class _Stripper:
    def __init__(self, graph: ir.Graph, keeps_codes: bool) -> None:
        self.pairs: dict[str, Stripped] = {}
        self._keeps_codes = keeps_codes
        self._graph, self._scene = graph, Scene(graph)
        self._constants = self._scene.constants
        self._stored: dict[tuple[ir.Value | None, ...], ir.Value] = {}

    def strip(self, node: ir.Node) -> None:
        """Take one DequantizeLinear away, where that can be done."""
        if self._keeps_codes and has_few_bits(node) and self._constants(node.outputs[0]) is not None:
            return
        view = quantization_of(node.outputs[0], self._constants)
        if view is not None and (view.source is not None or view.constant):
            value = (
                self._bypass(node, view.source) if view.source is not None else self._dequantize(node, view)
            )
            bounds = self._bounds(view.source)
            stripped = Stripped(view.spec, view.scale, view.zero_point, bounds or (-np.inf, np.inf))
            if bounds is not None:
                self.pairs[value.name or ""] = stripped
            self.pairs.setdefault(value.name or "", stripped)
        elif view is None and (bias := quantized_bias_of(node.outputs[0], self._constants)) is not None:
            scale = bias.scale if bias.scale.size > 1 else bias.scale.reshape(())
            self._store(node, bias.codes.astype(np.float32) * scale)
        elif view is None and (floats := self._constants(node.outputs[0])) is not None:
            self._store(node, floats.astype(np.float32))  # a scale below 0, which is no grid of ours

    def _bounds(self, source: ir.Value | None) -> tuple[float, float] | None:
        """Return the ends of the Clip that is a part of a pair; None where there is none."""
        clip = source.producer() if source is not None else None
        if clip is None or not is_op(clip, "Clip") or QUANTIZER_KEY not in clip.metadata_props:
            return None
        low, high = (self._constants(value) for value in (*clip.inputs[1:], None, None)[:2])
        return -np.inf if low is None else float(low), np.inf if high is None else float(high)

    def _bypass(self, node: ir.Node, source: ir.Value) -> ir.Value:
        """Connect the readers of a pair to its input."""
        origin, output = _origin(source), node.outputs[0]
        if origin.dtype == output.dtype or origin.dtype is None or output.dtype is None:
            self._scene.replace(node, origin)
            return origin
        for reader in list(output.consumers()):
            if is_op(reader, "Cast") and ops.Cast.of(reader).to == origin.dtype:
                self._scene.replace(reader, origin)
        if is_read(output):
            insert = self._scene.inserter(node)
            cast = insert.node(
                "Cast",
                [origin],
                f"{origin.name}.cast",
                dtype=output.dtype,
                shape=output.shape,
                to=int(output.dtype),
            )
            self._scene.replace(node, cast)
        else:
            self._graph.remove(node, safe=True)
        return origin

    def _dequantize(self, node: ir.Node, view: QuantizedValue) -> ir.Value:
        codes = self._constants(view.codes)
        assert codes is not None
        q = codes.astype(np.float32) if view.spec.format.is_float else codes.astype(np.int32)
        return self._store(node, numerics.dequantize(q, view.scale, view.zero_point, view.spec))

    def _store(self, node: ir.Node, floats: NDArray[np.float32]) -> ir.Value:
        """Store the floats of codes as an initializer, with the tensor's name before it was quantized."""
        key, output = tuple(node.inputs), node.outputs[0]
        if key not in self._stored:
            name = (key[0].name if key[0] is not None else "") or "weight"
            suffix = next((s for s in _CODES_SUFFIXES if name.endswith(s) and name != s), "")
            dtype = ir.DataType.FLOAT if output.dtype is None else output.dtype
            insert = self._scene.inserter(node)
            self._stored[key] = insert.constant(name.removesuffix(suffix), floats.astype(dtype.numpy()))
        self._scene.replace(node, self._stored[key])
        return self._stored[key]


_FEW_BITS = (ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT2, ir.DataType.UINT2)


def has_few_bits(node: ir.Node) -> bool:
    """Return whether a node is a DequantizeLinear of codes of 4 bits or fewer."""
    codes = node.inputs[0] if is_op(node, "DequantizeLinear") else None
    return codes is not None and codes.dtype in _FEW_BITS


def _origin(value: ir.Value) -> ir.Value:
    """Return the value that our emitter clipped or cast to `value` for its pair."""
    node = value.producer()
    while (
        node is not None
        and QUANTIZER_KEY in node.metadata_props
        and is_op(node, "Cast", "Clip", "Max", "Min")
    ):
        assert node.inputs[0] is not None
        value = node.inputs[0]
        node = value.producer()
    return value

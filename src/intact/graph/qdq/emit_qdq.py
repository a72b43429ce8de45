"""Replace markers by QuantizeLinear/DequantizeLinear pairs, as the chosen opset can write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact import kernels, numerics
from intact.errors import IntactError, UnsupportedError
from intact.graph import ops
from intact.graph.core.build import Inserter, Namer, replace
from intact.graph.core.scene import Scene
from intact.graph.opset.downgrade import MIN_OPSET
from intact.graph.opset.upgrade import MAX_OPSET
from intact.graph.qdq.layer_weights import settle_weights
from intact.graph.qdq.markers import Marker, find_markers
from intact.spec import Format, QuantSpec

QUANTIZER_KEY = "intact.quantizer"
"""Metadata of a pair's nodes: the quantizer that asked for it."""

REASON_KEY = "intact.reason"
"""Metadata of a node that has another format than rules alone would give it: the reason."""

FORMAT_OPSETS = {
    "int8": 10, "uint8": 10, "fp8e4m3": 19, "fp8e5m2": 19, "int16": 21, "uint16": 21, "int4": 21,
    "uint4": 21, "fp4e2m1": 23,
}  # fmt: skip
"""The first opset whose QuantizeLinear writes a format (10 per tensor; an axis needs 13).

Integers of other widths are written as 8 or 16 bits, of which a Clip leaves their codes."""

_BLOCK_OPSET = 21

_TYPES = {
    "int8": ir.DataType.INT8, "uint8": ir.DataType.UINT8, "int16": ir.DataType.INT16,
    "uint16": ir.DataType.UINT16, "int4": ir.DataType.INT4, "uint4": ir.DataType.UINT4,
    "fp8e4m3": ir.DataType.FLOAT8E4M3FN, "fp8e5m2": ir.DataType.FLOAT8E5M2,
    "fp4e2m1": ir.DataType.FLOAT4E2M1,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One emitted pair, and the marker that it replaced.

    Attributes:
        quantizer: Module path of the quantizer.
        spec: Grid and granularity of the quantized tensor, as the module has it.
        scale, zero_point: Granule shape.
        real: Name of the float32 value behind the DequantizeLinear.
        perm: How `real` is transposed against the module's tensor; None where it is not.
        order: Of each element of `real`, its place in the module's tensor, flat; None: `perm` says it all.
        constant: The tensor is a constant of the graph: a weight.
        folded: Its codes are stored in the file: there is no QuantizeLinear.
    """

    quantizer: str
    spec: QuantSpec
    scale: NDArray[np.float32]
    zero_point: NDArray[np.int32]
    real: str
    perm: tuple[int, ...] | None
    constant: bool
    folded: bool
    order: NDArray[np.int64] | None = None

    def as_in_module(self, real: NDArray, shape: tuple[int, ...]) -> NDArray:
        """Transpose the file's array `real` to the layout of the module's tensor of `shape`."""
        if self.perm is not None:
            return real.transpose(np.argsort(self.perm))
        if self.order is None:
            return real
        array = np.empty(self.order.size, real.dtype)
        array[self.order.reshape(-1)] = real.reshape(-1)
        return array.reshape(shape)


@dataclass(frozen=True)
class _Emitted:
    real: ir.Value  # float32, behind the DequantizeLinear
    output: ir.Value  # the same in the dtype that the readers had
    perm: tuple[int, ...] | None
    constant: bool


def emit_qdq(model: ir.Model, opset: int, *, fold_weights: bool = True, share: bool = True) -> list[Pair]:
    """Replace every marker by a pair, in place.

    Before: ``y = FakeQuantize(x, amax)``.  After: ``y = DequantizeLinear(QuantizeLinear(x, s, zp), s, zp)``;
    where `x` is constant and `fold_weights`: ``y = DequantizeLinear(codes, s, zp)``.

    A narrow grid, and one of a width that ONNX has no type for, clips in front of the QuantizeLinear, so that
    the codes which it drops cannot appear.
    float16, bfloat16 and float64 are cast to float32 first and back behind: an int8 grid has no exact float16
    scale, and the module computes in float32.

    Args:
        model: Holds markers; changed.
        opset: What the pairs may use; the rest of the graph is `set_opset`'s matter.
        fold_weights: Store the codes of constant tensors instead of their floats.
        share: One pair for all markers that say the same of one tensor; False: one for each marker.
    Returns:
        One record per marker, in the graph's order.
    Raises:
        UnsupportedError: The opset has no type for a quantizer's format, or a quantizer keeps a scale along
            several axes that are not one where its tensor is read.
        CalibrationError: A quantizer has no constant range.
    """
    reordered = settle_weights(model)
    emitter = _Emitter(model.graph, opset, fold_weights, share)
    pairs = []
    for marker in find_markers(model):
        new = reordered.get(marker.node)
        scale, zero_point, emitted = emitter.emit(marker)
        if new is not None:
            scale, zero_point = _parameters(new.before)
        pairs.append(Pair(
            marker.quantizer, marker.spec if new is None else new.before.spec, scale, zero_point,
            emitted.real.name or "", emitted.perm, emitted.constant, emitted.constant and fold_weights,
            None if new is None else new.order,
        ))  # fmt: skip
    model.opset_imports.pop("intact", None)
    return pairs


class _Emitter:
    def __init__(self, graph: ir.Graph, opset: int, fold_weights: bool, share: bool) -> None:
        self._graph, self._opset, self._fold, self._share = graph, opset, fold_weights, share
        self._scene = Scene(graph)
        self._names, self._constants = self._scene.names, self._scene.constants
        self._shared: dict[tuple[object, ...], _Emitted] = {}

    def emit(self, marker: Marker) -> tuple[NDArray[np.float32], NDArray[np.int32], _Emitted]:
        try:
            check_format(marker.spec.format, self._opset)
            if len(marker.spec.axes) > 1:
                raise UnsupportedError(
                    "axis", f"{marker.spec.axis}",
                    "one axis: QuantizeLinear has one scale per tensor, or per index of one axis",
                    "quantize per tensor or along one axis, or leave this quantizer out of the export",
                )  # fmt: skip
            if marker.spec.block_size is not None and self._opset < _BLOCK_OPSET:
                raise UnsupportedError(
                    "block_size", f"{marker.spec.block_size} at opset {self._opset}",
                    f"opset {_BLOCK_OPSET} or newer", "choose such an opset, or a scale per channel",
                )  # fmt: skip
            if marker.spec.axis is not None and self._opset < MIN_OPSET:
                raise UnsupportedError(
                    "axis", f"{marker.spec.axis} at opset {self._opset}",
                    f"opset {MIN_OPSET} or newer: the first with scales per channel",
                    "choose such an opset, or one scale per tensor",
                )  # fmt: skip
            scale, zero_point = _parameters(marker)
            return scale, zero_point, self._emit(marker, scale, zero_point)
        except IntactError as error:
            named = error.where.startswith(marker.quantizer)
            raise error if named else error.at(marker.quantizer) from None

    def _emit(self, marker: Marker, scale: NDArray, zero_point: NDArray) -> _Emitted:
        x = marker.node.inputs[0]
        assert x is not None
        constant = self._constants(x)
        perm = _sink_transposes(marker.node, self._names) if constant is not None else None
        content = x if constant is None else _Content(constant)
        key: tuple[object, ...] = (content, marker.spec, perm, scale.tobytes(), zero_point.tobytes())
        key = key if self._share else (marker.node,)
        if key not in self._shared:
            self._shared[key] = self._build(marker, constant, perm, scale, zero_point)
        emitted = self._shared[key]
        replace(marker.node, emitted.output, self._names)
        return emitted

    def _build(
        self, marker: Marker, constant: NDArray | None, perm: tuple[int, ...] | None,
        scale: NDArray, zero_point: NDArray,
    ) -> _Emitted:  # fmt: skip
        x = marker.node.inputs[0]
        assert x is not None
        insert = _PairInserter(self._scene.inserter(marker.node), marker, scale, zero_point)
        as_it_is = x.is_initializer() and x.dtype == ir.DataType.FLOAT and perm is None and not insert.clips
        if constant is None:
            codes = insert.quantize(insert.clip(insert.to_float32(x)))
        elif as_it_is and not self._fold:
            codes = insert.with_names_of(x).quantize(x)
        else:
            base = x.name if x.is_initializer() else marker.quantizer
            codes = insert.weight(constant, perm, base or marker.quantizer, self._fold)
        real = insert.dequantize(codes)
        output = insert.cast(real, marker.node.outputs[0].dtype)
        return _Emitted(real, output, perm, constant is not None)


class _PairInserter:
    """The nodes of one pair, in front of its marker."""

    def __init__(self, insert: Inserter, marker: Marker, scale: NDArray, zero_point: NDArray) -> None:
        self._insert, self._marker, self._spec = insert, marker, marker.spec
        self._scale, self._zero_point = scale, zero_point
        self._base = marker.quantizer
        self._stored = stored_format(marker.spec.format)
        self._type = _TYPES[self._stored.name]
        assert not isinstance(marker.spec.axis, tuple), "`_Emitter.emit` refuses several axes"
        self._axis = marker.spec.axis

    def to_float32(self, x: ir.Value) -> ir.Value:
        return self._cast(x, ir.DataType.FLOAT, f"{self._base}.float32")

    def cast(self, x: ir.Value, dtype: ir.DataType | None) -> ir.Value:
        """Cast `x` to the dtype that the marker's readers expect."""
        return self._cast(x, dtype or ir.DataType.FLOAT, f"{self._base}.{str(dtype).lower()}")

    def _cast(self, x: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
        if x.dtype in (dtype, None):
            return x
        return self._tag(self._insert.node("Cast", [x], name, dtype=dtype, shape=x.shape, to=int(dtype)))

    def with_names_of(self, x: ir.Value) -> _PairInserter:
        """Return an inserter for nodes and constants that are named after `x`."""
        self._base = x.name or self._base
        return self

    @property
    def clips(self) -> bool:
        """Return whether the grid excludes codes that QuantizeLinear would use."""
        return (self._spec.qmin, self._spec.qmax) != (self._stored.qmin, self._stored.qmax)

    def clip(self, x: ir.Value) -> ir.Value:
        """Clip `x` to the floats of a grid that drops codes; QuantizeLinear would use them."""
        if not self.clips:
            return x
        bounds = numerics.representable_range(self._scale, self._zero_point, self._spec)
        if self._axis is None:
            low, high = (self._float_constant(n, b) for n, b in zip(("low", "high"), bounds, strict=True))
            return self._real("Clip", [x, low, high], "clipped")
        if x.shape is None:
            raise UnsupportedError(
                "shape",
                "an unknown rank",
                "a known rank, to clip each channel",
                "export without narrow_range",
            )
        spread = [1] * len(x.shape)
        spread[self._axis] = -1
        low, high = (
            self._float_constant(n, b.reshape(spread)) for n, b in zip(("low", "high"), bounds, strict=True)
        )
        return self._real("Min", [self._real("Max", [x, low], "above"), high], "clipped")

    def _real(self, op_type: str, inputs: list[ir.Value], suffix: str) -> ir.Value:
        x = inputs[0]
        return self._tag(
            self._insert.node(op_type, inputs, f"{self._base}.{suffix}", dtype=x.dtype, shape=x.shape)
        )

    def _tag(self, output: ir.Value) -> ir.Value:
        """Mark the node of `output` as this quantizer's."""
        node = output.producer()
        assert node is not None
        node.metadata_props[QUANTIZER_KEY] = self._marker.quantizer
        return output

    def _float_constant(self, name: str, values: NDArray) -> ir.Value:
        return self._insert.constant(f"{self._base}.{name}", np.asarray(values, np.float32))

    def quantize(self, x: ir.Value) -> ir.Value:
        self._make_parameters()
        return self._pair_node("QuantizeLinear", x, f"{self._base}.codes", self._type)

    def dequantize(self, codes: ir.Value) -> ir.Value:
        return self._pair_node("DequantizeLinear", codes, f"{self._base}.output", ir.DataType.FLOAT)

    def weight(self, constant: NDArray, perm: tuple[int, ...] | None, base: str, fold: bool) -> ir.Value:
        """Return the codes of a constant: stored, or computed by a QuantizeLinear from the stored floats."""
        x: NDArray = numerics.to_float32(constant)
        q = self._codes(x)
        self._base = base
        if perm is not None:
            self._axis = None if self._axis is None else perm.index(self._axis % x.ndim)
            x, q = x.transpose(perm), q.transpose(perm)
            if self._spec.block_size is not None:
                self._scale, self._zero_point = self._scale.transpose(perm), self._zero_point.transpose(perm)
        if fold:
            self._make_parameters()
            codes = numerics.store(q, self._spec)
            return self._insert.constant(f"{base}.codes", codes, self._type)
        # Reals beyond a narrow grid are clipped in the stored tensor: nodes between a weight and its pair
        # would keep compilers from folding it, and the codes are the same.
        if self.clips:
            x = self._clip(x)
        stored = self._insert.constant(f"{base}.real", x)
        return self.quantize(stored)

    def _codes(self, x: NDArray) -> NDArray:
        format = self._spec.format
        if format.is_float or format.bits > 8 or np.isnan(x).any():  # NaN, which kernels take, is refused
            return numerics.quantize(x, self._scale, self._zero_point, self._spec)
        return kernels.quantize(x, self._scale, self._zero_point, self._spec)

    def _clip(self, x: NDArray) -> NDArray:
        spec = self._spec.with_(axis=self._axis)
        low, high = numerics.representable_range(self._scale, self._zero_point, spec)
        clipped: NDArray = np.minimum(
            np.maximum(x, numerics.expand(low, x.shape, spec)), numerics.expand(high, x.shape, spec)
        )
        return clipped

    def _make_parameters(self) -> None:
        zero_point = numerics.store(self._zero_point, self._spec)
        self._scale_value = self._insert.constant(f"{self._base}.scale", self._scale)
        self._zero_value = self._insert.constant(f"{self._base}.zero_point", zero_point, self._type)

    def _pair_node(self, op_type: str, x: ir.Value, name: str, dtype: ir.DataType) -> ir.Value:
        attributes: dict[str, Any] = {} if self._axis is None else {"axis": self._axis}
        if self._spec.block_size is not None:
            attributes["block_size"] = self._spec.block_size
        inputs = [x, self._scale_value, self._zero_value]
        return self._tag(self._insert.node(op_type, inputs, name, dtype=dtype, shape=x.shape, **attributes))


def opset_of_markers(model: ir.Model) -> int:
    """Return the oldest opset that can write the pairs of all markers; 0 for a model without markers.

    Raises:
        CalibrationError: A quantizer has no constant range.
    """
    oldest = 0
    for marker in find_markers(model):
        blocks = 0 if marker.spec.block_size is None else _BLOCK_OPSET
        channels = 0 if marker.spec.axis is None else MIN_OPSET
        oldest = max(oldest, FORMAT_OPSETS[stored_format(marker.spec.format).name], channels, blocks)
    return oldest


def stored_format(format: Format) -> Format:
    """Return the format with an ONNX type that holds the codes of `format`: itself, or 8 or 16 bits."""
    if format.name in FORMAT_OPSETS or format.is_float:
        return format
    return Format.integer(8 if format.bits < 8 else 16, signed=format.signed)


def check_format(format: Format, opset: int) -> None:
    """Raise an error for a format that `opset` cannot write.

    Raises:
        UnsupportedError: Names the opset that can.
    """
    stored = stored_format(format)
    first = FORMAT_OPSETS[stored.name]
    if opset < first:
        raise UnsupportedError(
            "format",
            f"{format} at opset {opset}",
            f"opset {first} or newer: the first whose QuantizeLinear has {stored}",
            f"choose opset={first} (--opset; up to {MAX_OPSET}), or quantize to int8",
        )


def _parameters(marker: Marker) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    if marker.amin is None:
        scale = numerics.scale_from_amax(marker.amax, marker.spec)
        return scale, np.zeros(scale.shape, np.int32)
    return numerics.affine_from_range(marker.amin, marker.amax, marker.spec)


def _sink_transposes(node: ir.Node, names: Namer) -> tuple[int, ...] | None:
    """Take a Transpose behind a constant's marker away; the caller transposes the constant instead.

    MatMul wants the (in, out) weight of a Linear whose module keeps (out, in). Behind the DequantizeLinear
    the Transpose would run at every inference, and hide the weight from the builders of int8 kernels.
    """
    readers = list(node.outputs[0].consumers())
    if not readers or node.outputs[0].is_graph_output() or any(r.op_type != "Transpose" for r in readers):
        return None
    perms = {ops.Transpose.of(reader).perm for reader in readers}
    perm = perms.pop()
    if perms or perm is None:
        return None
    if node.outputs[0].shape is not None:
        node.outputs[0].shape = ir.Shape([node.outputs[0].shape[a] for a in perm])
    for reader in readers:
        replace(reader, node.outputs[0], names)
    return perm


class _Content:
    """Equal to another of the same bytes, which are looked at where everything else that matters is equal."""

    def __init__(self, array: NDArray) -> None:
        self._array = array
        # Layers of a model have matrices of a few shapes: all of one would be compared with each other.
        self._sample = array.shape, array.dtype, array.flat[:_SAMPLE].tobytes()

    def __hash__(self) -> int:
        return hash(self._sample)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Content):
            return False
        a, b = self._array, other._array
        return a is b or (self._sample == other._sample and a.tobytes() == b.tobytes())


_SAMPLE = 64
"""Elements at the beginning of an array that tell it from nearly all others."""

"""`mark`: insert markers where `emit_qdq` is to write pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph.core.proto import all_nodes, values_of
from intact.graph.core.scene import Scene
from intact.graph.qdq.markers import DOMAIN, OP_TYPE
from intact.spec import QuantSpec


@dataclass(frozen=True)
class Mark:
    """One tensor to quantize.

    Attributes:
        value: Its name; a value of the main graph.
        readers: (node name, input index) of those who shall read it quantized; the others keep the floats.
        spec: Grid and granularity; at most one axis.
        amax: Largest magnitude, or upper end, of each granule; granule shape of `spec`.
        amin: Lower end of an asymmetric range; None for a symmetric one.
        name: What the pair shall be called; empty: `value`.
    """

    value: str
    readers: tuple[tuple[str, int], ...]
    spec: QuantSpec
    amax: NDArray[np.float32]
    amin: NDArray[np.float32] | None = None
    name: str = ""


def mark(model: ir.Model, marks: Iterable[Mark]) -> None:
    """Insert one ``intact::FakeQuantize`` per mark, in place, in front of its readers; `emit_qdq` follows.

    Before: ``y = Conv(x, w)``.  After: ``y = Conv(FakeQuantize(x, amax), w)`` for a mark of x.

    Raises:
        QuantValueError: A mark names a value or reader that the graph does not have.
    """
    values = {value.name: value for value in values_of(model.graph) if value.name}
    nodes = {node.name: node for node in all_nodes(model.graph)}
    scene = Scene(model.graph)
    for mark_record in marks:
        if mark_record.value not in values:
            raise QuantValueError(
                f"mark '{mark_record.value}'", "no such value", "a value of the main graph",
                "place the marks on the graph as it is now",
            )  # fmt: skip
        _insert(scene, mark_record, values[mark_record.value], nodes)
    model.graph.opset_imports[DOMAIN] = 1


def _insert(scene: Scene, mark_record: Mark, value: ir.Value, nodes: dict[str | None, ir.Node]) -> None:
    producer = value.producer()
    insert = scene.inserter(producer or scene.graph[0], after=producer is not None)
    base = mark_record.name or mark_record.value
    ends = [insert.constant(f"{base}._amax", np.float32(mark_record.amax))]
    if mark_record.amin is not None:
        ends.append(insert.constant(f"{base}._amin", np.float32(mark_record.amin)))
    attributes: dict[str, object] = {
        "format": mark_record.spec.format.name,
        "narrow": int(mark_record.spec.narrow),
    }
    if mark_record.spec.axes:
        attributes["axis"] = list(mark_record.spec.axes)
    if mark_record.spec.block_size is not None:
        attributes["block_size"] = mark_record.spec.block_size
    marked = insert.node(
        OP_TYPE, [value, *ends], f"{base}._marked", domain=DOMAIN,
        dtype=value.dtype, shape=value.shape, **attributes,
    )  # fmt: skip
    for name, index in mark_record.readers:
        reader = nodes.get(name)
        if reader is None or index >= len(reader.inputs) or reader.inputs[index] is not value:
            raise QuantValueError(
                f"mark '{mark_record.value}'", f"a reader {name}[{index}] that does not read it",
                "(node name, input index) of a reader", "place the marks on the graph as it is now",
            )  # fmt: skip
        reader.replace_input_with(index, marked)

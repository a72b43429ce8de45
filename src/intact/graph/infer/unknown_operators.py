"""Rename nodes of unknown operators to registered ones."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from intact.graph.infer.inference import infer_shapes
from intact.graph.ops import attributes


@dataclass(frozen=True)
class ForeignNode:
    """A node of an operator that is not ONNX's.

    Attributes:
        name, domain, op_type: The node's.
        fields: Its attributes by name: numbers, bytes, lists of them, NumPy arrays.
        input_types: NumPy's names of the element types; None where they are not known.
    """

    name: str
    domain: str
    op_type: str
    fields: dict[str, Any]
    input_types: tuple[str | None, ...]


def rename_foreign(
    model: ir.Model, rename: Callable[[ForeignNode], str | None], override: Collection[str] = ()
) -> None:
    """Rename nodes of unknown operators to registered ones, in place, without their attributes.

    Args:
        model: As `load` gives it.
        rename: "domain::Name" of a registered operator, without attributes; None: the node stays.
        override: Operators of ONNX that `rename` is asked about, too.
    Raises:
        FileFormatError: What the registered operators say contradicts the declared shapes.
    """
    for node in model.graph:
        if node.op_type not in override and onnx.defs.has(node.op_type, node.domain):
            continue
        types = tuple(v.dtype.numpy().name if v is not None and v.dtype else None for v in node.inputs)
        arrays = attributes.arrays(node)
        renamed = rename(ForeignNode(node.name or "", node.domain, node.op_type, arrays, types))
        if renamed is None:
            continue
        node.domain, _, node.op_type = renamed.partition("::")
        attributes.clear(node)
        model.opset_imports.setdefault(node.domain, 1)
        infer_shapes(model)  # types behind it: the next one may ask for them

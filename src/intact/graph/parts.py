"""A model taken apart: inputs, constants, nodes and outputs, for those who build it up again otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.graph.compose import DTYPES, NAMES, sizes_of
from intact.graph.proto import to_proto


@dataclass(frozen=True)
class Parts:
    """What a model's main graph consists of.

    Attributes:
        inputs: (name, element type, sizes) of each; a size is a number, a name or None.
        constants: (name, values) of each initializer.
        nodes: In order; subgraphs inside know outer values by their names.
        outputs: Names.
        domains: Version of each operator set.
    """

    inputs: list[tuple[str, str, tuple[int | str | None, ...]]]
    constants: list[tuple[str, NDArray[Any]]]
    nodes: list[onnx.NodeProto]
    outputs: list[str]
    domains: dict[str, int]


def parts_of(model: ir.Model) -> Parts:
    """The parts of `model`, which is not changed.

    Raises:
        UnsupportedError: An input is no tensor of a common type, or the model has functions of its own.
    """
    if model.functions:
        raise UnsupportedError(
            "model", "functions of its own", "operators alone", "inline its functions first (onnx.inliner)"
        )
    proto = to_proto(model)
    values = {v.name: v.const_value for v in model.graph.initializers.values() if v.const_value is not None}
    constants = [(name or "", np.asarray(tensor.numpy())) for name, tensor in values.items()]
    inputs = [_input(i) for i in proto.graph.input if i.name not in values]
    domains = {entry.domain: entry.version for entry in proto.opset_import}
    return Parts(inputs, constants, list(proto.graph.node), [o.name for o in proto.graph.output], domains)


def _input(info: onnx.ValueInfoProto) -> tuple[str, str, tuple[int | str | None, ...]]:
    tensor = info.type.tensor_type
    if tensor.elem_type not in NAMES:
        raise UnsupportedError(
            f"input '{info.name}'", f"ONNX type {tensor.elem_type}", f"one of {', '.join(DTYPES)}",
            "change the type of the input",
        )  # fmt: skip
    return info.name, NAMES[tensor.elem_type], sizes_of(tensor)

"""Build an ONNX model node by node, by names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto

from intact.errors import FileFormatError
from intact.graph.core.error_text import first_line
from intact.graph.core.without_weights import SMALL
from intact.graph.files.load import load
from intact.graph.infer.inference import infer_proto_shapes

DTYPES: dict[str, int] = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
    "float64": TensorProto.DOUBLE, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32, "int64": TensorProto.INT64, "bool": TensorProto.BOOL,
    "int4": TensorProto.INT4, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
}  # fmt: skip
"""Element types by the names that NumPy and ml_dtypes give them."""

NAMES = {number: name for name, number in DTYPES.items()}

Known = tuple[str | None, tuple[int | str | None, ...] | None]
"""Element type (a name of `DTYPES`) and sizes of a value; None where they cannot be told."""


class Composer:
    """Builds a model node by node; values are referred to by name.

    Args:
        opset: Version of the ONNX operators.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self._graph = onnx.GraphProto(name="network")
        self._arrays: dict[str, NDArray[Any]] = {}
        self._domains: dict[str, int] = {"": opset}
        self._taken: set[str] = set()
        self._declared: dict[str, tuple[int, ...]] = {}

    def fresh(self, wanted: str) -> str:
        """Return a name that no value has from here on."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Add an input; sizes that are names are dynamic."""
        self._taken.add(name)
        self._graph.input.append(onnx.helper.make_tensor_value_info(name, DTYPES[dtype], list(shape)))

    def output(
        self, name: str, dtype: str | None = None, shape: Sequence[int | str | None] | None = None
    ) -> None:
        """Mark `name` as an output of the model."""
        if dtype is None:
            self._graph.output.append(onnx.ValueInfoProto(name=name))
        else:
            self._graph.output.append(
                onnx.helper.make_tensor_value_info(
                    name, DTYPES[dtype], None if shape is None else list(shape)
                )
            )

    @contextmanager
    def subgraph(self, name: str) -> Iterator[onnx.GraphProto]:
        """Open a graph for an attribute of a node (a body, a branch): what is added meanwhile goes there.

        Constants go to the main graph, whose values are known inside.
        """
        outer, self._graph = self._graph, onnx.GraphProto(name=name)
        try:
            yield self._graph
        finally:
            self._graph = outer

    def constant(self, wanted: str, array: ArrayLike) -> str:
        """Add a constant that holds `array`; return its name."""
        name = self.fresh(wanted)
        self._arrays[name] = np.asarray(array)
        return name

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], *,
        name: str = "", domain: str = "", **attributes: Any,
    ) -> None:  # fmt: skip
        """Add a node that makes `outputs`; attributes that are None are left out."""
        set_attributes = {key: value for key, value in attributes.items() if value is not None}
        self._taken.update(outputs)
        self._domains.setdefault(domain, 1)
        self._graph.node.append(
            onnx.helper.make_node(
                op_type, list(inputs), list(outputs), name=name, domain=domain, **set_attributes
            )
        )

    def declare(self, name: str, sizes: Sequence[int]) -> None:
        """Declare the sizes of `name` where its operator does not determine them; -1: unknown."""
        self._declared[name] = tuple(sizes)

    def copy(self, node: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str], name: str) -> None:
        """Add a copy of a node of another model, with other inputs, outputs and name."""
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        del copied.input[:], copied.output[:]
        copied.input.extend(inputs)
        copied.output.extend(outputs)
        copied.name = name
        self._taken.update(outputs)
        self._domains.setdefault(node.domain, 1)
        self._graph.node.append(copied)

    def require(self, domains: Mapping[str, int]) -> None:
        """Require the versions of other operator sets that copied nodes are written for."""
        self._domains.update({domain: version for domain, version in domains.items() if domain})

    def types_of(self, names: Collection[str]) -> dict[str, Known]:
        """Return type and shape of the values called `names`, as far as the operators determine them.

        Raises:
            FileFormatError: The operators contradict each other; names the node.
        """
        wanted = [name for name in names if name not in self._arrays]
        if not wanted:
            return {name: (str(self._arrays[name].dtype), self._arrays[name].shape) for name in names}
        proto = self._proto(placeholders=True)
        infos = {i.name: i for i in (*proto.graph.input, *infer_proto_shapes(proto).graph.value_info)}
        types = {name: _read_type(infos[name]) if name in infos else (None, None) for name in names}
        for name in types.keys() & self._arrays.keys():
            array = self._arrays[name]
            types[name] = str(array.dtype), array.shape
        return types

    def skeleton(self) -> Any:
        """Return the model so far as `graph.load` reads it, its large constants as inputs: enough to infer
        shapes.

        Raises:
            FileFormatError: It is not a valid model.
        """
        return load(self._proto(placeholders=True))

    def model(self) -> onnx.ModelProto:
        """Return the model so far, checked.

        Raises:
            FileFormatError: It is not a valid model.
        """
        return self._proto(placeholders=False)

    def load(self, *, is_last: bool = False) -> Any:
        """Return the model so far as `graph.load` reads it (an onnx-ir model).

        Args:
            is_last: Constants are dropped as they are copied: nothing else can be asked of the builder then.
        """
        return load(self._proto(placeholders=False, is_last=is_last), checked=True)

    def _proto(self, *, placeholders: bool, is_last: bool = False) -> onnx.ModelProto:
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in self._domains.items()]
        model = onnx.helper.make_model(
            self._graph, opset_imports=opsets, producer_name="intact", ir_version=10
        )
        graph = model.graph
        for name in tuple(self._arrays):
            array = self._arrays.pop(name) if is_last else self._arrays[name]
            if placeholders and array.size > SMALL:
                dtype = DTYPES[str(array.dtype)]
                graph.input.append(onnx.helper.make_tensor_value_info(name, dtype, array.shape))
            else:
                graph.initializer.append(_tensor(name, array))
        if placeholders:
            graph.value_info.extend(_info(name, sizes) for name, sizes in self._declared.items())
        return model


def _info(name: str, sizes: tuple[int, ...]) -> onnx.ValueInfoProto:
    """Return value information with sizes and no type, which the operator determines."""
    shape = [size if size >= 0 else None for size in sizes]
    return onnx.helper.make_tensor_value_info(name, TensorProto.UNDEFINED, shape)


def _tensor(name: str, array: NDArray[Any]) -> onnx.TensorProto:
    try:
        return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(
            name, f"an array of {array.dtype} ({first_line(error, 100)})", "a dtype that ONNX has",
            "convert the array",
        ) from error  # fmt: skip


def _read_type(info: onnx.ValueInfoProto) -> Known:
    tensor = info.type.tensor_type
    dtype = NAMES.get(tensor.elem_type)
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, sizes_of(tensor)


def sizes_of(tensor: onnx.TypeProto.Tensor) -> tuple[int | str | None, ...]:
    """Return the sizes of a type: numbers, names, None for open ones."""
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)

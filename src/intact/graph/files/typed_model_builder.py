"""Build a model of values whose types are narrower than those that its nodes compute in.

Users of a network know tensors of bfloat16, FP4 and E8M0. Nodes have float32 for them, because operators,
NumPy or ONNX Runtime lack these types. `TypedComposer` keeps what users know, and carries it from node to
node as ONNX's schemas say: outputs have the types of the inputs that share their type parameter. float16 is
stored as itself; where it meets float32 the composer writes a Cast, or converts a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray

from intact.graph.core.proto import proto_graphs
from intact.graph.files.model_builder import DTYPES, NAMES, Composer, Known

STORED = {"bfloat16": "float32", "float4_e2m1fn": "float32", "float8_e8m0fnu": "float32"}
"""Types that users know, and those that nodes have for them."""
_HALF, _SINGLE, _BRAIN = "float16", "float32", "bfloat16"
_TARGETS = {"Cast": "to", "DequantizeLinear": "output_dtype"}
"""Operators whose attribute says the type of the output, whatever the inputs are."""
_FIRST_OUTPUT = {"If": 0, "Loop": 1, "Scan": 0}
"""By operator with bodies: which output of a body is the node's first one."""


class TypedComposer(Composer):
    """A `Composer` whose inputs and constants may have the types of `STORED`."""

    def __init__(self, opset: int) -> None:
        super().__init__(opset)
        self._types: dict[str, str] = {}
        self._fixed: set[str] = set()
        self._derived: set[str] = set()
        self._read: set[str] = set()
        self._seen: set[str] = set()

    def has_seen(self, dtype: str) -> bool:
        """Return whether an input, a constant or the target of a node has had this type."""
        return dtype in self._seen

    def type_of(self, name: str) -> str | None:
        """Return the type of a value where it is narrower than float32; None for others."""
        return self._types.get(name)

    def set_type(self, name: str, dtype: str) -> None:
        """Let users know the value called `name` by another type than nodes have for it."""
        self._types[name] = dtype

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Add an input; sizes that are names are dynamic."""
        super().input(name, STORED.get(dtype, dtype), shape)
        self._note(name, dtype)

    def output(
        self, name: str, dtype: str | None = None, shape: Sequence[int | str | None] | None = None
    ) -> None:
        """Mark `name` as an output of the model."""
        super().output(name, None if dtype is None else STORED.get(dtype, dtype), shape)

    def constant(self, wanted: str, array: ArrayLike, *, keeps_type: bool = False) -> str:
        """Add a constant that holds `array`; return its name.

        Args:
            wanted: The name, where it is free.
            array: Values of any type.
            keeps_type: Readers of float16 get a Cast of it. Otherwise its first reader decides its type.
        """
        values = np.asarray(array)
        dtype = values.dtype.name
        name = super().constant(wanted, values.astype(STORED[dtype]) if dtype in STORED else values)
        self._note(name, dtype)
        if keeps_type:
            self._fixed.add(name)
        return name

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], *,
        name: str = "", domain: str = "", **attributes: Any,
    ) -> None:  # fmt: skip
        """Add a node that makes `outputs`, with Casts where its inputs have several float types."""
        parameters = self._parameters(op_type, domain, inputs)
        inputs = self._unify(parameters, inputs)
        super().node(op_type, inputs, outputs, name=name, domain=domain, **attributes)
        self._follow(self._graph.node[-1], parameters)

    def copy(self, node: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str], name: str) -> None:
        """Add a copy of a node of another model, with other inputs, outputs and name."""
        parameters = self._parameters(node.op_type, node.domain, inputs)
        super().copy(node, self._unify(parameters, inputs), outputs, name)
        self._follow(self._graph.node[-1], parameters)

    def types_of(self, names: Collection[str]) -> dict[str, Known]:
        """Return type and shape of the values called `names`, as users know them."""
        types = super().types_of(names)
        for name in types.keys() & self._types.keys():
            if types[name][0] in (None, _SINGLE, _HALF):
                types[name] = self._types[name], types[name][1]
        return types

    def _note(self, name: str, dtype: str) -> None:
        self._seen.add(dtype)
        if dtype in STORED or dtype == _HALF:
            self._types[name] = dtype

    def _proto(self, *, placeholders: bool, is_last: bool = False) -> onnx.ModelProto:
        model = super()._proto(placeholders=placeholders, is_last=is_last)
        if placeholders and _BRAIN in self._types.values():  # inference refuses bfloat16 beside float32
            for node in (node for graph in proto_graphs(model) for node in graph.node):
                for attribute in node.attribute:
                    if attribute.name in _TARGETS.values() and attribute.i == DTYPES[_BRAIN]:
                        attribute.i = DTYPES[_SINGLE]
        return model

    def _parameters(self, op_type: str, domain: str, inputs: Sequence[str]) -> dict[str, list[int]]:
        """Return the inputs of each type parameter, where one of them is narrow."""
        if not self._types or not any(name in self._types for name in inputs):
            return {}
        kinds = _input_kinds(op_type, domain, self._domains.get(domain, 1), len(inputs))
        parameters: dict[str, list[int]] = {}
        for index, (kind, name) in enumerate(zip(kinds, inputs, strict=False)):
            if name:
                parameters.setdefault(kind, []).append(index)
        return {k: of for k, of in parameters.items() if any(inputs[i] in self._types for i in of)}

    def _unify(self, parameters: Mapping[str, list[int]], inputs: Sequence[str]) -> list[str]:
        """Return inputs that have one type for each type parameter.

        Constants that a layer made take the type of the others; float32 is taken where others differ.
        """
        unified = list(inputs)
        for indices in parameters.values():
            names = [inputs[i] for i in indices]
            deciding = [n for n in names if not self._is_constant(n)] or names
            types = {self._types.get(name, _SINGLE) for name in deciding}
            target = types.pop() if len(types) == 1 else _SINGLE
            for i in indices:
                if self._types.get(inputs[i], _SINGLE) != target:
                    unified[i] = self._convert(inputs[i], target)
        self._read.update(unified)
        return unified

    def _is_constant(self, name: str) -> bool:
        return name in self._arrays or name in self._derived

    def _convert(self, name: str, target: str) -> str:
        array = self._arrays.get(name)
        if array is not None and array.dtype.name not in (_SINGLE, _HALF):
            return name
        stored = STORED.get(target, target)
        if array is not None and name not in self._fixed and name not in self._read and _fits(array, stored):
            self._arrays[name] = array.astype(stored)
            self._types.pop(name, None)
            self._note(name, target)
            return name
        converted = self.fresh(f"{name}.{target}")
        super().node("Cast", [name], [converted], name=converted, to=DTYPES[stored])
        self._note(converted, target)
        return converted

    def _follow(self, node: onnx.NodeProto, parameters: Mapping[str, list[int]]) -> None:
        """Note the types of a node's outputs, and whether they are constants."""
        self._read.update(node.input)
        if node.input and all(self._is_constant(name) for name in node.input if name):
            self._derived.update(node.output)
        attribute = _TARGETS.get(node.op_type)
        target = next((NAMES.get(a.i, "") for a in node.attribute if a.name == attribute), None)
        if target is not None and not node.domain:
            self._seen.add(target)
            return self._note(node.output[0], target if target in (_HALF, _BRAIN) else "")
        if node.op_type in _FIRST_OUTPUT and not node.domain:
            return self._follow_bodies(node)
        if not parameters:
            return None
        kinds = _output_kinds(node.op_type, node.domain, self._domains.get(node.domain, 1), len(node.output))
        for kind, output in zip(kinds, node.output, strict=False):
            types = {self._types.get(node.input[i], _SINGLE) for i in parameters.get(kind, ())}
            if output and len(types) == 1:
                self._note(output, types.pop())
        return None

    def _follow_bodies(self, node: onnx.NodeProto) -> None:
        first = _FIRST_OUTPUT[node.op_type]
        for body in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
            for inner in body.node:
                self._follow(inner, self._parameters(inner.op_type, inner.domain, inner.input))
            for output, value in zip(node.output, body.output[first:], strict=False):
                self._note(output, self._types.get(value.name, ""))


def _fits(array: NDArray[Any], dtype: str) -> bool:
    """Return whether no number of an array is infinite in another type: the least float32 of masks is."""
    return bool((np.abs(array) <= np.finfo(dtype).max).all())


@lru_cache(maxsize=4096)
def _input_kinds(op_type: str, domain: str, version: int, count: int) -> tuple[str, ...]:
    """Return the type parameter of each input; of an operator that is not known, "" for the first one."""
    schema = _schema(op_type, domain, version)
    if schema is None:
        return ("",)
    return _kinds(schema.inputs, count)


@lru_cache(maxsize=4096)
def _output_kinds(op_type: str, domain: str, version: int, count: int) -> tuple[str, ...]:
    """Return the type parameter of each output; of an operator that is not known, "" for the first one."""
    schema = _schema(op_type, domain, version)
    if schema is None:
        return ("",)
    return _kinds(schema.outputs, count)


def _kinds(formal: Iterable[Any], count: int) -> tuple[str, ...]:
    """Return the type parameters of `count` ports; the last formal one may stand for several."""
    ports = list(formal)
    last = len(ports) - 1
    return tuple(
        ports[min(i, last)].type_str if ports[min(i, last)].is_homogeneous else f"port {i}"
        for i in range(count if ports else 0)
    )


def _schema(op_type: str, domain: str, version: int) -> Any:
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None

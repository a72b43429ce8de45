"""Models of any operator that ONNX or ONNX Runtime knows, with inputs, outputs and attributes that may fit.

Unlike mutated files these reach every operator: empty names, repeated outputs, types that few networks have.
"""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import onnx
from onnx import TensorProto, helper
from tests.loaders.mutate import INTEGERS, REALS, WORDS
from tests.onnx_models import onnx_graph, onnx_model

CONTRIB = (
    "Attention", "BiasGelu", "DequantizeLinear", "DynamicQuantizeMatMul", "EmbedLayerNormalization",
    "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu", "GroupQueryAttention", "MatMulInteger16",
    "MatMulIntegerToFloat", "MatMulNBits", "MultiHeadAttention", "NhwcMaxPool", "QAttention", "QGemm",
    "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
    "QLinearMul", "QLinearSigmoid", "QLinearSoftmax", "QuantizeLinear", "QuickGelu", "RotaryEmbedding",
    "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
)  # fmt: skip
"""Of ONNX Runtime's domain."""
_SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 8, 16)
_USUAL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32)
_TYPES = tuple(number for name, number in TensorProto.DataType.items() if name != "UNDEFINED")
_BY_NAME = {f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()}
_SMALL_INTEGERS = (-3, -2, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5)
_A = onnx.defs.OpSchema.AttrType


@cache
def schemas() -> list[Any]:
    """Every form of every operator, in an order of its own."""
    result = onnx.defs.get_all_schemas_with_history()
    return sorted(result, key=lambda schema: (schema.domain, schema.name, schema.since_version))


def model(dice: random.Random) -> bytes:
    """A model of one to three such nodes."""
    return _Model(dice).build()


class _Model:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._inputs: list[onnx.ValueInfoProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._values: list[str] = []
        self._opsets = {"": dice.randint(7, 25)}

    def build(self) -> bytes:
        dice = self._dice
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            self._add_contrib() if dice.random() < 0.15 else self._add(dice.choice(schemas()))
        outputs = [self._value(name) for name in dict.fromkeys(self._values) if name]
        if outputs and dice.random() < 0.02:
            outputs.append(outputs[0])
        result = onnx_model(
            self._nodes, self._inputs, outputs, self._constants, domains=self._opsets,
            ir_version=dice.choice((4, 7, 9, 10, 11)),
        )  # fmt: skip
        return bytes(result.SerializeToString())

    def _add(self, schema: Any) -> None:
        dice = self._dice
        self._opsets[schema.domain] = max(schema.since_version, 1)
        names = []
        for formal in schema.inputs:
            for _ in range(dice.choice((1, 2, 3)) if str(formal.option).endswith("Variadic") else 1):
                names.append(self._input(sorted(formal.types)))
        most = min(schema.max_output, 4)
        count = dice.randint(schema.min_output, most) if dice.random() < 0.95 else dice.randint(0, most + 2)
        node = self._node(schema.name, schema.domain, names, count)
        for attribute in sorted(schema.attributes.values(), key=lambda a: a.name):
            if dice.random() < (0.95 if attribute.required else 0.3):
                self._attribute(node, attribute.name, attribute.type)

    def _add_contrib(self) -> None:
        dice = self._dice
        self._opsets["com.microsoft"] = 1
        names = [self._input([]) for _ in range(dice.choice((0, 1, 2, 3, 4, 5, 8)))]
        node = self._node(dice.choice(CONTRIB), "com.microsoft", names, dice.choice((1, 1, 2, 3)))
        for name, value in (
            ("bits", 4),
            ("block_size", 16),
            ("K", 16),
            ("N", 3),
            ("num_heads", 2),
            ("axis", 1),
        ):
            if dice.random() < 0.5:
                inputs = value if dice.random() < 0.7 else dice.choice(INTEGERS)
                node.attribute.append(helper.make_attribute(name, inputs))

    def _node(self, name: str, domain: str, inputs: list[str], outputs: int) -> onnx.NodeProto:
        dice = self._dice
        if dice.random() < 0.1:
            inputs = inputs[: dice.randrange(len(inputs) + 1)]
        if dice.random() < 0.04:
            inputs = [*inputs, self._input([])]
        result = [f"o{len(self._nodes)}_{i}" for i in range(outputs)]
        if result and dice.random() < 0.04:
            result[dice.randrange(len(result))] = dice.choice(("", result[0]))
        self._nodes.append(helper.make_node(name, inputs, result, domain=domain))
        self._values += result
        return self._nodes[-1]

    def _input(self, types: list[str]) -> str:
        """The name of an input, a constant or what a node made; or none."""
        dice = self._dice
        draw = dice.random()
        if draw < 0.05:
            return ""
        if draw < 0.2 and (there := [name for name in self._values if name]):
            return dice.choice(there)
        fitting = [_BY_NAME[name] for name in types if name in _BY_NAME]
        usual = [number for number in fitting if number in _USUAL]
        dtype = dice.choice((fitting if dice.random() < 0.3 else usual) or fitting or _USUAL)
        dtype = dice.choice(_TYPES) if dice.random() < 0.08 else dtype
        name = f"v{len(self._inputs) + len(self._constants)}"
        if dice.random() < 0.5:
            self._constants.append(tensor(dice, name, dtype))
        else:
            self._inputs.append(self._value(name, dtype, shape(dice)))
        return name

    def _value(self, name: str, dtype: int = 0, sizes: list[int] | None = None) -> onnx.ValueInfoProto:
        dice = self._dice
        if not dtype:
            dtype = dice.choice(_USUAL) if dice.random() < 0.9 else dice.choice(_TYPES)
        free = None if sizes is None else [n if dice.random() < 0.8 else "n" for n in sizes]
        return helper.make_tensor_value_info(name, dtype, free if dice.random() < 0.9 else None)

    def _attribute(self, node: onnx.NodeProto, name: str, kind: Any) -> None:
        dice = self._dice
        integers = _SMALL_INTEGERS if dice.random() < 0.85 else INTEGERS
        many = range(dice.choice((0, 1, 2, 2, 3, 4, 6, 8)))
        expected: Any
        if kind == _A.INT:
            expected = dice.choice(integers)
        elif kind == _A.INTS:
            expected = [dice.choice(integers) for _ in many]
        elif kind == _A.FLOAT:
            expected = dice.choice(REALS[:-7]) if dice.random() < 0.8 else dice.choice(REALS[-3:])
        elif kind == _A.FLOATS:
            expected = [dice.choice(REALS[:12]) for _ in many]
        elif kind == _A.STRING:
            expected = dice.choice(WORDS).encode(errors="replace")
        elif kind == _A.STRINGS:
            expected = [dice.choice(WORDS).encode(errors="replace") for _ in many]
        elif kind == _A.TENSOR:
            expected = tensor(dice, "t", dice.choice(_USUAL))
        elif kind == _A.GRAPH:
            expected = self._body()
        else:
            return
        if isinstance(expected, list) and not expected:
            node.attribute.append(onnx.AttributeProto(name=name, type=int(kind)))
        else:
            node.attribute.append(helper.make_attribute(name, expected))

    def _body(self) -> onnx.GraphProto:
        dice = self._dice
        inputs = [self._value(f"b{i}", 0, shape(dice)) for i in range(dice.randrange(4))]
        outer = [name for name in self._values if name] + [info.name for info in self._inputs]
        read = [info.name for info in inputs] + outer
        nodes = [helper.make_node("Identity", [dice.choice(read)], [f"c{i}"]) for i in range(2) if read]
        outputs = [self._value(node.output[0]) for node in nodes] * dice.choice((1, 1, 2))
        return onnx_graph(nodes, inputs, outputs, name="body")


def shape(dice: random.Random) -> list[int]:
    """Sizes of up to five axes."""
    return [dice.choice(_SIZES) for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 4, 4, 5)))]


def tensor(dice: random.Random, name: str, dtype: int) -> onnx.TensorProto:
    """A constant of any type: numbers that steer shapes where it is of integers or reals."""
    sizes = [min(n, 5) for n in shape(dice)]
    count = 1
    for n in sizes:
        count *= n
    if dtype in (TensorProto.INT64, TensorProto.INT32, TensorProto.INT8):
        bits = {TensorProto.INT64: 64, TensorProto.INT32: 32, TensorProto.INT8: 8}[dtype]
        pool = (
            _SMALL_INTEGERS
            if dice.random() < 0.8
            else [n for n in INTEGERS if -(2**bits) // 2 <= n < 2**bits // 2]
        )
        return helper.make_tensor(name, dtype, sizes, [dice.choice(pool) for _ in range(count)])
    if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE):
        pool = (1.0, 2.0, 0.5, 0.1, -1.0) if dice.random() < 0.7 else REALS
        most = 3.4e38 if dtype == TensorProto.FLOAT else math.inf
        reals = [r if abs(r := dice.choice(pool)) < most else math.inf for _ in range(count)]
        return helper.make_tensor(name, dtype, sizes, reals)
    if dtype == TensorProto.STRING:
        return helper.make_tensor(name, dtype, sizes, [b"a"] * count)
    result = onnx.TensorProto(name=name, data_type=dtype, dims=sizes)
    width = _BITS.get(dtype, 8)
    result.raw_data = bytes(dice.choice((0, 1, 0x3C, 0x80, 0xFF)) for _ in range((count * width + 7) // 8))
    return result


_BITS = {
    TensorProto.COMPLEX64: 64, TensorProto.COMPLEX128: 128, TensorProto.UINT64: 64, TensorProto.UINT32: 32,
    TensorProto.UINT16: 16, TensorProto.INT16: 16, TensorProto.FLOAT16: 16, TensorProto.BFLOAT16: 16,
    TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.FLOAT4E2M1: 4,
}  # fmt: skip
"""Of an element, where it is not a byte."""


def disturb(dice: random.Random, inputs: onnx.ModelProto) -> None:
    """Take names from a good model's nodes, repeat them, and give values other types, in place."""
    nodes = [node for node in inputs.graph.node if node.input or node.output]
    for _ in range(dice.choice((1, 1, 2, 3))):
        act = dice.randrange(5)
        node = dice.choice(nodes) if nodes else None
        if act == 0 and node is not None and node.input:
            node.input[dice.randrange(len(node.input))] = ""
        elif act == 1 and node is not None and node.output:
            ports = [name for other in nodes for name in other.output]
            node.output[dice.randrange(len(node.output))] = dice.choice(("", *ports))
        elif act == 2 and node is not None and node.output:
            node.output.append(dice.choice(("", f"{node.output[0]}.more", node.output[0])))
        elif act == 3 and inputs.graph.output:
            inputs.graph.output.add().CopyFrom(dice.choice(inputs.graph.output))
        else:
            infos = [*inputs.graph.input, *inputs.graph.output, *inputs.graph.value_info]
            if infos:
                dice.choice(infos).type.tensor_type.elem_type = dice.choice(_TYPES)

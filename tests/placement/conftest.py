"""Small float graphs written by hand, and a short way to write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.graph import load, parse_model
from intact.placement import Placement, place

FLOAT = TensorProto.FLOAT


class Net:
    """Writes nodes one after the other; every method returns the name of what its node makes."""

    def __init__(self, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.domains = {"": opset}
        self._rng = np.random.default_rng(0)
        self._channels: dict[str, int] = {}

    def input(self, name: str, shape: list[Any], dtype: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        self._channels[name] = shape[1] if len(shape) > 1 else 0
        return name

    def weight(self, name: str, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, name: str, *shape: int) -> str:
        return self.weight(name, self._rng.standard_normal(shape).astype(np.float32) * 0.2)

    def node(self, op_type: str, *inputs: str, name: str = "", outputs: int = 1, **attributes: Any) -> Any:
        name = name or f"{op_type.lower()}{len(self.nodes)}"
        result = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), result, name=name, **attributes))
        for output in result:
            self._channels[output] = self._channels.get(inputs[0], 0) if inputs else 0
        return result[0] if outputs == 1 else result

    def conv(self, x: str, channels: int, kernel: int = 3, *, name: str, act: str = "", bn: bool = False,
             stride: int = 1, group: int = 1) -> str:  # fmt: skip
        w = self.random(f"{name}.w", channels, self._channels[x] // group, kernel, kernel)
        inputs = [x, w] if bn else [x, w, self.random(f"{name}.b", channels)]
        y = self.node("Conv", *inputs, name=name, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4,
                      strides=[stride] * 2, group=group)  # fmt: skip
        self._channels[y] = channels
        if bn:
            ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
            parts = [self.weight(f"{name}.bn{i}", v) for i, v in enumerate((ones, zeros, zeros, ones))]
            y = self.node("BatchNormalization", y, *parts, name=f"{name}.bn")
        return self.act(y, act, f"{name}.act") if act else y

    def act(self, x: str, act: str, name: str) -> str:
        if act == "Relu6":
            zero, six = (self.weight(f"{name}.{v}", np.array(v, np.float32)) for v in (0, 6))
            return str(self.node("Clip", x, zero, six, name=name))
        if act == "Silu":
            return str(self.node("Mul", x, self.node("Sigmoid", x, name=f"{name}.gate"), name=name))
        return str(self.node(act, x, name=name))

    def linear(self, x: str, inner: int, outer: int, *, name: str, gemm: bool = False) -> str:
        """As older exporters write it: MatMul and Add for three axes, Gemm with transB for two."""
        bias = self.random(f"{name}.b", outer)
        if gemm:
            return str(
                self.node("Gemm", x, self.random(f"{name}.w", outer, inner), bias, name=name, transB=1)
            )
        y = self.node("MatMul", x, self.random(f"{name}.w", inner, outer), name=name)
        return str(self.node("Add", y, bias, name=f"{name}.bias"))

    def shape(self, name: str, *sizes: int) -> str:
        return self.weight(name, np.array(sizes, np.int64))

    def proto(self, *outputs: str) -> onnx.ModelProto:
        """A name that ends in "#" is an output of int64."""
        infos = [
            helper.make_tensor_value_info(name.rstrip("#"), TensorProto.INT64 if "#" in name else FLOAT, None)
            for name in outputs
        ]
        model = onnx_model(self.nodes, self.inputs, infos, self.weights, domains=self.domains, ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=False)

    def model(self, *outputs: str) -> ir.Model:
        return parse_model(self.proto(*outputs).SerializeToString(), "net")

    def place(self, *outputs: str, profile: str = "intact", **choice: Any) -> Seen:
        """The network that ends in `outputs`, placed."""
        return Seen(**vars(place(load(self.proto(*outputs)), profile, **choice)))


class Seen(Placement):
    """A placement, asked by the names of nodes."""

    def edges(self, role: str = "activation") -> set[tuple[str, int]]:
        """Every edge that comes quantized."""
        return {reader for site in self.sites if site.role == role for reader in site.readers}

    def layer(self, name: str) -> tuple[str, str]:
        """precision and fused of the layer that `name` is in."""
        result = next(x for x in self.layers if name in x.nodes)
        return result.precision, result.fused

    def reason(self, name: str) -> str:
        return next(x.reason for x in self.layers if name in x.nodes)

    def axis(self, weight: str) -> int | None:
        return next(s.axis for s in self.sites if s.value == weight)


@pytest.fixture
def net() -> Callable[..., Net]:
    return Net

"""Small Q/DQ graphs written by hand, lowered, evaluated and held against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import FallbackSubgraph
from intact.graph import Session

FLOAT = TensorProto.FLOAT


class Qdq:
    """Writes nodes one after the other; every method returns the name of what its node makes."""

    def __init__(self, opset: int = 21) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)
        self.domains = {"": opset}

    def input(self, name: str, shape: Sequence[int | str], dtype: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def constant(self, array: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, *shape: int, spread: float = 0.5) -> str:
        return self.constant((self.rng.standard_normal(shape) * spread).astype(np.float32))

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def node(self, op_type: str, *inputs: str, name: str = "", outputs: int = 1, **attributes: Any) -> Any:
        name = name or f"{op_type.lower()}{len(self.nodes)}"
        outputs_of_node = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outputs_of_node, name=name, **attributes))
        return outputs_of_node[0] if outputs == 1 else outputs_of_node

    def quantize(self, x: str, scale: float = 0.05, zero: int = 0, dtype: str = "int8") -> str:
        parameters = (self.constant(np.float32(scale)), self.constant(np.array(zero, dtype)))
        return str(self.node("QuantizeLinear", x, *parameters, name=f"{x}.q{len(self.nodes)}"))

    def dequantize(self, q: str, scale: float = 0.05, zero: int = 0, dtype: str = "int8") -> str:
        parameters = (self.constant(np.float32(scale)), self.constant(np.array(zero, dtype)))
        return str(self.node("DequantizeLinear", q, *parameters, name=f"{q}.dq{len(self.nodes)}"))

    def pair(self, x: str, scale: float = 0.05, zero: int = 0, dtype: str = "int8") -> str:
        return self.dequantize(self.quantize(x, scale, zero, dtype), scale, zero, dtype)

    def weight(self, *shape: int, axis: int | None = 0, dtype: str = "int8", zero: int = 0) -> str:
        limits = np.iinfo(dtype)
        codes = self.constant(self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype))
        count = () if axis is None else (shape[axis],)
        scale = self.constant(self.rng.uniform(0.002, 0.02, count).astype(np.float32))
        zero_point = self.constant(np.full(count, zero, dtype))
        axes = {} if axis is None else {"axis": axis}
        return str(self.node("DequantizeLinear", codes, scale, zero_point, **axes))

    def conv(self, x: str, channels: int, outputs: int, kernel: int = 3, **attributes: Any) -> str:
        w = self.weight(outputs, channels // attributes.get("group", 1), kernel, kernel)
        bias = self.floats(outputs)
        return str(self.node("Conv", x, w, bias, pads=[kernel // 2] * 4, **attributes))

    def proto(self, *outputs: str) -> onnx.ModelProto:
        infos = [onnx.ValueInfoProto(name=name) for name in outputs]
        model = onnx_model(
            self.nodes, self.inputs, infos, self.constants, domains=self.domains, ir_version=10
        )
        model.graph.value_info.extend(self.value_info())
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        shown = {info.name: info for info in (*inferred.graph.value_info, *inferred.graph.output)}
        del model.graph.output[:]
        model.graph.output.extend(
            helper.make_tensor_value_info(name, shown[name].type.tensor_type.elem_type, None)
            for name in outputs
        )
        return model

    def value_info(self) -> list[onnx.ValueInfoProto]:
        """Return types of what operators make that ONNX does not know."""
        return []

    def feeds(self, sizes: Mapping[str, int] | None = None) -> dict[str, NDArray[Any]]:
        """Random inputs, which reach the ends of the default grid."""
        arrays = {}
        for info in self.inputs:
            dims = info.type.tensor_type.shape.dim
            shape = [(sizes or {}).get(d.dim_param, d.dim_value) for d in dims]
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            if dtype.kind == "f":
                arrays[info.name] = np.asarray(self.rng.standard_normal(shape) * 3, dtype)
            else:
                arrays[info.name] = self.rng.integers(
                    np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape, dtype
                )
        return arrays


def assert_same_bits(got: NDArray[Any], want: NDArray[Any], name: str = "") -> None:
    """Equal arrays, zeros of the same sign included; of NaNs, that they are one."""
    np.testing.assert_array_equal(got, want, err_msg=name, strict=True)
    if want.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0], err_msg=name)


class Lowered:
    """A plan beside the model that it was made of.

    Attributes:
        plan: What `lower` made.
        feeds: Random inputs.
        values: Every tensor for them.
    """

    def __init__(self, graph: Qdq, outputs: Sequence[str], sizes: Mapping[str, int] | None) -> None:
        proto = graph.proto(*outputs)
        self.plan: Plan = lower(proto)
        feeds = graph.feeds(sizes)
        self.feeds = feeds
        self.values = evaluate(self.plan, feeds)
        self.expected = Session(proto.SerializeToString()).run(feeds)

    @property
    def kinds(self) -> list[str]:
        """The kinds of its steps, in order."""
        return [step.kind for step in self.plan.steps]

    def step(self, kind: str) -> Any:
        """The only step of a kind."""
        (only_step,) = (step for step in self.plan.steps if step.kind == kind)
        return only_step

    def exact(self) -> Lowered:
        """The engine gives the reference's bits in every tensor."""
        for name, got in Engine(self.plan, threads=1, deterministic=True).tap(self.feeds).items():
            assert_same_bits(got, self.values[name], name)
        return self

    def agree(self, tolerance: float = 0.0) -> Lowered:
        """Of ONNX Runtime: codes differ by 1 at most, 1 in 100; floats by `tolerance` and what sums lose.

        With the engine: not at all.
        """
        self.exact()
        for name, want in self.expected.items():
            got = self.values[name]
            assert got.dtype == want.dtype and got.shape == want.shape, name
            difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
            if want.dtype.kind in "iu":
                assert difference.max(initial=0) <= 1 and (difference > 0).mean() <= 0.01, name
            else:
                assert (difference <= tolerance + 1e-5 + 1e-5 * np.abs(want)).all(), difference.max()
        return self


@pytest.fixture(scope="module")
def qdq_class() -> type[Qdq]:
    """For what is made once for a whole module."""
    return Qdq


@pytest.fixture
def qdq() -> Callable[..., Qdq]:
    return Qdq


@pytest.fixture
def lower_graph() -> Callable[..., Lowered]:
    """(graph, *outputs, sizes=...) -> the plan, evaluated, and ONNX Runtime's answer."""

    def run(graph: Qdq, *outputs: str, sizes: Mapping[str, int] | None = None) -> Lowered:
        return Lowered(graph, outputs, sizes)

    return run


def add_inputs(g: Qdq, **arrays: NDArray[Any]) -> list[str]:
    """Inputs of a graph, and what they hold."""
    typed = helper.np_dtype_to_tensor_dtype
    names = [g.input(name, array.shape, typed(array.dtype)) for name, array in arrays.items()]
    g.feeds = lambda sizes=None: arrays  # type: ignore[method-assign]
    return names


def add_input_x(g: Qdq, x: NDArray[Any]) -> str:
    """The one input of a graph, and what it holds."""
    return add_inputs(g, x=x)[0]


def spread_floats(spread: float = 3.0) -> NDArray[np.float32]:
    """Floats of a normal distribution, zeros of either sign, a tiny one, and two far away."""
    numbers = np.random.default_rng(0).standard_normal(2000) * spread
    return np.concatenate([numbers, [0, -0.0, 1e-30, 80, -80]]).astype(np.float32)


def few(dtype: Any, *shape: int, low: int = 0, high: int = 9) -> NDArray[Any]:
    """Small whole numbers, so that some are equal."""
    return np.random.default_rng(len(shape)).integers(low, high, shape).astype(dtype)


def exactly(lowered: Lowered) -> Lowered:
    """Native, and ONNX Runtime's answer in every bit."""
    assert "onnx" not in lowered.exact().kinds
    for name, want in lowered.expected.items():
        np.testing.assert_array_equal(lowered.values[name], want, strict=True)
    return lowered


def reason_of_fallback(g: Qdq, output: str) -> str:
    """Return why the one node of a graph without a kernel is left to ONNX Runtime."""
    (step,) = (step for step in lower(g.proto(output)).steps if step.kind == "onnx")
    assert isinstance(step, FallbackSubgraph)
    return step.reason

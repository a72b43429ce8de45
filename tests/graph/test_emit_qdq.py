"""Markers become pairs: every format, granularity and dtype, run in ONNX Runtime against numerics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from intact import numerics
from intact.errors import CalibrationError, IntactError, UnsupportedError
from intact.graph import Session, emit_qdq, set_opset, tidy, to_bytes
from intact.spec import QuantSpec

FLOAT = ir.DataType.FLOAT


class Builder:
    """A graph of opset 18, the exporter's, that a test fills."""

    def __init__(self) -> None:
        self.graph = ir.Graph([], [], nodes=[], opset_imports={"": 18, "intact": 1}, name="test")
        self.model = ir.Model(self.graph, ir_version=10)

    def input(self, shape: Sequence[int | str], dtype: ir.DataType = FLOAT, name: str = "x") -> ir.Value:
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))
        self.graph.inputs.append(value)
        return value

    def constant(self, array: Any, name: str) -> ir.Value:
        tensor = ir.tensor(np.asarray(array), name=name)
        value = ir.Value(
            name=name, const_value=tensor, type=ir.TensorType(tensor.dtype), shape=ir.Shape(np.shape(array))
        )
        self.graph.register_initializer(value)
        return value

    def node(
        self, op: str, inputs: Sequence[ir.Value | None], like: ir.Value, name: str = "", *,
        dtype: ir.DataType | None = None, shape: ir.Shape | None = None, **attributes: Any,
    ) -> ir.Value:  # fmt: skip
        value = ir.Value(
            name=name or None, type=ir.TensorType(dtype or like.dtype), shape=shape or like.shape
        )
        self.graph.append(ir.node(op, inputs, attributes, outputs=[value]))
        return value

    def marker(
        self, x: ir.Value, amax: Any, *, amin: Any = None, format: str = "int8", axis: Sequence[int] = (),
        narrow: bool = False, name: str = "layer._input_quantizer",
    ) -> ir.Value:  # fmt: skip
        ends = [self.constant(np.float32(amax), f"{name}._amax")]
        if amin is not None:
            ends.append(self.constant(np.float32(amin), f"{name}._amin"))
        options = {"axis": list(axis)} if axis else {}
        value = ir.Value(type=ir.TensorType(x.dtype), shape=x.shape)
        attributes = {"format": format, "narrow": int(narrow), **options}
        self.graph.append(ir.node("FakeQuantize", [x, *ends], attributes, domain="intact", outputs=[value]))
        return value

    def file(self, outputs: Sequence[ir.Value], *, opset: int = 18, fold: bool = True) -> bytes:
        for index, value in enumerate(outputs):
            value.name = f"y{index}"
            self.graph.outputs.append(value)
        self.pairs = emit_qdq(self.model, opset, fold_weights=fold)
        set_opset(self.model, opset)
        tidy(self.model)
        return to_bytes(self.model)

    def ops(self) -> list[str]:
        return [n.op_type for n in self.graph]

    def initializer(self, name: str) -> NDArray:
        tensor = self.graph.initializers[name].const_value
        assert tensor is not None
        return tensor.numpy()


def values(rng: np.random.Generator, amax: float = 1.0) -> NDArray[np.float32]:
    """[2, 3, 50]: ordinary ones, ties of the int8 grid, ends, beyond the ends, infinities."""
    ties = (np.arange(-131, 131) + 0.5) * amax / 127
    extremes = [0.0, -0.0, amax, -amax, 10 * amax, -10 * amax, np.inf, -np.inf, 1e-40]
    return np.concatenate([extremes, ties, rng.normal(0, amax, 29)]).astype(np.float32).reshape(2, 3, 50)


CASES = {
    "int8": (QuantSpec("int8"), 13),
    "int8-narrow": (QuantSpec("int8", narrow=True), 13),
    "int8-asymmetric": (QuantSpec("int8", symmetric=False), 13),
    "uint8": (QuantSpec("uint8"), 13),
    "uint8-asymmetric": (QuantSpec("uint8", symmetric=False), 13),
    "int8-channels": (QuantSpec("int8", axis=1), 13),
    "int8-channels-narrow": (QuantSpec("int8", axis=1, narrow=True), 13),
    "uint8-channels-asymmetric": (QuantSpec("uint8", axis=1, symmetric=False), 13),
    "fp8e4m3": (QuantSpec("fp8e4m3"), 19),
    "fp8e5m2": (QuantSpec("fp8e5m2"), 19),
    "int16": (QuantSpec("int16"), 21),
    "uint16": (QuantSpec("uint16"), 21),
    "int4": (QuantSpec("int4"), 21),
    "int4-narrow": (QuantSpec("int4", narrow=True), 21),
    "uint4": (QuantSpec("uint4"), 21),
    "int2": (QuantSpec("int2"), 13),
    "uint3-channels": (QuantSpec("uint3", axis=1), 13),
    "int5-channels-asymmetric": (QuantSpec("int5", axis=1, symmetric=False), 19),
    "uint12": (QuantSpec("uint12"), 21),
    "int8-newest": (QuantSpec("int8", narrow=True), 25),
}


def parameters(spec: QuantSpec) -> tuple[Any, Any]:
    """(amin, amax) for three channels, or for the tensor."""
    amax = [1.0, 0.5, 3.0] if spec.axis is not None else 1.0
    return (None if spec.symmetric else np.float32(-0.3)), np.float32(amax)


def fake_quantize_by_numerics(x: NDArray, spec: QuantSpec) -> NDArray:
    amin, amax = parameters(spec)
    if amin is None:
        scale, zero_point = numerics.scale_from_amax(amax, spec), 0
    else:
        scale, zero_point = numerics.affine_from_range(np.broadcast_to(amin, amax.shape), amax, spec)
    return numerics.fake_quantize(x, scale, zero_point, spec)


@pytest.mark.parametrize(("spec", "opset"), CASES.values(), ids=CASES)
def test_an_activation_pair_equals_numerics(spec: QuantSpec, opset: int, rng: np.random.Generator) -> None:
    build, x = Builder(), values(rng)
    amin, amax = parameters(spec)
    low = None if amin is None else np.broadcast_to(amin, amax.shape)
    axis = () if spec.axis is None else (spec.axis,)
    y = build.marker(
        build.input(("batch", 3, 50)), amax, amin=low, format=spec.format.name, axis=axis, narrow=spec.narrow
    )
    file = build.file([y], opset=opset)
    np.testing.assert_array_equal(Session(file).run({"x": x})["y0"], fake_quantize_by_numerics(x, spec))


@pytest.mark.parametrize(
    ("format", "opset", "dtype"),
    [("int8", 13, "INT8"), ("uint8", 13, "UINT8"), ("int16", 21, "INT16"), ("int4", 21, "INT4"),
     ("fp8e4m3", 19, "FLOAT8E4M3FN")],
)  # fmt: skip
def test_the_zero_point_has_the_type_of_the_codes(format: str, opset: int, dtype: str) -> None:
    build = Builder()
    build.file([build.marker(build.input((2,)), 1.0, format=format)], opset=opset)
    zero_point = build.graph.initializers["layer._input_quantizer.zero_point"]
    assert zero_point.dtype == ir.DataType[dtype]
    assert build.initializer("layer._input_quantizer.zero_point").astype(np.int64) == 0


def test_an_asymmetric_pair_has_the_real_zero_point() -> None:
    build = Builder()
    build.file([build.marker(build.input((2,)), 3.0, amin=-1.0, format="uint8")], opset=13)
    want_scale, want_zero = numerics.affine_from_range(-1.0, 3.0, QuantSpec("uint8", symmetric=False))
    assert build.initializer("layer._input_quantizer.zero_point") == want_zero == 64
    assert build.initializer("layer._input_quantizer.scale") == want_scale


def test_a_narrow_activation_is_clipped_in_front() -> None:
    build = Builder()
    build.file([build.marker(build.input((2,)), 2.0, narrow=True)])
    assert build.ops() == ["Clip", "QuantizeLinear", "DequantizeLinear"]
    np.testing.assert_allclose(build.initializer("layer._input_quantizer.low"), -2.0, rtol=1e-6)


def test_a_range_of_zero_has_scale_one() -> None:
    build = Builder()
    file = build.file([build.marker(build.input((3,)), 2.0**-24, narrow=True)])
    assert build.initializer("layer._input_quantizer.scale") == 1
    got = Session(file).run({"x": np.float32([0.4, 3.6, -200])})["y0"]
    assert got.tolist() == [0, 4, -127]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("opset", [13, 19, 25])
def test_other_dtypes_are_cast_around_the_pair(dtype: str, opset: int, rng: np.random.Generator) -> None:
    numpy_type = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    onnx_type = ir.DataType.from_numpy(numpy_type)
    build, x = Builder(), values(rng)
    entered = build.input(("batch", 3, 50))
    cast = build.node("Cast", [entered], entered, dtype=onnx_type, to=int(onnx_type))
    y = build.node("Cast", [build.marker(cast, 1.0)], entered, to=int(FLOAT))
    got = Session(build.file([y], opset=opset)).run({"x": x})["y0"]
    with np.errstate(over="ignore"):
        want = numerics.fake_quantize(
            x.astype(numpy_type), np.float32(1) / np.float32(127), 0, QuantSpec("int8")
        )
    np.testing.assert_array_equal(got, want.astype(np.float32))


# ---- weights ----


def linear_weight(rng: np.random.Generator) -> NDArray[np.float32]:
    w = rng.normal(0, 0.1, (4, 6)).astype(np.float32)
    w[2] = 0  # an output channel of zeros
    return w


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "float"])
@pytest.mark.parametrize("narrow", [False, True], ids=["full", "narrow"])
def test_a_weight_keeps_its_codes(fold: bool, narrow: bool, rng: np.random.Generator) -> None:
    build, w = Builder(), linear_weight(rng)
    amax = np.abs(w).max(axis=1) * np.float32(0.7)  # as percentile calibration would: the ends saturate
    x = build.input(("batch", 6))
    marker = build.marker(
        build.constant(w, "fc.weight"), amax, axis=[0], narrow=narrow, name="fc._weight_quantizer"
    )
    y = build.node("Gemm", [x, marker], x, shape=ir.Shape(["batch", 4]), transB=1)
    file = build.file([y], fold=fold)
    spec = QuantSpec("int8", axis=0, narrow=narrow)
    scale = numerics.scale_from_amax(amax, spec)
    codes = numerics.quantize(w, scale, 0, spec)
    pair = build.pairs[0]
    real = Session(file, extra=[pair.real]).run({"x": np.ones((1, 6), np.float32)})[pair.real]
    np.testing.assert_array_equal(real, numerics.dequantize(codes, scale, 0, spec))
    assert build.ops() == (
        ["DequantizeLinear", "Gemm"] if fold else ["QuantizeLinear", "DequantizeLinear", "Gemm"]
    )
    if fold:
        stored = build.initializer("fc.weight.codes")
        assert stored.dtype == np.int8 and (stored == codes).all()
        assert "fc.weight" not in build.graph.initializers
    assert (pair.constant, pair.folded, pair.quantizer) == (True, fold, "fc._weight_quantizer")


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "float"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_transposed_weight_takes_its_axis_along(fold: bool, axis: int, rng: np.random.Generator) -> None:
    build, w = Builder(), linear_weight(rng)
    x = build.input(("batch", 5, 6))
    amax = np.abs(w).max(axis=1 - axis % 2)
    marker = build.marker(build.constant(w, "fc.weight"), amax, axis=[axis], name="fc._weight_quantizer")
    turned = build.node("Transpose", [marker], x, shape=ir.Shape([6, 4]), perm=[1, 0])
    y = build.node("MatMul", [x, turned], x, shape=ir.Shape(["batch", 5, 4]))
    file = build.file([y], fold=fold)
    dequantize = next(n for n in build.graph if n.op_type == "DequantizeLinear")
    assert dequantize.attributes["axis"].as_int() == 1 - axis % 2
    assert "Transpose" not in build.ops()
    spec = QuantSpec("int8", axis=axis)
    want = numerics.fake_quantize(w, numerics.scale_from_amax(amax, spec), 0, spec)
    got = Session(file).run({"x": np.tile(np.eye(6, dtype=np.float32)[:5], (1, 1, 1))})["y0"]
    np.testing.assert_array_equal(got[0], want.T[:5])
    assert build.pairs[0].perm == (1, 0)


def test_operators_on_constants_are_evaluated(rng: np.random.Generator) -> None:
    build, w = Builder(), linear_weight(rng)
    x = build.input(("batch", 6))
    both = build.node("Concat", [build.constant(w, "w_ih"), build.constant(2 * w, "w_hh")], x, axis=0)
    both.shape = ir.Shape([8, 6])
    amax = build.node(
        "Mul", [build.constant(np.float32(0.4), "amax"), build.constant(np.float32(0.5), "k")], x
    )
    value = ir.Value(type=ir.TensorType(FLOAT), shape=both.shape)
    build.graph.append(
        ir.node(
            "FakeQuantize", [both, amax], {"format": "int8", "narrow": 0}, domain="intact", outputs=[value]
        )
    )
    y = build.node("Gemm", [x, value], x, shape=ir.Shape(["batch", 8]), transB=1)
    build.file([y])
    assert build.ops() == ["DequantizeLinear", "Gemm"]
    scale = numerics.scale_from_amax(np.float32(0.4) * np.float32(0.5), QuantSpec("int8"))
    codes = next(t for n, t in build.graph.initializers.items() if n.endswith(".codes"))
    np.testing.assert_array_equal(
        codes.const_value.numpy(), numerics.quantize(np.concatenate([w, 2 * w]), scale, 0, QuantSpec("int8"))
    )


# ---- sharing ----


def test_readers_of_one_tensor_with_one_scale_share_a_pair() -> None:
    build = Builder()
    x = build.input((2, 3))
    a, b = (build.marker(x, 1.0, name=f"{n}._input_quantizer") for n in "ab")
    other = build.marker(x, 2.0, name="c._input_quantizer")
    build.file([build.node("Relu", [v], x) for v in (a, b, other)])
    assert build.ops().count("QuantizeLinear") == 2
    floats = [p.real for p in build.pairs]
    assert floats[0] == floats[1] != floats[2]


def test_equal_constants_share_their_codes(rng: np.random.Generator) -> None:
    build, w = Builder(), linear_weight(rng)
    x = build.input(("batch", 6))
    outputs = []
    for step in range(3):  # an unrolled LSTM writes its weights once per step
        copied = build.node("Identity", [build.constant(w, f"w{step}")], x, shape=ir.Shape(w.shape))
        marker = build.marker(copied, 0.3, name=f"step{step}")
        outputs.append(build.node("Gemm", [x, marker], x, shape=ir.Shape(["batch", 4]), transB=1))
    build.file(outputs)
    assert build.ops().count("DequantizeLinear") == 1


def test_outputs_of_the_graph_keep_their_names() -> None:
    build = Builder()
    x = build.input((2,))
    file = build.file([build.marker(x, 1.0, name="a"), build.marker(x, 1.0, name="b")])
    got = Session(file).run({"x": np.float32([0.5, 2])})
    assert list(got) == ["y0", "y1"]
    np.testing.assert_array_equal(got["y0"], got["y1"])


# ---- refusals, each naming the quantizer ----


@pytest.mark.parametrize(
    ("format", "opset", "message"),
    [
        ("int16", 20, "int16 at opset 20, want opset 21"),
        ("uint16", 13, "uint16 at opset 13, want opset 21"),
        ("int4", 20, "int4 at opset 20, want opset 21"),
        ("fp8e4m3", 18, "fp8e4m3 at opset 18, want opset 19"),
        ("fp4e2m1", 22, "fp4e2m1 at opset 22, want opset 23"),
        ("int12", 20, "int12 at opset 20, want opset 21 or newer: the first whose QuantizeLinear has int16"),
    ],
)
def test_a_format_without_a_type_is_refused_by_name(format: str, opset: int, message: str) -> None:
    build = Builder()
    y = build.marker(build.input((2, 2)), 1.0, format=format)
    with pytest.raises(UnsupportedError, match=r"^layer\._input_quantizer: format: ") as caught:
        build.file([y], opset=opset)
    assert message in str(caught.value)


def test_several_axes_are_refused_by_name() -> None:
    build = Builder()
    y = build.marker(build.input((2, 2)), np.ones((2, 2)), axis=[0, 1])
    with pytest.raises(UnsupportedError, match=r"layer\._input_quantizer: axis: got \(0, 1\), want one axis"):
        build.file([y])


def test_one_value_along_several_axes_is_per_tensor() -> None:
    build = Builder()
    build.file([build.marker(build.input((2, 2)), [[1.0]], axis=[0, 1])])
    assert build.initializer("layer._input_quantizer.scale").shape == ()


def test_a_dynamic_range_is_refused_by_name() -> None:
    build = Builder()
    x = build.input((2, 2))
    amax = build.node("ReduceMax", [x], x, "amax", shape=ir.Shape([]), keepdims=0)
    y = ir.Value(type=ir.TensorType(FLOAT), shape=x.shape)
    node = ir.node("FakeQuantize", [x, amax], {"format": "int8", "narrow": 0}, domain="intact", outputs=[y])
    node.metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'fc', 'fc._input_quantizer', 'fake_quantize']"
    build.graph.append(node)
    with pytest.raises(CalibrationError, match=r"fc\._input_quantizer: amax: got a range that is computed"):
        build.file([y])


@pytest.mark.parametrize("amax", [float("nan"), -1.0, float("inf")])
def test_an_amax_that_is_no_range_is_refused_by_name(amax: float) -> None:
    build = Builder()
    with pytest.raises(IntactError, match=r"^layer\._input_quantizer: amax"):
        build.file([build.marker(build.input((2, 2)), amax)])

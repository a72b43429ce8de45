"""float16 models inside out: float32 within, float16 at the borders."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact.engine import reference
from intact.graph import Session, load, widen_float16

BRAIN = TensorProto.BFLOAT16


def half(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(reals(shape, 0.25).astype(np.float16), name)


def reals(shape: tuple[int, ...], size: float, seed: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape) * size


def network() -> onnx.ModelProto:
    """Conv, Relu, Conv, a constant of float16, casts, an output of float16 and one of float32."""
    value = helper.make_tensor_value_info
    weights = [half("w1", 16, 8, 3, 3), half("b1", 16), half("w2", 16, 16, 3, 3)]
    tensor = numpy_helper.from_array(np.float16([1.5]), "")
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4, name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1] * 4, name="second"),
        helper.make_node("Constant", [], ["k"], value=tensor),
        helper.make_node("Mul", ["c", "k"], ["d"]),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["e"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["y"], to=TensorProto.FLOAT16),
    ]
    outputs = [
        value("y", TensorProto.FLOAT16, [1, 16, 6, 6]),
        value("wide", TensorProto.FLOAT, [1, 16, 6, 6]),
    ]
    return onnx_model(nodes, {"x": (TensorProto.FLOAT16, [1, 8, 6, 6])}, outputs, weights, name="half")


def images(count: int) -> list[dict[str, np.ndarray]]:
    return [{"x": reals((1, 8, 6, 6), 1.0, seed).astype(np.float16)} for seed in range(count)]


def test_what_is_within_becomes_float32_and_the_borders_stay() -> None:
    model = load(network())
    (note,) = widen_float16(model)
    assert "float32" in str(note) and widen_float16(load(network().SerializeToString())) != []
    types = {value.name: value.dtype.name for value in (*model.graph.inputs, *model.graph.outputs)}
    assert types == {"x": "FLOAT16", "y": "FLOAT16", "wide": "FLOAT"}
    assert {value.dtype.name for value in model.graph.initializers.values()} == {"FLOAT"}
    (feeds,) = images(1)
    for name, got in Session(model).run(feeds).items():
        want = Session(network().SerializeToString()).run(feeds)[name]
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), atol=2e-3)


def test_a_float32_model_is_left_alone() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], [x], [y], name="single")
    assert widen_float16(load(model)) == []


def test_a_float16_model_is_quantized_and_runs_natively() -> None:
    result = intact.quantize(network(), images(8), progress=False)
    assert [row["precision"] for row in result.explain()].count("int8") >= 2
    assert any("float16" in note for note in result.notes)
    engine = intact.compile(result.model)
    assert {step.kind for step in engine.plan.steps}.isdisjoint({"onnx"})
    (feeds,) = images(1)
    got, exact = engine.run(feeds), reference.evaluate(engine.plan, feeds)
    want = Session(network().SerializeToString()).run(feeds)
    for name, array in got.items():
        assert array.dtype == want[name].dtype and (array == exact[name]).all()
        np.testing.assert_allclose(array.astype(np.float32), want[name].astype(np.float32), atol=0.05)


@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_borders_alone(to: int) -> None:
    kinds = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}
    source = TensorProto.FLOAT16 if to == TensorProto.FLOAT else TensorProto.FLOAT
    ends = helper.make_tensor_value_info("x", source, [7]), helper.make_tensor_value_info("y", to, [7])
    node = helper.make_node("Cast", ["x"], ["y"], to=to)
    model = onnx_model([node], [ends[0]], [ends[1]], name="cast")
    with np.errstate(over="ignore"):
        x = np.array([0.1, -2, 70000, 6e-8, np.inf, -0.0, np.nan], np.float32).astype(kinds[source])
        (got,) = intact.compile(model).run({"x": x}).values()
        np.testing.assert_array_equal(got, x.astype(kinds[to]))


def _rounding(middle: list[onnx.NodeProto], last: str, kind: int = TensorProto.FLOAT16) -> onnx.ModelProto:
    """x, float32 [2, 3], cast to `kind`, `middle` from "a" to `last`, cast back, and negated."""
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=kind), *middle,
        helper.make_node("Cast", [last], ["b"], to=TensorProto.FLOAT), helper.make_node("Neg", ["b"], ["y"]),
    ]  # fmt: skip
    return onnx_model(nodes, {"x": [2, 3]}, {"y": None})


@pytest.mark.rule("N14")
@pytest.mark.parametrize(
    ("middle", "last"),
    [([], "a"), ([helper.make_node("Transpose", ["a"], ["t"], perm=[1, 0])], "t"),
     ([helper.make_node("Transpose", ["a"], ["s"]), helper.make_node("Identity", ["s"], ["t"])], "t")],
)  # fmt: skip
def test_a_cast_to_float16_and_back_rounds(middle, last) -> None:
    x = np.array([[70000, 1.0001, -3e-8], [0.1, -65519, 65520]], np.float32)
    model = _rounding(middle, last)
    want = Session(model.SerializeToString()).run({"x": x})["y"]
    assert np.isinf(want).sum() == 2
    assert np.array_equal(intact.compile(model, threads=1).run({"x": x})["y"], want)


@pytest.mark.rule("N14")
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_an_output_that_is_cast_to_bfloat16_is_rounded(kind: int) -> None:
    x = reals((2, 3), 1.0).astype(np.float32)
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["a"], to=kind),
        helper.make_node("Cast", ["a"], ["y"], to=BRAIN),
    ]  # fmt: skip
    model = onnx_model(nodes, {"x": [2, 3]}, {"y": None})
    model.graph.output[0].type.tensor_type.elem_type = BRAIN
    want = (-x).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(intact.compile(model, threads=1).run({"x": x})["y"], want)


def test_float16_that_operators_read_is_computed_in_float32() -> None:
    model = _rounding([helper.make_node("Add", ["a", "a"], ["t"])], "t")
    x = np.full((2, 3), 40000, np.float32)
    assert np.array_equal(intact.compile(model, threads=1).run({"x": x})["y"], -2 * x)


def test_the_file_that_quantize_writes_keeps_the_rounding() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Cast", ["c"], ["a"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["a"], ["y"], to=TensorProto.FLOAT),
    ]
    weight = numpy_helper.from_array(reals((16, 8, 3, 3), 0.2).astype(np.float32), "w")
    model = onnx_model(nodes, {"x": [1, 8, 6, 6]}, {"y": [1, 16, 4, 4]}, [weight])
    data = [{"x": reals((1, 8, 6, 6), 1.0, seed).astype(np.float32)} for seed in range(4)]
    result = intact.quantize(model, data, progress=False)
    out = intact.compile(result, threads=1).run(data[0])["y"]
    assert np.array_equal(out, out.astype(np.float16).astype(np.float32))


def brain(opset: int) -> onnx.ModelProto:
    """`network` in bfloat16, with an output that is rounded to bfloat16 and back."""
    model = network()
    model.opset_import[0].version = opset
    for tensor in (*model.graph.initializer, model.graph.node[3].attribute[0].t):
        wide = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide.astype(ml_dtypes.bfloat16), tensor.name))
    for value in (*model.graph.input, model.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    model.graph.node[-1].attribute[0].i = TensorProto.BFLOAT16
    model.graph.node.extend([
        helper.make_node("Cast", ["wide"], ["narrow"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["narrow"], ["rounded"], to=TensorProto.FLOAT),
    ])  # fmt: skip
    model.graph.output.append(helper.make_tensor_value_info("rounded", TensorProto.FLOAT, [1, 16, 6, 6]))
    return model


@pytest.mark.parametrize("opset", [17, 22])
@pytest.mark.parametrize("outside", [False, True])
def test_bfloat16_becomes_float32_at_the_borders_too(opset: int, outside: bool, tmp_path: Path) -> None:
    path = tmp_path / "brain.onnx"
    onnx.save(brain(opset), path, save_as_external_data=outside, size_threshold=0)
    engine = intact.compile(path)
    assert {port.dtype for port in (*engine.inputs, *engine.outputs)} == {"float32"}
    assert any("bfloat16" in note for note in engine.plan.notes)
    x = reals((1, 8, 6, 6), 1.0).astype(ml_dtypes.bfloat16)
    got = engine.run({"x": x})
    wide = intact.compile(float32_of(brain(opset))).run({"x": x.astype(np.float32)})
    narrow = wide["y"].astype(ml_dtypes.bfloat16).astype(np.float32)  # a Cast of the file makes it
    np.testing.assert_array_equal(got["y"], narrow)
    rounded = got["wide"].astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(got["rounded"], rounded)


def float32_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """A bfloat16 model in float32, by hand."""
    for tensor in (*model.graph.initializer, model.graph.node[3].attribute[0].t):
        wide = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for value in (*model.graph.input, model.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    model.graph.node[-3].attribute[0].i = TensorProto.FLOAT
    return model


def test_a_bfloat16_model_is_quantized_with_data_of_either_type() -> None:
    x = reals((8, 8, 6, 6), 1.0).astype(ml_dtypes.bfloat16)
    results = [intact.quantize(brain(17), data, progress=False) for data in (x, x.astype(np.float32))]
    assert [row["precision"] for row in results[0].explain()].count("int8") >= 2
    first, second = (intact.compile(result.model).run({"x": x[:1]}) for result in results)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_bfloat16_between_floats_is_widened_without_declared_types() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.BFLOAT16),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    model = onnx_model(nodes, [x], [y], opset=13)
    engine = intact.compile(model)
    assert [step.kind for step in engine.plan.steps] == ["function"]

"""Operators of scikit-learn's pipelines, written in ONNX's own: what ONNX Runtime makes of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact.engine import compile as build
from intact.engine.steps import FallbackSubgraph
from intact.errors import UnsupportedError
from intact.graph import Session, load, refresh_shapes, to_bytes, upgrade_opset
from intact.graph.ops import ML as DOMAIN
from intact.graph.rewrites.sklearn_operators import ML

RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 4)).astype(np.float32)
HOLES = X.copy()
HOLES[1, 2] = HOLES[3, 0] = np.nan
ZEROS = X.copy()
ZEROS[2] = 0


def model(
    nodes: list[onnx.NodeProto], shape: list[int | str], kind: int = TensorProto.FLOAT, outputs: str = "y"
) -> onnx.ModelProto:
    rng = np.random.default_rng(8)
    arrays = {"w": np.float32(rng.normal(size=(4, 16))), "v": np.float32(rng.normal(size=(16, 3))),
              "at": np.int64([2, 0])}  # fmt: skip
    read = {name for node in nodes for name in node.input}
    return onnx_model(
        nodes,
        {"x": (kind, shape)},
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        {n: a for n, a in arrays.items() if n in read},
        domains={DOMAIN: 3},
    )


def node(op_type: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs or ("x",), ["y"], domain=DOMAIN, **attributes)


FOUR = [0.5, -1.0, 2.0, 3.0]
CASES = {
    "scaler": (node("Scaler", offset=FOUR, scale=[2.0, 0.1, -1.0, 4.0]), X),
    "scaler, one number": (node("Scaler", offset=[0.25], scale=[0.1]), X),
    "scaler of whole numbers": (node("Scaler", offset=FOUR, scale=FOUR), (10 * X).astype(np.int64)),
    "normalizer, max": (node("Normalizer", norm="MAX"), np.abs(ZEROS)),
    "normalizer, l1": (node("Normalizer", norm="L1"), ZEROS),
    "normalizer, l2": (node("Normalizer", norm="L2"), ZEROS),
    "imputer": (node("Imputer", imputed_value_floats=FOUR, replaced_value_float=float("nan")), HOLES),
    "imputer of a number": (node("Imputer", imputed_value_floats=[7.0], replaced_value_float=0.0), ZEROS),
    "binarizer": (node("Binarizer", threshold=0.25), X),
    "features": (node("ArrayFeatureExtractor", "x", "at"), X),
    "features of a vector": (node("ArrayFeatureExtractor", "x", "at"), X[0]),
    "linear": (
        node("LinearRegressor", coefficients=[0.1 * i for i in range(8)], intercepts=[1.0, 2.0], targets=2),
        X,
    ),
    "linear without intercepts": (node("LinearRegressor", coefficients=FOUR), X),
}


@pytest.mark.parametrize("case", CASES)
def test_it_gives_what_the_operator_gives(case: str) -> None:
    operator, x = CASES[case]
    proto = model([operator], list(x.shape), helper.np_dtype_to_tensor_dtype(x.dtype))
    loaded = load(proto)
    (note,) = ML(loaded)
    assert note.changed and not any(n.domain for n in loaded.graph) and DOMAIN not in loaded.opset_imports
    before, after = (Session(p).run({"x": x})["y"] for p in (proto.SerializeToString(), to_bytes(loaded)))
    assert before.shape == after.shape and before.dtype == after.dtype
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)  # sums of float32 in another order


STAYING = {
    "too many numbers": (node("Scaler", offset=FOUR * 2, scale=FOUR), X),
    "no numbers": (node("Scaler"), X),
    "a link function": (node("LinearRegressor", coefficients=FOUR, post_transform="LOGISTIC"), X),
}


@pytest.mark.parametrize("case", STAYING)
def test_what_says_more_stays(case: str) -> None:
    operator, x = STAYING[case]
    loaded = load(model([operator], list(x.shape)))
    assert ML(loaded) == [] and [n.op_type for n in loaded.graph] == [operator.op_type]


def pipeline(*more: onnx.NodeProto, outputs: str = "y") -> onnx.ModelProto:
    """A network of two layers behind what skl2onnx writes for an imputer, a scaler and a normalizer."""
    return model(
        [
            helper.make_node("Imputer", ["x"], ["i"], domain=DOMAIN, imputed_value_floats=FOUR,
                             replaced_value_float=float("nan")),
            helper.make_node("Scaler", ["i"], ["s"], domain=DOMAIN, offset=FOUR, scale=[0.5] * 4),
            helper.make_node("Normalizer", ["s"], ["n"], domain=DOMAIN, norm="L2"),
            helper.make_node("MatMul", ["n", "w"], ["a"]), helper.make_node("Relu", ["a"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["m"]), helper.make_node("Softmax", ["m"], ["y"]), *more,
        ],
        ["N", 4], outputs=outputs,
    )  # fmt: skip


def test_a_network_behind_a_scaler_runs_in_int8_without_onnx_runtime() -> None:
    data = RNG.normal(size=(64, 4)).astype(np.float32)
    quantized = intact.quantize(pipeline(), data, progress=False)
    engine, reference = build(quantized.model), build(quantized.model, backend="reference")
    feeds = {"x": HOLES}
    bound = build(quantized.model, shapes={"x": [6, 4]})
    assert not any(isinstance(step, FallbackSubgraph) for step in bound.plan.steps)
    assert "int8" in {layer.precision for layer in engine.plan.layers}
    np.testing.assert_array_equal(engine.run(feeds)["y"], reference.run(feeds)["y"])
    want = Session(pipeline().SerializeToString()).run(feeds)["y"]
    np.testing.assert_allclose(engine.run(feeds)["y"], want, atol=0.03)


def test_a_map_as_output_is_quantized_around_and_refused_by_the_engine_by_name() -> None:
    zipmap = helper.make_node("ZipMap", ["y"], ["p"], domain=DOMAIN, classlabels_int64s=[0, 1, 2])
    proto = pipeline(zipmap, outputs="y p")
    proto.graph.output[1].type.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    proto.graph.output[1].type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = 1
    quantized = intact.quantize(proto, RNG.normal(size=(32, 4)).astype(np.float32), progress=False)
    with pytest.raises(UnsupportedError, match=r"output 'p': got what ZipMap makes.*'zipmap': False"):
        build(quantized.model)


def test_a_file_of_that_domain_alone_becomes_one_of_operators_of_onnx() -> None:
    """Its file says no opset of ONNX's own operators."""
    proto = model([node("Normalizer", norm="L2")], ["n", 4])
    del proto.opset_import[0]
    opened = load(proto)
    upgrade_opset(opened, 13)
    ML(opened)
    refresh_shapes(opened)
    want = Session(proto.SerializeToString()).run({"x": X})["y"]
    np.testing.assert_allclose(Session(to_bytes(opened)).run({"x": X})["y"], want, rtol=1e-6)
    np.testing.assert_allclose(build(proto).run({"x": X})["y"], want, rtol=1e-6)

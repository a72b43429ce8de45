"""Float steps of a Q/DQ model that another runtime may round differently, and the text about them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_graph, onnx_model

import intact
from intact.graph import load, ops, save
from intact.placement import (
    AGREEMENT_KEY,
    float_steps,
    in_other_runtimes,
    read_placement,
    record_agreement,
)

F32 = TensorProto.FLOAT


def quantize_net(nodes: list[str]) -> onnx.ModelProto:
    """A model of lines such as "y = Relu(x)" on float x [2, 4, 8]; Pair and Codes stand for Q/DQ."""
    constants = {
        "s": np.float32(0.0625), "z": np.int8(0), "w": np.full((8, 8), 3, np.int8), "two": np.float32(2.0),
        "g": np.ones(8, np.float32), "yes": np.array(True), "axes": np.array([-1], np.int64),
    }  # fmt: skip
    result = []
    for line in nodes:
        output, _, call = line.partition(" = ")
        op_type, _, inputs = call.rstrip(")").partition("(")
        names = [name.strip() for name in inputs.split(",")]
        if op_type == "Pair":
            result.append(
                helper.make_node("QuantizeLinear", [names[0], "s", "z"], [f"{output}.q"], f"{output}.Q")
            )
            result.append(
                helper.make_node("DequantizeLinear", [f"{output}.q", "s", "z"], [output], f"{output}.D")
            )
        elif op_type == "Codes":
            result.append(helper.make_node("DequantizeLinear", [names[0], "s", "z"], [output], output))
        else:
            result.append(helper.make_node(op_type, names, [output], output))
    return onnx_model(
        result, {"x": (F32, [2, 4, 8])}, {nodes[-1].partition(" = ")[0]: (F32, None)}, constants, opset=18
    )


def count_steps(nodes: list[str]) -> dict[str, int]:
    model = load(quantize_net(nodes))
    return float_steps(model, read_placement(model))


PRODUCT = ["a = Pair(x)", "v = Codes(w)", "y = MatMul(a, v)", "b = Pair(y)"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (PRODUCT, {}),
        ([*PRODUCT, "r = Relu(b)", "c = Pair(r)"], {}),
        ([*PRODUCT, "r = Erf(b)", "c = Pair(r)"], {"Erf": 1}),
        ([*PRODUCT, "n = LayerNormalization(b, g)"], {"LayerNormalization": 1}),
        ([*PRODUCT, "o = Softmax(y)"], {"Softmax": 1}),
        (["v = Codes(w)", "y = MatMul(x, v)"], {"MatMul": 1}),
        (["a = Add(x, g)", "b = Mul(a, two)", "c = Sqrt(b)", "d = Div(c, two)"], {}),
        (["a = ReduceMean(x, axes)", "b = Sub(x, a)"], {"ReduceMean": 1}),
        (["a = ReduceMax(x, axes)", "b = Sub(x, a)"], {}),
        (["a = Sin(x)", "b = Cos(a)", "c = Cos(b)"], {"Cos": 2, "Sin": 1}),
        (["a = Softplus(x)", "t = Transpose(a)"], {"Softplus": 1}),
    ],
)  # fmt: skip
def test_norms_functions_and_sums_of_floats_count_and_nothing_else(
    nodes: list[str], expected: dict[str, int]
) -> None:
    assert count_steps(nodes) == expected


def test_whole_numbers_have_no_rounding() -> None:
    nodes = [
        helper.make_node("ReduceSum", ["ids", "axes"], ["sums"], "sums"),
        helper.make_node("CumSum", ["ids", "axis"], ["places"], "places"),
    ]
    model = load(
        onnx_model(
            nodes,
            {"ids": (TensorProto.INT64, [2, 4])},
            [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in ("sums", "places")],
            {"axes": np.array([1], np.int64), "axis": np.array(1, np.int64)},
            opset=18,
        )
    )
    assert float_steps(model, read_placement(model)) == {}


def test_steps_in_branches_count() -> None:
    def branch(op_type: str) -> onnx.GraphProto:
        node = helper.make_node(op_type, ["x"], ["inner"], f"inner {op_type}")
        output = helper.make_tensor_value_info("inner", F32, None)
        return onnx_graph([node], (), [output], name=op_type)

    node = helper.make_node("If", ["c"], ["y"], "if", then_branch=branch("Tanh"), else_branch=branch("Relu"))
    model = load(
        onnx_model([node], {"x": (F32, [2]), "c": (TensorProto.BOOL, [])}, {"y": (F32, None)}, opset=18)
    )
    assert float_steps(model, read_placement(model)) == {"Tanh": 1}


def test_the_clause_says_how_many_and_which() -> None:
    assert in_other_runtimes({"LayerNormalization": 24, "Softmax": 12}) == (
        "in other runtimes 36 float steps (LayerNormalization x 24, Softmax x 12) may round differently"
    )
    assert in_other_runtimes({"Tanh": 1}) == "in other runtimes 1 float step (Tanh x 1) may round differently"
    assert in_other_runtimes({}) == "other runtimes give the same codes where their float32 sums are exact"


def test_the_sentence_travels_in_the_file(tmp_path) -> None:
    model = load(quantize_net([*PRODUCT, "o = Softmax(b)"]))
    record_agreement(model, read_placement(model))
    save(model, tmp_path / "m.onnx")
    (entry,) = onnx.load(tmp_path / "m.onnx").metadata_props
    assert entry.key == AGREEMENT_KEY and "1 float step (Softmax x 1) may round differently" in entry.value


def test_a_quantized_file_and_its_report_say_the_same() -> None:
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", ["x", "m"], ["y"], "y"), helper.make_node("Tanh", ["y"], ["t"], "t")]
    model = onnx_model(
        nodes,
        {"x": (F32, [4, 16])},
        {"t": (F32, None)},
        {"m": rng.standard_normal((16, 16)).astype(np.float32)},
        opset=18,
    )
    batches = [{"x": rng.standard_normal((4, 16)).astype(np.float32)} for _ in range(2)]
    result = intact.quantize(model, batches, progress=False)
    assert result.float_steps == {"Tanh": 1}
    assert all(sentence in repr(result) for sentence in result.statements)
    assert "1 float step (Tanh x 1)" in result.agreement
    (entry,) = result.proto.metadata_props
    assert "1 float step (Tanh x 1)" in entry.value and "engine" not in entry.value, "a file compares nothing"


@pytest.mark.parametrize("op_type", sorted(name for domain, name in ops.BOOK if not domain))
def test_exact_operators_are_copies_comparisons_and_single_operations(op_type: str) -> None:
    """Operators that the book calls exact have no sum and no function in them."""
    record = ops.BOOK["", op_type]
    approximate = {"norm", "recurrent", "attention", "convolution", "product", "pool"}
    assert not (record.exact and record.kind in approximate)
    assert record.exact or record.kind not in {"quantizer", "move"}

"""Nodes that do not fit their operator: ONNX's inference crashes on some, and they are refused before."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_graph, onnx_model

from intact.engine.lower import lower
from intact.errors import FileFormatError
from intact.graph import load
from intact.graph.opset.contrib_ports import contrib_ports

ML = "ai.onnx.ml"


def model(*nodes: onnx.NodeProto, opset: int = 20, constants: dict[str, Any] | None = None) -> bytes:
    """A model of these nodes; the output is "y", inputs are a to e."""
    inputs = {key: [1, 3, 4, 4] for key in "abcde"}
    domains = {ML: 5, "com.microsoft": 1}
    proto = onnx_model(
        nodes, inputs, {"y": None}, constants or {}, opset=opset, domains=domains, ir_version=9
    )
    return bytes(proto.SerializeToString())


def required_attributes(schema: Any) -> dict[str, Any]:
    """Attributes of a schema that have to be there, empty."""
    kinds = onnx.AttributeProto.AttributeType
    return {
        name: onnx.AttributeProto(name=name, type=kinds.Value(str(a.type).rpartition(".")[2]))
        for name, a in schema.attributes.items() if a.required
    }  # fmt: skip


SCHEMAS = [
    schema for schema in onnx.defs.get_all_schemas()
    if schema.domain in ("", ML) and not schema.deprecated
]  # fmt: skip


def node_of(schema: Any, inputs: list[str], outputs: list[str]) -> onnx.NodeProto:
    node = helper.make_node(schema.name, inputs, outputs, domain=schema.domain, name="odd")
    node.attribute.extend(required_attributes(schema).values())
    return node


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: f"{schema.domain}.{schema.name}")
def test_an_input_that_an_operator_needs_may_not_be_empty(schema: Any) -> None:
    if not schema.inputs or str(schema.inputs[0].option) != "FormalParameterOption.Single":
        return
    node = node_of(schema, ["", *"abcde"[: schema.min_input - 1]], ["y"])
    if "Tensor" in str([a.type for a in node.attribute]) or schema.name in ("Loop", "Scan", "If"):
        node.ClearField("attribute")
    with pytest.raises(FileFormatError):
        load(model(node, opset=25), any_opset=True)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: f"{schema.domain}.{schema.name}")
def test_an_operator_has_no_more_outputs_than_it_makes(schema: Any) -> None:
    if schema.max_output > 20:
        return
    names = ["y", *(f"more{i}" for i in range(schema.max_output))]
    with pytest.raises(FileFormatError):
        load(model(node_of(schema, list("abcde"[: schema.min_input]), names), opset=25), any_opset=True)


@pytest.mark.parametrize("opset", [13, 18, 20])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_split_has_as_many_parts_as_outputs(opset: int, parts: int) -> None:
    options: dict[str, Any] = {"num_outputs": parts} if opset >= 18 else {}
    node = helper.make_node("Split", ["a"], ["y", "p", "q"], axis=1, **options)
    if options:
        with pytest.raises(FileFormatError, match=rf"num_outputs.*got {parts} parts, want one for each of 3"):
            load(model(node, opset=opset))
    old = helper.make_node("Split", ["a"], ["y", "p", "q"], axis=1, split=[1] * parts)
    with pytest.raises(FileFormatError, match=rf"'split'.*got {parts} parts"):
        load(model(old, opset=11))


def test_a_split_of_three_into_three_is_read() -> None:
    node = helper.make_node("Split", ["a"], ["y", "p", "q"], axis=1, num_outputs=3)
    assert len(load(model(node)).graph[0].outputs) == 3


@pytest.mark.parametrize("name", ["Sum", "Max", "Concat"])
def test_no_input_among_many_may_be_empty(name: str) -> None:
    attributes = {"axis": 0} if name == "Concat" else {}
    with pytest.raises(FileFormatError, match="input 1: got no name"):
        load(model(helper.make_node(name, ["a", ""], ["y"], **attributes)))


def test_inputs_that_may_be_left_out_may_be_empty() -> None:
    nodes = [
        helper.make_node("Clip", ["a", "", "high"], ["t"]),
        helper.make_node("Resize", ["t", "", "scales"], ["r"]),
        helper.make_node("LSTM", ["x3", "w", "r3", "", "", ""], ["", "h", "y"], hidden_size=2),
    ]
    constants = {
        "high": np.float32(1), "scales": np.ones(4, np.float32), "x3": np.zeros((1, 1, 2), np.float32),
        "w": np.zeros((1, 8, 2), np.float32), "r3": np.zeros((1, 8, 2), np.float32),
    }  # fmt: skip
    assert [node.op_type for node in load(model(*nodes, constants=constants)).graph] == [
        "Clip",
        "Resize",
        "LSTM",
    ]


@pytest.mark.parametrize(
    "equation", ["\0", "i\n", "ijkl;mnop->i", "é", "..ijkl...", "ij-->i", "ij,jk->ik", ". "]
)
def test_an_equation_of_other_signs_is_refused(equation: str) -> None:
    """ONNX's inference looks for the end of some of them for good."""
    with pytest.raises(FileFormatError, match="'equation'"):
        load(model(helper.make_node("Einsum", ["a"], ["y"], equation=equation)))


@pytest.mark.parametrize("equation", ["ijkl->l", "i j k l -> jk", "...l->...", "ijkl", "IJKl->"])
def test_equations_that_onnx_knows_are_read(equation: str) -> None:
    assert (
        load(model(helper.make_node("Einsum", ["a"], ["y"], equation=equation))).graph[0].op_type == "Einsum"
    )


def test_an_output_listed_twice_is_refused() -> None:
    proto = onnx.ModelProto.FromString(model(helper.make_node("Relu", ["a"], ["y"])))
    proto.graph.output.append(proto.graph.output[0])
    with pytest.raises(FileFormatError, match=r"output: got the name 'y' 2 times"):
        load(proto)


def test_a_branch_may_give_a_value_twice() -> None:
    inner = helper.make_tensor_value_info("i", TensorProto.FLOAT, None)
    body = onnx_graph([helper.make_node("Relu", ["a"], ["i"])], (), [inner, inner], name="body")
    node = helper.make_node("If", ["yes"], ["y", "z"], then_branch=body, else_branch=body)
    assert len(load(model(node, constants={"yes": np.array(True)})).graph[0].outputs) == 2


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (("MatMulNBits", ["a"], {"K": 16, "N": 3, "bits": 4}), "got 1 inputs, want at least 3"),
        (("MatMulNBits", ["a", "", "b"], {"K": 16, "N": 3}), "input 1: got no name"),
        (("QAttention", ["a", "b"], {"num_heads": 2}), "got 2 inputs, want at least 5"),
        (("QLinearAdd", ["a"] * 9, {}), "got 9 inputs, want at most 8"),
        (("DynamicQuantizeMatMul", [], {}), "got 0 inputs, want at least 3"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_onnx_runtimes_operators_have_their_inputs(
    node: tuple[str, list[str], dict[str, int]], text: str
) -> None:
    op_type, inputs, attributes = node
    with pytest.raises(FileFormatError, match=text):
        load(model(helper.make_node(op_type, inputs, ["y"], domain="com.microsoft", **attributes)))


def test_an_operator_of_onnx_runtime_makes_no_second_output() -> None:
    node = helper.make_node("QLinearAdd", ["a"] * 8, ["y", "z"], domain="com.microsoft")
    with pytest.raises(FileFormatError, match="got 2 outputs, want at most 1"):
        load(model(node))


def test_the_table_of_ports_agrees_with_onnx_runtimes_schemas() -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 30):
        pytest.skip("the table is that of later versions, whose operators may leave out more inputs")
    signs = {"Single": "1", "Optional": "?", "Variadic": "+"}
    count = 0
    for schema in state.get_all_operator_schema():
        if schema.domain == "com.microsoft" and (ports := contrib_ports(schema.name)) is not None:
            for word, formals in zip(ports, (schema.inputs, schema.outputs), strict=True):
                there = "".join(signs[str(f.option).partition(":")[0].rpartition(".")[2]] for f in formals)
                # Later versions may have more inputs that may be left out.
                assert there.rstrip("?") == word.rstrip("?"), schema.name
            count += 1
    assert count > 100


@pytest.mark.parametrize("factor", [np.inf, -np.inf, np.nan, 0.0, -1.0, 1e30])
@pytest.mark.parametrize("op_type", ["Resize", "Upsample"])
def test_a_resize_by_no_number_is_refused(op_type: str, factor: float) -> None:
    scales = np.array([1, 1, factor, 1], np.float32)
    inputs, opset = (["a", "", "s"], 17) if op_type == "Resize" else (["a", "s"], 9)
    with pytest.raises(FileFormatError):
        lower(model(helper.make_node(op_type, inputs, ["y"]), opset=opset, constants={"s": scales}))


def test_a_transpose_of_other_axes_behind_a_node_of_unknown_meaning_is_refused() -> None:
    nodes = [
        helper.make_node("SwiGLU", ["a", "b"], ["u"], alpha=1.0),
        helper.make_node("Transpose", ["c"], ["y"], perm=[3, 2]),
    ]
    with pytest.raises(FileFormatError):
        lower(model(*nodes))


def test_a_constant_of_another_type_than_the_file_says_is_refused() -> None:
    proto = onnx.ModelProto.FromString(
        model(helper.make_node("Mish", ["k"], ["y"]), opset=14, constants={"k": np.ones((2, 2))})
    )
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    proto.graph.node.append(helper.make_node("Identity", ["y"], ["z"]))
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.INT64, None))
    with pytest.raises(FileFormatError, match="float64, want int64, as the file says"):
        lower(proto.SerializeToString())


@pytest.mark.skipif(not hasattr(TensorProto, "FLOAT6E3M2"), reason="onnx before numbers of 6 bits")
def test_bits_behind_the_last_number_of_six_are_refused() -> None:
    proto = onnx.ModelProto.FromString(model(helper.make_node("Relu", ["a"], ["y"])))
    proto.graph.initializer.add(name="six", data_type=TensorProto.FLOAT6E3M2, dims=[1], raw_data=b"\xff")
    with pytest.raises(FileFormatError, match="numbers of 6 bits"):
        load(proto)


def test_graphs_beside_an_attributes_graph_are_refused() -> None:
    inner = helper.make_tensor_value_info("i", TensorProto.FLOAT, None)
    body = onnx_graph([helper.make_node("Relu", ["a"], ["i"])], (), [inner], name="body")
    node = helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body)
    node.attribute[0].graphs.append(body)
    with pytest.raises(FileFormatError, match="graphs beside its value"):
        load(model(node, constants={"yes": np.array(True)}))


def test_what_onnx_finds_outside_its_arrays_is_an_error_of_ours() -> None:
    """Its inference of STFT asks for an element of an empty tensor: an IndexError in Python."""
    names = ["s", "step", "w", "n"]
    constants = {
        "s": np.zeros((2, 0, 2, 1), np.float32), "step": np.zeros(0, np.int32),
        "w": np.zeros((5, 2), np.float32), "n": np.full((1, 1), -1, np.int32),
    }  # fmt: skip
    with pytest.raises(FileFormatError, match="do not fit"):
        load(model(helper.make_node("STFT", names, ["y"]), opset=17, constants=constants))


def test_a_recurrent_layer_of_no_direction_is_refused() -> None:
    node = helper.make_node("LSTM", ["x3", "w", "r3"], ["y"], hidden_size=2, direction="\0")
    arrays = {"w": np.zeros((1, 8, 2), np.float32), "r3": np.zeros((1, 8, 2), np.float32)}
    with pytest.raises(FileFormatError, match="'direction'"):
        lower(model(helper.make_node("Squeeze", ["a"], ["x3"]), node, constants=arrays))


@pytest.mark.parametrize("batch_dims", [-1, -3, -(2**40)])
def test_fewer_than_no_batch_axes_are_refused(batch_dims: int) -> None:
    """ONNX's inference reads in front of its array of sizes, and crashes."""
    node = helper.make_node("GatherND", ["a", "i"], ["y"], batch_dims=batch_dims)
    with pytest.raises(FileFormatError, match="'batch_dims'"):
        load(model(node, constants={"i": np.zeros((1, 1), np.int64)}))


def test_an_empty_tensor_of_sizes_that_no_array_has_is_refused() -> None:
    proto = onnx.ModelProto.FromString(model(helper.make_node("Relu", ["a"], ["y"])))
    proto.graph.initializer.add(
        name="none", data_type=TensorProto.FLOAT, dims=[0, 2**40, 2**40], raw_data=b""
    )
    with pytest.raises(FileFormatError, match="dimensions of 0 or more"):
        load(proto)

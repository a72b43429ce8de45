"""Small files that ask for much, and nodes that say what no operator means: refused by name, at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_graph, onnx_model

from intact.engine.lower import lower
from intact.errors import FileFormatError, IntactError, QuantValueError
from intact.graph import Session, check_fallback, load, quantization_of
from intact.placement import check, explain, place, read_placement

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def info(name: str, *shape: int | str, dtype: int = onnx.TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape or None)


def constant(name: str, array: Any) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def model(
    *nodes: onnx.NodeProto,
    constants: dict[str, Any] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    inputs: list[onnx.ValueInfoProto] | None = None,
) -> bytes:
    """From x, float32 of 1 x 3 x 8 x 8, to the first output of the last node."""
    proto = onnx_model(
        nodes, inputs or [info("x", 1, 3, 8, 8)], [info(nodes[-1].output[0])], constants or {},
        domains={"own": 1}, functions=functions or (),
    )  # fmt: skip
    return bytes(proto.SerializeToString())


def pair(x: str, y: str) -> list[onnx.NodeProto]:
    q = helper.make_node("QuantizeLinear", [x, "s", "z"], [f"{y}.q"], name=f"{y}.q")
    return [q, helper.make_node("DequantizeLinear", [f"{y}.q", "s", "z"], [y], name=y)]


GRID = {"s": np.float32(0.1), "z": np.int8(0)}


def test_functions_that_double_at_every_call_are_counted_and_not_written_out() -> None:
    """Nested functions in 1.8 KB: shape inference ran for ever."""
    functions = [
        helper.make_function("own", "f0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], OPSETS)
    ]
    for i in range(1, 30):
        calls = [helper.make_node(f"f{i - 1}", [a], [b], domain="own") for a, b in (("a", "t"), ("t", "b"))]
        functions.append(helper.make_function("own", f"f{i}", ["a"], ["b"], calls, OPSETS))
    data = model(helper.make_node("f29", ["x"], ["y"], domain="own"), functions=functions)
    assert len(data) < 2200
    with pytest.raises(FileFormatError, match=r"function 'f\d+', its calls.*INTACT_LIMIT_GRAPH_NODES"):
        load(data)
    load(model(helper.make_node("f9", ["x"], ["y"], domain="own"), functions=functions[:10]))


def test_the_number_of_nodes_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [helper.make_node("Neg", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(11)]
    load(model(*nodes))
    monkeypatch.setenv("INTACT_LIMIT_GRAPH_NODES", "10")
    with pytest.raises(FileFormatError, match="11 nodes, want at most 10"):
        load(model(*nodes))


def test_branches_within_branches_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = onnx_graph([helper.make_node("Neg", ["x"], ["o0"])], (), [info("o0")])
    for i in range(5):
        node = helper.make_node("If", ["c"], [f"o{i + 1}"], then_branch=inner, else_branch=inner)
        inner = onnx_graph([node], (), [info(f"o{i + 1}")])
    inputs = [info("x", 1), helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])]
    monkeypatch.setenv("INTACT_LIMIT_GRAPH_DEPTH", "5")
    with pytest.raises(FileFormatError, match="6 graphs, want at most 5"):
        load(model(*inner.node, inputs=inputs))


@pytest.mark.parametrize("limit", ["GRAPH_PORTS", "GRAPH_VALUES", "NODE_PORTS"])
def test_what_a_graph_holds_has_limits(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [info(f"i{i}", 1) for i in range(40)]
    data = model(helper.make_node("Sum", [i.name for i in inputs], ["y"]), inputs=inputs)
    load(data)
    monkeypatch.setenv(f"INTACT_LIMIT_{limit}", "39")
    with pytest.raises(FileFormatError, match=f"INTACT_LIMIT_{limit}="):
        load(data)


@pytest.mark.parametrize(
    "numbers", [("scales", np.float32([1, 1, 2**31, 1])), ("sizes", np.int64([1, 3, 2**31, 8]))]
)
def test_a_resize_to_all_memory_is_refused(numbers: tuple[str, Any]) -> None:
    which, array = numbers
    node = helper.make_node(
        "Resize", ["x", "", *([""] if which == "sizes" else []), "n"], ["y"], mode="nearest"
    )
    with pytest.raises(FileFormatError, match=r"'y'.*INTACT_LIMIT_TENSOR_ELEMENTS"):
        load(model(node, constants={"n": array}))


def test_a_resize_of_codes_to_more_than_an_image_has_is_refused() -> None:
    nodes = [*pair("x", "d"), helper.make_node("Resize", ["d", "", "n"], ["r"], name="up"), *pair("r", "y")]
    data = model(*nodes, constants={**GRID, "n": np.float32([1, 1, 2**22, 1])})
    with pytest.raises(FileFormatError, match=r"node 'up' \(Resize\).*INTACT_LIMIT_RESIZED"):
        lower(data)


GROWN = {
    "Tile": (["one", "n2"], {}),
    "Expand": (["one", "n2"], {}),
    "ConstantOfShape": (["n2"], {}),
    "Range": (["zero", "last", "step"], {}),
    "Add": (["column", "row"], {}),
    "OneHot": (["zero", "depth", "values"], {}),
}


@pytest.mark.parametrize("op_type", GROWN)
def test_constants_that_grow_are_not_computed(op_type: str) -> None:
    """Sizes that ONNX's inference cannot tell before the constants in front are computed."""
    inputs, attributes = GROWN[op_type]
    front = [
        helper.make_node("Mul", ["n", "n"], ["n2"]),
        helper.make_node("Squeeze", ["n2"], ["last"]),
        helper.make_node("Squeeze", ["n2"], ["depth"]),
    ]
    grown = helper.make_node(op_type, inputs, ["t"], name="grow", **attributes)
    behind = [
        helper.make_node("Cast", ["t"], ["u"], to=1),
        helper.make_node("ReduceMax", ["u"], ["m"], keepdims=0),
    ]
    constants = {
        **GRID,
        "n": np.int64([2**18]),
        "one": np.ones(1, np.float32),
        "zero": np.int64(0),
        "step": np.int64(1),
        "column": np.ones((2**14, 1), np.float32),
        "row": np.ones((1, 2**14), np.float32),
        "values": np.float32([0, 1]),
    }
    nodes = [*front, grown, *behind, helper.make_node("Add", ["x", "m"], ["a"]), *pair("a", "y")]
    data = model(*nodes, constants=constants)
    for read in (lower, lambda d: explain(read_placement(load(d))), lambda d: check(load(d))):
        try:
            read(data)
        except FileFormatError as error:
            assert "INTACT_LIMIT" in str(error) or "grow" in error.where


CONV = ["d", "w"]
WRONG = [
    ("Conv", CONV, {"group": 1.0}),
    ("Conv", CONV, {"group": 0}),
    ("Conv", CONV, {"group": -1}),
    ("Conv", CONV, {"strides": 2}),
    ("Conv", CONV, {"strides": [0, 1]}),
    ("Conv", CONV, {"strides": [1]}),
    ("Conv", CONV, {"pads": [1, 1]}),
    ("Conv", CONV, {"pads": "all"}),
    ("Conv", CONV, {"dilations": [1.5, 1.5]}),
    ("Conv", CONV, {"kernel_shape": [2**40, 3]}),
    ("Conv", CONV, {"auto_pad": 1}),
    ("MaxPool", ["d"], {}),
    ("MaxPool", ["d"], {"kernel_shape": 3}),
    ("MaxPool", ["d"], {"kernel_shape": [0, 0]}),
    ("MaxPool", ["d"], {"kernel_shape": [2, 2], "ceil_mode": "yes"}),
    ("Transpose", ["d"], {"perm": 1}),
    ("Concat", ["d", "d"], {}),
    ("Concat", ["d", "d"], {"axis": [1]}),
    ("Softmax", ["d"], {"axis": "last"}),
    ("LeakyRelu", ["d"], {"alpha": 1}),
    ("Cast", ["d"], {}),
    ("DepthToSpace", ["d"], {"blocksize": 0}),
    ("Flatten", ["d"], {"axis": 1.0}),
    ("Gather", ["d", "i"], {"axis": 0.5}),
    ("Resize", ["d", "", "r"], {"mode": 3}),
    ("ReduceMean", ["d"], {"axes": 2}),
    ("Split", ["d"], {"axis": "1"}),
    ("BatchNormalization", ["d", *"bbbb"], {"epsilon": 1}),
]


@pytest.mark.parametrize("op_type, inputs, attributes", WRONG, ids=lambda value: str(value)[:40])
def test_attributes_of_another_type_or_length_are_refused_by_name(
    op_type: str, inputs: list[str], attributes: dict[str, Any]
) -> None:
    """These were TypeErrors, IndexErrors, ZeroDivisionErrors out of the depths."""
    constants = {
        **GRID,
        "w": np.ones((4, 3, 3, 3), np.float32),
        "b": np.ones(3, np.float32),
        "i": np.int64([0]),
        "r": np.float32([1, 1, 2, 2]),
    }
    node = helper.make_node(op_type, inputs, ["r1"], name="odd", **attributes)
    data = model(*pair("x", "d"), node, constants=constants)
    for read in (load, lambda d: load(d, any_opset=True), lower):
        with pytest.raises(IntactError, match=r"node 'odd'"):
            read(data)


@pytest.mark.parametrize(
    "scale, zero_point",
    [
        (np.float32([0.1, 0.2]), np.int8([0, 0, 0])),
        (np.float32(0.1), np.int8([0, 0])),
        (np.float32(-0.1), np.int8(0)),
        (np.float32(np.nan), np.int8(0)),
        (np.zeros(0, np.float32), np.zeros(0, np.int8)),
    ],
    ids=["3 zero points", "2 zero points", "negative", "nan", "empty"],
)
def test_parameters_that_are_no_grid_are_refused_by_name(scale: Any, zero_point: Any) -> None:
    data = model(
        *pair("x", "d"), helper.make_node("Relu", ["d"], ["y"]), constants={"s": scale, "z": zero_point}
    )
    with pytest.raises(IntactError, match="node 'd'"):
        graph = load(data).graph
        quantization_of(graph[1].outputs[0])


@pytest.mark.parametrize("scale", [0, np.inf, 1e-45, 3e38])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_scale_at_the_end_of_float32_is_read_or_refused(scale: float, shape: tuple[int, ...]) -> None:
    constants = {"s": np.full(shape, scale, np.float32), "z": np.zeros(shape, np.int8)}
    data = model(
        *pair("x", "d"), helper.make_node("Relu", ["d"], ["a"]), *pair("a", "y"), constants=constants
    )
    for read in (lower, lambda d: check(load(d)), lambda d: explain(read_placement(load(d)))):
        try:
            read(data)
        except IntactError as error:
            assert "node" in str(error) or "tensor" in str(error)


def test_a_name_that_is_no_text_is_refused() -> None:
    data = model(helper.make_node("Relu", ["x"], ["y"]))
    with pytest.raises(FileFormatError, match="node"):
        load(data.replace(b"Relu", b"Re\xff\xff"))


def test_the_opset_of_a_function_is_looked_at() -> None:
    """An opset of -2**62 in a function was a loop over as many numbers."""
    body = [helper.make_node("Neg", ["a"], ["b"])]
    functions = [helper.make_function("own", "f", ["a"], ["b"], body, [helper.make_opsetid("", -(2**62))])]
    with pytest.raises(IntactError, match="function 'f'"):
        load(model(helper.make_node("f", ["x"], ["y"], domain="own"), functions=functions))


def external(name: str, location: str = "secret.bin") -> onnx.TensorProto:
    tensor = onnx.TensorProto(
        name=name, data_type=1, dims=[1, 3, 8, 8], data_location=onnx.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    return tensor


def _initializer(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(external("w"))


def _attribute(proto: onnx.ModelProto) -> None:
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["k"], value=external("k")))


def _subgraph(proto: onnx.ModelProto) -> None:
    inner = onnx_graph(
        [helper.make_node("Add", ["x", "w"], ["o"])], (), [info("o")], [external("w")], name="i"
    )
    node = helper.make_node("If", ["c"], ["k"], then_branch=inner, else_branch=inner)
    proto.graph.initializer.append(constant("c", np.bool_(True)))
    proto.graph.node.insert(0, node)


def _function(proto: onnx.ModelProto) -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], value=external("k")),
        helper.make_node("Add", ["a", "k"], ["b"]),
    ]
    proto.functions.append(helper.make_function("own", "f", ["a"], ["b"], nodes, OPSETS))


def _sparse(proto: onnx.ModelProto) -> None:
    indices = constant("", np.arange(192))
    sparse = onnx.SparseTensorProto(values=external("w"), indices=indices, dims=[192])
    sparse.values.dims[:] = [192]
    proto.graph.sparse_initializer.append(sparse)


@pytest.mark.parametrize("put", [_initializer, _attribute, _subgraph, _function, _sparse])
def test_a_fallback_model_reads_no_other_file(put: Any) -> None:
    proto = onnx.ModelProto.FromString(model(helper.make_node("Neg", ["x"], ["y"])))
    check_fallback(proto.SerializeToString(), "step 'rest'", {"y": "float32"})
    put(proto)
    with pytest.raises(FileFormatError, match=r"step 'rest': .*external data"):
        check_fallback(proto.SerializeToString(), "step 'rest'", {})


def test_a_float_model_is_explained_whatever_its_constants_cost() -> None:
    data = model(helper.make_node("Add", ["x", "b"], ["y"]), constants={"b": np.ones((3, 1, 1), np.float32)})
    assert explain(place(load(data)))
    with pytest.raises(QuantValueError):
        explain(place(load(model(*pair("x", "y"), constants=GRID))))


def test_names_in_a_model_that_fails_steer_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime's log printed them as they are, beside the error that says the same."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, int64[2] s) => (float[a] y, float[b] z) '
        "{ y, z = Split <axis = 0> (x, s) }"
    )
    proto.graph.node[0].name = "\x1b[31mname"
    session = Session(proto.SerializeToString())
    with pytest.raises(IntactError, match=r"Split.*31mname") as caught:
        session.run({"x": np.zeros(3, np.float32), "s": np.int64([2, 5])})
    shown = "".join(capfd.readouterr())
    assert "\x1b" not in shown and "\x1b" not in str(caught.value)


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf")])
def test_numbers_that_no_plan_file_can_say_are_refused_when_it_is_lowered(epsilon: float) -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], name="norm", epsilon=epsilon, axis=-1)
    data = model(node, constants={"s": np.ones(8, np.float32)})
    with pytest.raises(IntactError, match=r"step 'norm': got epsilon .*, want a finite number"):
        lower(load(data))


@pytest.mark.parametrize("kind", ["GRAPH", "INTS"])
def test_an_attribute_of_type_graph_has_one_and_no_other_does(kind: str) -> None:
    node = helper.make_node("Other", ["x"], ["y"], domain="own")
    attribute = node.attribute.add(name="body", type=onnx.AttributeProto.AttributeType.Value(kind))
    if kind != "GRAPH":
        attribute.g.name = "inner"
    with pytest.raises(FileFormatError, match=r"attribute 'body': got (no graph|a graph in INTS)"):
        load(model(node))


def test_inputs_that_the_operator_does_not_take_are_refused() -> None:
    """ONNX's inference overlooks them behind a node of unknown meaning; placement computed with them."""
    nodes = [
        helper.make_node("Other", ["x"], ["a"], domain="own"),
        helper.make_node("Sigmoid", ["a", "x"], ["y"]),
    ]
    with pytest.raises(FileFormatError, match=r"\(Sigmoid\).*: got 2 inputs, want at most 1"):
        load(model(*nodes))
    left_out = helper.make_node("Clip", ["x", "", ""], ["y"])
    assert load(model(left_out)).graph[0].op_type == "Clip"


def test_a_node_without_an_input_that_it_needs_is_refused() -> None:
    with pytest.raises(FileFormatError, match=r"\(QuantizeLinear\).*: got 1 inputs, want at least 2"):
        load(model(helper.make_node("QuantizeLinear", ["x"], ["y"])))


@pytest.mark.skipif(not hasattr(onnx.NodeProto(), "device_configurations"), reason="onnx before IR 11")
def test_devices_of_no_configuration_are_refused() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    node.device_configurations.add()
    with pytest.raises(FileFormatError, match=r"relu.*devices of no configuration"):
        load(model(node))


def test_an_input_of_no_type_that_nothing_reads_is_refused() -> None:
    with pytest.raises(IntactError):
        lower(onnx_model([], [onnx.ValueInfoProto(name="x")]))


def test_names_that_are_no_text_are_refused() -> None:
    data = model(helper.make_node("Relu", ["x"], ["y"], name="relu"))
    with pytest.raises(FileFormatError, match="no UTF-8"):
        load(data.replace(b"relu", b"re\xff\xfe"))


def test_a_convolution_by_a_number_is_refused() -> None:
    with pytest.raises(IntactError):
        lower(model(helper.make_node("Conv", ["x", "w"], ["y"]), constants={"w": np.float32(1)}))

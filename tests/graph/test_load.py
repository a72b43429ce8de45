"""`load` and `save`: any valid model in and out unchanged; a damaged one named, with its node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_graph, onnx_model

from intact.errors import FileAccessError, FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.graph import Session, load, save, to_proto
from intact.graph.files.validate import MAX_READ_OPSET

TEXT = """<ir_version: 8, opset_import: ["" : 17, "custom" : 3], producer_name: "me", doc_string: "about">
g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,1.0,2.0,3.0}> {
  h = MatMul(x, w)
  y = Relu(h)
}"""


def parse(text: str = TEXT) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def graph_model(*nodes: onnx.NodeProto, outputs: str = "y", **arguments: Any) -> onnx.ModelProto:
    """A model of `nodes` with a float input x of shape (2, 4)."""
    return onnx_model(nodes, {"x": [2, 4]}, {outputs: None}, **arguments)


@pytest.mark.parametrize("kind", ["path", "bytes", "proto", "ir"])
def test_every_kind_of_source_reads_the_same(kind: str, tmp_path: Path) -> None:
    proto = parse()
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    sources = {"path": path, "bytes": path.read_bytes(), "proto": proto, "ir": load(proto)}
    loaded = load(sources[kind])
    assert [n.op_type for n in loaded.graph] == ["MatMul", "Relu"]
    assert to_proto(loaded).graph.node[0].name == "MatMul_h"


def test_the_callers_model_stays_as_it_is() -> None:
    proto = parse()
    before = proto.SerializeToString()
    first = load(proto)
    second = load(first)
    second.graph[0].name = "changed"
    assert proto.SerializeToString() == before
    assert first.graph[0].name == "MatMul_h"


def test_inferred_shapes_are_known_but_not_written(tmp_path: Path) -> None:
    loaded = load(parse())
    assert str(loaded.graph[0].outputs[0].shape) == "[N,3]"
    save(loaded, tmp_path / "m.onnx")
    assert not onnx.load(tmp_path / "m.onnx").graph.value_info


def test_what_a_file_says_beside_its_graph_is_kept(tmp_path: Path) -> None:
    proto = parse()
    proto.metadata_props.add(key="author", value="someone")
    proto.graph.node[0].doc_string = "a note"
    proto.graph.node[0].metadata_props.add(key="k", value="v")
    proto.graph.node.add(op_type="Mystery", domain="custom", input=["x"], output=["z"], name="m")
    proto.graph.quantization_annotation.add(tensor_name="h")
    proto.training_info.add().algorithm.name = "a"
    save(load(proto), tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    assert {e.domain: e.version for e in written.opset_import} == {"": 17, "custom": 3}
    assert (written.producer_name, written.doc_string) == ("me", "about")
    assert written.metadata_props == proto.metadata_props
    assert written.graph.node[0].doc_string == "a note"
    assert written.graph.node[0].metadata_props == proto.graph.node[0].metadata_props
    assert written.graph.node[2].domain == "custom"
    assert written.training_info == proto.training_info


def test_types_that_onnx_ir_has_not_are_kept(tmp_path: Path) -> None:
    labels = helper.make_node(
        "ZipMap", ["x"], ["y"], domain="ai.onnx.ml", name="zip", classlabels_int64s=[0, 1, 2, 3]
    )
    proto = graph_model(labels)
    proto.opset_import.add(domain="ai.onnx.ml", version=1)
    record = proto.graph.output[0].type.sequence_type.elem_type.map_type
    record.key_type, record.value_type.tensor_type.elem_type = TensorProto.INT64, TensorProto.FLOAT
    save(load(proto), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx").graph.output[0].type == proto.graph.output[0].type


def test_sparse_initializers_become_dense() -> None:
    values = numpy_helper.from_array(np.float32([2, 3]), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.int64([1, 7]), "w_i"), [2, 4])
    proto = graph_model(helper.make_node("Add", ["x", "w"], ["y"]))
    proto.graph.sparse_initializer.append(sparse)
    dense = load(proto).graph.initializers["w"].const_value
    assert dense is not None
    np.testing.assert_array_equal(dense.numpy(), [[0, 2, 0, 0], [0, 0, 0, 3]])


def test_a_huge_sparse_tensor_is_refused() -> None:
    values = numpy_helper.from_array(np.float32([2]), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.int64([1]), "w_i"), [2**40])
    proto = graph_model(helper.make_node("Add", ["x", "w"], ["y"]))
    proto.graph.sparse_initializer.append(sparse)
    with pytest.raises(UnsupportedError) as caught:
        load(proto)
    assert str(caught.value) == (
        "model: w: got a sparse tensor of shape [1099511627776], want at most 67108864 elements. "
        "Fix: store this tensor as a dense one"
    )


def test_a_rank_that_a_node_does_not_make_is_not_believed() -> None:
    """As captcha readers are exported: an output of [time, batch, classes] that is declared [1, length]."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Concat", ["sizes", "one"], ["longer"], axis=0),
        helper.make_node("Reshape", ["x", "longer"], ["y"]),
    ]
    model = load(onnx_model(nodes, {"x": [2, 3]}, {"y": [1, "length"]}, {"one": np.ones(1, np.int64)}))
    assert list(model.graph.outputs[0].shape or ()) == [2, 3, 1]


def test_weights_of_ir_version_3_are_no_inputs_any_more() -> None:
    proto = parse(TEXT.replace("ir_version: 8", "ir_version: 3").replace("17", "9"))
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3]))
    loaded = load(proto)
    assert loaded.ir_version == 4
    assert [v.name for v in loaded.graph.inputs] == ["x"]


def test_nodes_out_of_order_are_sorted_and_duplicate_node_names_told_apart() -> None:
    proto = graph_model(
        helper.make_node("Relu", ["h"], ["y"], name="a"), helper.make_node("Abs", ["x"], ["h"], name="a")
    )
    loaded = load(proto)
    assert [(n.op_type, n.name) for n in loaded.graph] == [("Abs", "a"), ("Relu", "a_1")]


def test_float16_models_read_and_run() -> None:
    weight = numpy_helper.from_array(np.float16([[1, 2]] * 4), "w")
    proto = graph_model(helper.make_node("MatMul", ["x", "w"], ["y"]), initializers=[weight])
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.elem_type = TensorProto.FLOAT16
    x = np.ones((2, 4), np.float16)
    loaded = load(proto)
    assert str(loaded.graph[0].outputs[0].dtype) == "FLOAT16"
    got = Session(to_proto(loaded).SerializeToString()).run({"x": x})["y"]
    np.testing.assert_array_equal(got, Session(proto.SerializeToString()).run({"x": x})["y"])


def test_saving_is_deterministic_and_checked(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(load(parse()), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    broken = load(parse())
    broken.graph[1].op_type = "Reluu"
    with pytest.raises(QuantValueError, match="No Op registered for Reluu"):
        save(broken, tmp_path / "c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_a_missing_folder_is_named_when_saving(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"none/m\.onnx': got 'No such file or directory' when it was"):
        save(load(parse()), tmp_path / "none" / "m.onnx")


def _truncate(proto: onnx.ModelProto) -> bytes:
    return proto.SerializeToString()[:-5]


def _node(**changes: Any) -> Callable[[onnx.ModelProto], bytes]:
    def edit(proto: onnx.ModelProto) -> bytes:
        for name, value in changes.items():
            field = getattr(proto.graph.node[1], name)
            field[:] = value
        return proto.SerializeToString()

    return edit


def _tensor(edit: Callable[[TensorProto], None]) -> Callable[[onnx.ModelProto], bytes]:
    def apply(proto: onnx.ModelProto) -> bytes:
        edit(proto.graph.initializer[0])
        return proto.SerializeToString()

    return apply


def _set(path: str, value: Any) -> Callable[[onnx.ModelProto], bytes]:
    def apply(proto: onnx.ModelProto) -> bytes:
        target: Any = proto
        *parents, last = path.split(".")
        for part in parents:
            target = target[int(part)] if part.isdigit() else getattr(target, part)
        setattr(target, last, value)
        return proto.SerializeToString()

    return apply


def _dims(*dims: int) -> Callable[[TensorProto], None]:
    def edit(tensor: TensorProto) -> None:
        tensor.dims[:] = dims

    return edit


def _external(proto: onnx.ModelProto) -> bytes:
    tensor = proto.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="data.bin")
    return proto.SerializeToString()


_AGAIN = "Fix: export the model again; this file is damaged or was edited"
_DAMAGED = "Fix: export the model again; this file is damaged"
BAD = {
    "undefined-input": (
        _node(input=["lost"]),
        "node 1 (Relu) of output 'y': got an input 'lost' that nothing defines, "
        f"want an input, an initializer or an output. {_AGAIN}",
    ),
    "missing-initializer": (
        lambda p: (p.graph.ClearField("initializer"), p.SerializeToString())[1],
        "node 0 (MatMul) of output 'h': got an input 'w' that nothing defines, "
        f"want an input, an initializer or an output. {_AGAIN}",
    ),
    "cycle": (
        lambda p: (p.graph.node[0].input.__setitem__(0, "y"), p.SerializeToString())[1],
        "node 0 (MatMul) of output 'h': got an input that is its own output, want a graph without cycles. "
        f"{_AGAIN}",
    ),
    "duplicate-value": (
        _node(output=["h"]),
        "node 1 (Relu) of output 'h': got an output 'h' that exists already, want a name of its own. "
        f"{_AGAIN}",
    ),
    "output-over-initializer": (
        _node(output=["w"]),
        "node 1 (Relu) of output 'w': got an output 'w' that exists already, want a name of its own. "
        f"{_AGAIN}",
    ),
    "duplicate-initializer": (
        lambda p: (p.graph.initializer.append(p.graph.initializer[0]), p.SerializeToString())[1],
        f"initializer: got the name 'w' 2 times, want a name of its own. {_AGAIN}",
    ),
    "unmade-output": (
        _set("graph.output.0.name", "z"),
        f"graph: got an output 'z' that nothing computes, want a value of this graph. {_AGAIN}",
    ),
    "no-operator": (
        _set("graph.node.1.op_type", ""),
        f"node 1 (?) of output 'y': got no operator type, want a node with one. {_AGAIN}",
    ),
    "wrong-shapes": (
        _set("graph.input.0.type.tensor_type.shape.dim.1.dim_value", 5),
        "a node (MatMul): got shapes or types that do not fit: [ShapeInferenceError] Incompatible dimensions "
        "for matrix multiplication, want a valid graph. Fix: export the model again",
    ),
    "negative-dimension": (
        _tensor(_dims(-4, 3)),
        f"initializer 'w': got shape [-4, 3], want dimensions of 0 or more that fit in memory. {_DAMAGED}",
    ),
    "absurd-dimensions": (
        _tensor(_dims(2**40, 2**40)),
        "initializer 'w': got shape [1099511627776, 1099511627776], want dimensions of 0 or more that fit in "
        f"memory. {_DAMAGED}",
    ),
    "dimensions-beyond-the-data": (
        _tensor(_dims(4000, 3)),
        f"initializer 'w': got 12 elements, want 12000, for float[4000, 3]. {_DAMAGED}",
    ),
    "unknown-type": (
        _set("graph.initializer.0.data_type", 77),
        f"initializer 'w': got data type 77, want a type that ONNX defines. {_DAMAGED}",
    ),
    "negative-input-dimension": (
        _set("graph.input.0.type.tensor_type.shape.dim.1.dim_value", -2),
        f"value 'x': got shape [-2], want dimensions of 0 or more that fit in memory. {_DAMAGED}",
    ),
    "future-ir": (
        _set("ir_version", 99),
        f"ir_version: got 99, want 3..{onnx.IR_VERSION}. Fix: export the model with a current exporter, or "
        "update the onnx package",
    ),
    "no-such-opset": (
        _set("opset_import.0.version", 0),
        f"opset: got 0, want 1..{MAX_READ_OPSET}. Fix: convert the model with onnx.version_converter, "
        "for example to opset 17",
    ),
    "new-opset": (
        _set("opset_import.0.version", 29),
        f"opset: got 29, want 1..{MAX_READ_OPSET}. Fix: convert the model with onnx.version_converter, "
        "for example to opset 17",
    ),
    "no-opset": (
        lambda p: (p.ClearField("opset_import"), p.SerializeToString())[1],
        f"opset_import: got no opset, want one opset of each domain. {_AGAIN}",
    ),
    "two-opsets": (
        lambda p: (p.opset_import.add(domain="ai.onnx", version=16), p.SerializeToString())[1],
        f"opset_import: got versions 17 and 16 of domain '', want one opset of each domain. {_AGAIN}",
    ),
    "an-opset-beyond-all": (
        lambda p: (p.opset_import.add(domain="mine", version=2**40), p.SerializeToString())[1],
        "opset_import: got version 1099511627776 of domain 'mine', want versions of 0 to 2147483647. "
        + _AGAIN,
    ),
    "external-without-a-folder": (
        _external,
        "initializer 'w': got external data in 'data.bin' of a model without a folder, want a model that was "
        "read from a file. Fix: give the path of the model, or its folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit, message", BAD.values(), ids=BAD)
def test_a_damaged_model_is_named_with_its_node(
    edit: Callable[[onnx.ModelProto], bytes], message: str
) -> None:
    with pytest.raises(IntactError) as caught:
        load(edit(parse()))
    assert str(caught.value) == f"model: {message}"


def test_a_domain_may_come_again_with_the_version_that_it_has() -> None:
    proto = parse()
    proto.opset_import.add(domain="ai.onnx", version=17)  # as onnx.compose writes where it merges two models
    proto.opset_import.add(domain="custom", version=3)
    assert load(proto).opset_imports == load(parse()).opset_imports


def test_an_stft_is_one_sided_where_it_does_not_say() -> None:
    node = helper.make_node("STFT", ["x", "hop", "window"], ["y"])
    proto = onnx_model(
        [node], {"x": [1, 64, 1]}, {"y": None}, {"hop": np.array(8), "window": np.ones(16, np.float32)}
    )
    y = Session(load(proto)).run({"x": np.ones((1, 64, 1), np.float32)})["y"]
    assert list(load(proto).graph.outputs[0].shape or ()) == list(y.shape) == [1, 7, 9, 2]


COLUMNS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[N,M] y) <int64[4] few = {1,2,3,4}, int64[3] more = {5,6,7}, int64[1] last = {-1}> {
  column = Unsqueeze(few, last)
  table = Add(column, more)
  floats = Cast<to = 1>(table)
  y = Mul(floats, x)
}"""


def test_numbers_that_onnx_follows_as_vectors_are_no_contradiction() -> None:
    """[4, 1] + [3] is a table, and ONNX's inference, which follows its numbers, took it for an error."""
    proto = parse(COLUMNS.replace("Mul(floats, x)", "Expand(floats, sizes)").replace("x)", "x)", 1)
                  .replace("int64[1] last", "int64[2] sizes = {4,3}, int64[1] last"))  # fmt: skip
    assert {v.name: list(v.shape or ()) for n in load(proto).graph for v in n.outputs}["table"] == [4, 3]


def test_a_declared_rank_that_is_wrong_leaves_those_of_constants() -> None:
    proto = parse()
    proto.graph.value_info.extend(
        [
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3]),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 1, 3]),
        ]
    )
    (matmul, _) = load(proto).graph
    assert [str(size) for size in matmul.outputs[0].shape or ()] == ["N", "3"]


LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3] x, int64 n) => (float[N, M] y) <bool yes = {1}, float[1] zero = {0}> {
  z, rows = Loop(n, yes, zero) <body = b (int64 i, bool go, float[1] s) => (bool on, float[1] t, float[1] r) {
    on = Identity(go)
    first = Constant <value = int64[1] {0}> ()
    t = Identity(s)
    last = Gather(x, first)
    r = Squeeze(last)
  }>
  y = Identity(rows)
}"""


def test_a_declared_rank_that_is_wrong_in_a_loop_leaves_the_others() -> None:
    """As Paddle's converter writes the state of a decoder; what inference cannot tell stays as declared."""
    proto = onnx.parser.parse_model(LOOP.replace("[N, M]", "[N, 3]"))
    (info,) = (i for i in proto.graph.node[0].attribute[0].g.output if i.name == "r")
    assert len(info.type.tensor_type.shape.dim) == 1
    info.type.tensor_type.shape.Clear()  # a scalar
    with pytest.raises(onnx.shape_inference.InferenceError):
        onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    model = load(proto)
    assert list(model.graph.outputs[0].shape or ())[1:] == [3]
    x = np.arange(3, dtype=np.float32)[None]
    outputs = Session(model).run({"x": x, "n": np.array(2)})
    assert np.array_equal(outputs["y"], np.repeat(x, 2, 0))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(_truncate(parse()))
    with pytest.raises(FileFormatError, match=r"cut\.onnx: got .*want an ONNX model\. Fix: check the path"):
        load(path)


def test_a_missing_file_and_a_wrong_source_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"^file '[^']*none\.onnx': got 'No such file or directory'"):
        load(tmp_path / "none.onnx")
    with pytest.raises(QuantValueError, match="source: got a int, want a path, bytes, a ModelProto"):
        load(3)  # type: ignore[arg-type]


def test_errors_in_subgraphs_name_the_way_to_them() -> None:
    branch = onnx_graph([helper.make_node("Relu", ["lost"], ["r"], name="inner")], (), {"r": None}, name="b")
    condition = numpy_helper.from_array(np.array(True), "c")
    node = helper.make_node("If", ["c"], ["y"], name="choose", then_branch=branch, else_branch=branch)
    with pytest.raises(
        FileFormatError, match=r"node 'choose' \(If\): node 'inner' \(Relu\): got an input 'lost'"
    ):
        load(graph_model(node, initializers=[condition]))


def test_functions_that_call_themselves_are_refused() -> None:
    proto = graph_model(helper.make_node("F", ["x"], ["y"], domain="own"))
    opsets = [helper.make_opsetid("own", 1)]
    proto.opset_import.extend(opsets)
    body = [helper.make_node("F", ["a"], ["b"], domain="own")]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, opsets))
    with pytest.raises(
        FileFormatError, match="function 'F': got a call of itself, want functions without cycles"
    ):
        load(proto)


@pytest.mark.parametrize(("start", "kind"), [
    (b"PK\x03\x04", "a zip archive"), (b"\x1f\x8b\x08", "a file that gzip packed"),
    (b"\x1c\0\0\0TFL3", "a TensorFlow Lite model"), (b"<!DOCTYPE html>", "a text, as a web page is"),
    (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"),
])  # fmt: skip
def test_files_of_other_kinds_are_called_what_they_are(start: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(start + b"\xff" * 64)
    with pytest.raises(FileFormatError, match=f"got {kind}, want an ONNX model"):
        load(path)


def test_outputs_that_nothing_makes_have_the_type_of_the_input_or_constant() -> None:
    undeclared = [onnx.ValueInfoProto(name=name) for name in ("x", "c", "y")]
    constant = np.arange(2, dtype=np.int32)
    proto = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n", 3]}, undeclared, {"c": constant})
    types = {output.name: (str(output.dtype), str(output.shape)) for output in load(proto).graph.outputs}
    assert types == {"x": ("FLOAT", "[n,3]"), "c": ("INT32", "[2]"), "y": ("FLOAT", "[n,3]")}


@pytest.mark.parametrize("number", [None, -3])
def test_references_to_attributes_of_no_function_are_refused(number: int | None) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"])
    reference = onnx.AttributeProto(name="batch_dims", ref_attr_name="axes", type=onnx.AttributeProto.INT)
    if number is not None:
        reference.i = number
    node.attribute.append(reference)
    proto = onnx_model([node], {"x": [5, 2], "i": (TensorProto.INT64, [1])}, {"y": None})
    with pytest.raises(FileFormatError, match=r"batch_dims.*outside of functions"):
        load(proto)

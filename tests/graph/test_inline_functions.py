"""Functions that a file defines are written out: layers are quantized, named as the call and the node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_graph, onnx_model

import intact
from intact.graph import Session, inline_functions, load, register_operator, save, to_bytes
from intact.ptq import quantize

FLOAT = TensorProto.FLOAT


def opsets(version: int, *domains: str) -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid("", version), *(helper.make_opsetid(domain, 1) for domain in domains)]


def activation(version: int = 17) -> onnx.FunctionProto:
    """y = 0.5 * LeakyRelu(c), whose slope is an attribute of the call."""
    leaky = helper.make_node("LeakyRelu", ["c"], ["l"], name="leak")
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type="FLOAT"))
    nodes = [
        helper.make_node("Constant", [], ["k"], value_float=0.5), leaky,
        helper.make_node("Mul", ["l", "k"], ["y"], name="mul"),
    ]  # fmt: skip
    return helper.make_function("mod", "Act", ["c"], ["y"], nodes, opsets(version), ["slope"])


def block(version: int = 17) -> onnx.FunctionProto:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Act", ["c"], ["y"], domain="mod", name="act", slope=0.2),
    ]
    return helper.make_function("mod", "Block", ["x", "w", "b"], ["y"], nodes, opsets(version, "mod"))


def model(*functions: onnx.FunctionProto, branch: bool = False) -> onnx.ModelProto:
    """Two calls of a block, of which only one gives the bias; the second in a branch, if asked."""
    rng, info = np.random.default_rng(0), helper.make_tensor_value_info
    weights = {"w1": (8, 4, 3, 3), "w2": (8, 8, 3, 3), "bias": (8,)}
    initializers = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 4, name)
        for name, shape in weights.items()
    ]
    first = helper.make_node("Block", ["x", "w1"], ["a"], domain="mod", name="first")
    second = helper.make_node("Block", ["a", "w2", "bias"], ["y"], domain="mod", name="second")
    inputs = [info("x", FLOAT, ["n", 4, 6, 6])]
    if branch:
        second.output[0] = "t"
        then = onnx_graph([second], (), [info("t", FLOAT, None)], name="then")
        other = onnx_graph([helper.make_node("Neg", ["a"], ["o"])], (), [info("o", FLOAT, None)], name="else")
        second = helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other)
        inputs.append(info("c", TensorProto.BOOL, []))
    ends = [info("y", FLOAT, None)]
    return onnx_model([first, second], inputs, ends, initializers, domains={"mod": 1}, functions=functions)


def images() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((8, 4, 6, 6)).astype(np.float32)


@pytest.mark.parametrize("versions", [(17, 17), (14, 16), (18, 17)], ids=str)
@pytest.mark.parametrize("branch", [False, True])
def test_calls_are_written_out_and_mean_the_same(versions: tuple[int, int], branch: bool) -> None:
    proto = model(activation(versions[0]), block(versions[1]), branch=branch)
    loaded = load(proto)
    inline_functions(loaded)
    assert not loaded.functions and "mod" not in {node.domain for node in loaded.graph.all_nodes()}
    feeds: dict[str, np.ndarray] = {"x": images()} | ({"c": np.array(True)} if branch else {})
    want = Session(proto.SerializeToString()).run(feeds)["y"]
    np.testing.assert_allclose(Session(to_bytes(loaded)).run(feeds)["y"], want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(intact.compile(proto).run(feeds)["y"], want, rtol=1e-5, atol=1e-5)


def test_layers_are_quantized_and_named_as_the_call_and_the_node() -> None:
    rows = quantize(model(activation(), block()), images(), progress=False, float_budget=0).explain()
    precisions = {row["layer"]: row["precision"] for row in rows}
    assert precisions["first/conv"] == precisions["second/conv"] == "int8"
    assert "first/act/mul" in precisions and "second/act/mul" in precisions


def test_a_file_that_is_read_and_written_keeps_its_functions(tmp_path) -> None:
    save(load(model(activation(), block())), tmp_path / "m.onnx")
    assert len(onnx.load(tmp_path / "m.onnx").functions) == 2


def test_a_function_with_the_name_of_a_registered_operator_stays() -> None:
    register_operator("mod", "Act", 1, {"slope": 0.0}, lambda shapes: [tuple(shapes[0])])
    try:
        loaded = load(model(activation(), block()))
        inline_functions(loaded)
        assert [node.op_type for node in loaded.graph] == ["Conv", "Act"] * 2
        assert [node.name for node in loaded.graph][1] == "first/act"
    finally:
        onnx.defs.deregister_schema("Act", 1, "mod")

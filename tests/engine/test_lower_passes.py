"""Notes and guards of the passes, the names of a plan, and refusals of `Plan.check`."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_graph, onnx_model

from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.graph import Pass, check_graph, load, run_stages
from intact.placement import read_placement


def small(g):
    """A convolution and a classifier behind a pool."""
    x = g.pair(g.input("image", ["n", 3, 6, 6]))
    y = g.pair(g.node("Relu", g.conv(x, 3, 8, group=1), name="act"))
    y = g.pair(g.node("GlobalAveragePool", y, name="pool"), 0.03)
    return g.node("Gemm", g.node("Flatten", y), g.weight(8, 5, axis=1), name="logits")


def test_what_does_nothing_goes(qdq, lower_graph):
    g = qdq()
    x = g.node("Identity", g.node("Dropout", g.pair(g.input("x", [1, 3, 4, 4]))))
    x = g.node("Transpose", g.node("Cast", x, to=TensorProto.FLOAT), perm=[0, 1, 2, 3])
    lowered = lower_graph(g, g.quantize(g.conv(x, 3, 4))).agree()
    assert lowered.kinds == ["quantize", "conv"]
    assert sum("does nothing" in note for note in lowered.plan.notes) == 4


def test_an_input_that_is_an_output_too(qdq, lower_graph):
    g = qdq()
    assert lower_graph(g, g.node("Identity", g.input("x", [2, 3]))).agree().kinds == ["reshape"]


def test_arithmetic_with_known_sizes_is_constant(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", ["n", 5, 16]))
    sizes = g.node("Shape", x)
    batch, width = (g.node("Gather", sizes, g.ints(i)) for i in (0, 2))
    heads = g.node("Div", width, g.ints(4))
    y = g.node("Reshape", x, g.node("Concat", batch, g.ints(5, 4), heads, axis=0))
    y = g.node("Transpose", y, perm=[0, 2, 1, 3])
    lowered = lower_graph(g, g.quantize(y), sizes={"n": 3}).agree()
    assert lowered.kinds == ["quantize", "reshape", "transpose"]
    assert lowered.plan.tensors[lowered.plan.steps[-1].y].shape == ("n", 4, 5, 4)


def test_names_are_the_graphs_own(qdq):
    g = qdq()
    y = small(g)
    plan = lower(g.proto(y))
    assert plan.inputs == ("image",) and plan.outputs == ("logits",)
    assert plan.tensors["act"].codes is not None, "codes are called as the floats that they stand for"
    assert [step.name for step in plan.steps if step.kind == "pool"] == ["pool"]
    assert not plan.tensors.keys() & plan.constants.keys()


def test_constants_take_no_names_of_tensors(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [2, 8]))
    y = g.node("Add", g.node("MatMul", x, g.weight(8, 8, axis=1), name="o"), g.floats(8), name="o.bias")
    lowered = lower_graph(
        g, g.node("LayerNormalization", g.node("Add", y, g.input("z", [2, 8])), g.floats(8))
    )
    assert lowered.agree(1e-5).kinds == ["quantize", "linear", "layer_norm"]


def test_layers_are_those_of_the_file(qdq):
    g = qdq()
    proto = g.proto(small(g))
    assert lower(proto).layers == read_placement(load(proto)).layers


def test_the_same_file_gives_the_same_plan_and_stays_as_it_was(qdq):
    g = qdq()
    proto = g.proto(small(g))
    before = proto.SerializeToString()
    first, other = lower(proto), lower(proto)
    assert first.steps == other.steps and first.tensors == other.tensors
    assert proto.SerializeToString() == before


def test_what_no_step_does_is_one_stretch(qdq, lower_graph):
    g = qdq()
    y = g.node("LpNormalization", g.input("x", [1, 3, 4, 4]))
    lowered = lower_graph(g, g.node("Relu", g.node("Shrink", y))).agree(1e-4)
    assert lowered.kinds[0] == "onnx" and lowered.kinds.count("onnx") == 1


def test_a_file_without_pairs_runs_natively(qdq, lower_graph):
    g = qdq()
    y = g.node("Conv", g.input("x", [1, 3, 4, 4]), g.floats(4, 3, 3, 3))
    lowered = lower_graph(g, g.node("Relu", g.node("Conv", y, g.floats(4, 4, 1, 1)))).agree(1e-4)
    assert lowered.kinds == ["float_conv", "float_conv", "function"]


def test_an_output_of_no_known_rank_is_refused(qdq):
    g = qdq()
    x = g.input("x", [4])
    target = g.input("target", ["rank"], TensorProto.INT64)
    with pytest.raises(UnsupportedError, match=r"the rank of .* is not known.*of a known rank"):
        lower(g.proto(g.node("Reshape", x, target)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: replace(p, steps=p.steps[1:]), "which no step before it makes"),
        (lambda p: replace(p, steps=p.steps + p.steps[-1:]), "a second 'logits'"),
        (lambda p: replace(p, constants={}), "no constant '"),
        (lambda p: replace(p, outputs=("more",)), "'more', which no step makes"),
        (lambda p: replace(p, tensors={k: v for k, v in p.tensors.items() if k != "act"}), "'act'"),
        (lambda p: replace(p, constants={**p.constants, "act": np.zeros(1)}), "a tensor and a constant"),
    ],
    ids=["step missing", "step twice", "constant missing", "output missing", "tensor missing", "name twice"],
)
def test_a_plan_that_contradicts_itself_is_refused(qdq, change, message):
    g = qdq()
    plan = lower(g.proto(small(g)))
    with pytest.raises(FileFormatError, match=message):
        change(plan).check()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'image': got nothing, want float32"),
        ({"image": np.zeros((1, 3, 6, 6))}, "got dtype float64, want float32"),
        ({"image": np.zeros((1, 3, 5, 6), np.float32)}, "tensor 'image': got shape"),
    ],
    ids=["missing", "dtype", "shape"],
)
def test_the_reference_refuses_other_inputs(qdq, inputs, message):
    g = qdq()
    plan = lower(g.proto(small(g)))
    with pytest.raises(QuantValueError, match=message):
        evaluate(plan, inputs)


def spoil(model, kind):
    """`model` as a wrong pass would leave it."""
    nodes = list(model.graph)
    if kind == "order":
        model.graph.remove(nodes[0])
        model.graph.append(nodes[0])
    elif kind == "name":
        nodes[1].outputs[0].name = nodes[0].outputs[0].name
    elif kind == "codes":
        pool = next(node for node in nodes if node.op_type == "Flatten")
        pool.outputs[0].type = next(n for n in nodes if n.op_type == "QuantizeLinear").outputs[0].type
    return []


@pytest.mark.parametrize(
    ("kind", "message"),
    [("order", "before it is made"), ("name", "makes a second"), ("codes", "moves codes on one side")],
)
def test_a_pass_that_breaks_the_graph_is_named(qdq, kind, message):
    g = qdq()
    model = load(g.proto(small(g)))
    with pytest.raises(UnsupportedError, match=rf"node '.*'.*{message}.*after 'wrong'"):
        run_stages(model, [Pass("wrong", lambda m: spoil(m, kind)), Pass("right", lambda m: [])])


@pytest.mark.parametrize("codes", [True, False])
@pytest.mark.parametrize(("cut", "perm"), [
    ([2, 4, 2, 2, 3, 2, 3, 8], [0, 1, 3, 5, 2, 4, 6, 7]),  # windows of a video
    ([1, 8, 2, 3, 1, 2, 3, 16], [5, 0, 2, 6, 3, 4, 1, 7]),
    ([2, 2, 2, 2, 3, 2, 3, 4, 4], [8, 7, 0, 1, 2, 3, 4, 5, 6]),
], ids=["windows", "ones", "turned"])  # fmt: skip
def test_axes_that_stay_together_are_one_where_there_are_many(qdq, lower_graph, cut, perm, codes):
    g = qdq()
    x = g.input("x", [2, 8, 6, 6, 8] if len(cut) == 8 and cut[0] == 2 else [int(np.prod(cut))])
    y = g.node("Transpose", g.node("Reshape", g.pair(x) if codes else x, g.ints(*cut)), perm=perm)
    y = g.node("Reshape", y, g.ints(8, -1))
    lowered = lower_graph(g, g.quantize(y) if codes else y).agree()
    assert "onnx" not in lowered.kinds


def test_many_axes_that_someone_else_reads_stay(qdq, lower_graph):
    g = qdq()
    cut = g.node("Reshape", g.input("x", [2, 8, 6, 6, 8]), g.ints(2, 4, 2, 2, 3, 2, 3, 8))
    y = g.node("Reshape", g.node("Transpose", cut, perm=[0, 1, 3, 5, 2, 4, 6, 7]), g.ints(8, -1))
    assert "8 axes" in lower_graph(g, y, g.node("Reshape", cut, g.ints(2, -1))).agree().step("onnx").reason


def test_a_cast_like_another_tensor(qdq, lower_graph):
    g = qdq()
    x, like = g.input("x", [2, 3], TensorProto.INT32), g.input("like", [1])
    assert lower_graph(g, g.node("Tanh", g.node("CastLike", x, like))).agree(1e-5).kinds == [
        "elementwise",
        "function",
    ]


def test_a_quantizer_moves_in_front_of_where_its_scale_was_made():
    nodes = [
        helper.make_node("Reshape", ["x", "sizes"], ["r"]),
        helper.make_node("Constant", [], ["scale"], value_float=0.1),
        helper.make_node("Constant", [], ["zero"], value=numpy_helper.from_array(np.int8(3))),
        helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    proto = onnx_model(nodes, {"x": [4, 6]}, {"y": None}, {"sizes": np.array([8, 3])})
    assert [step.kind for step in lower(proto).steps] == ["quantize", "reshape", "dequantize"]


def test_a_graph_out_of_order_is_refused_in_subgraphs_too():
    info = helper.make_tensor_value_info
    then, other = (
        onnx_graph([helper.make_node("Add", ["x", "late"], [t])], (), {t: [3]}, name=t) for t in "tu"
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["late"], name="late"),
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other),
    ]
    inputs = [info("x", TensorProto.FLOAT, [3]), info("c", TensorProto.BOOL, [])]
    model = load(onnx_model(nodes, inputs, {"y": None}))
    check_graph(model, "nothing")
    relu, branch = model.graph
    model.graph.remove(relu)
    model.graph.insert_after(branch, relu)
    with pytest.raises(UnsupportedError, match="reads 'late' before it is made, after 'a pass'"):
        check_graph(model, "a pass")

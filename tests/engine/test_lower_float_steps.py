"""Float steps and subgraphs: native where `numerics` has a function, ONNX Runtime elsewhere."""

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("second", ["codes", "real", "vector"])
def test_arithmetic_of_two_tensors(qdq, lowered, op_type, second):
    g = qdq()
    a = g.pair(g.input("a", [2, 5, 8]))
    b = g.constant(np.float32(g.rng.uniform(0.5, 2, 8))) if second == "vector" else g.input("b", [2, 1, 8])
    b = g.pair(b, 0.03) if second == "codes" else b
    found = lowered(g, g.node(op_type, a, b))
    assert found.kinds[-1] == "binary" and "onnx" not in found.kinds
    got, want = found.values[op_type.lower() + str(len(g.nodes) - 1)], next(iter(found.expected.values()))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "op_type", ["Erf", "Exp", "Gelu", "HardSwish", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu"]
)
def test_functions_of_reals(qdq, lowered, op_type):
    g = qdq()
    y = g.node(op_type, g.input("x", [3, 50]))
    assert lowered(g, y).agree(1e-6).kinds == ["function"]


@pytest.mark.parametrize(
    ("op_type", "exponent", "kind"),
    [
        ("Sqrt", None, "function"), ("Log", None, "function"), ("Pow", 0.5, "function"), ("Pow", 2, "binary"),
        ("Pow", -1, "binary"),
    ],
)  # fmt: skip
def test_roots_logarithms_and_powers(qdq, lowered, op_type, exponent, kind):
    g = qdq()
    given = [] if exponent is None else [g.constant(np.float32(exponent))]
    found = lowered(g, g.node(op_type, g.node("Exp", g.input("x", [3, 50])), *given)).agree(1e-6)
    assert found.kinds == ["function", kind]


@pytest.mark.parametrize("alpha, beta", [(0.2, 0.5), (1 / 6, 0.5), (-0.7, 0.1)])
def test_hard_sigmoids_of_any_slope(qdq, lowered, alpha, beta):
    g = qdq()
    found = lowered(g, g.node("HardSigmoid", g.input("x", ["n", 50]), alpha=alpha, beta=beta), sizes={"n": 3})
    assert "onnx" not in found.agree(1e-6).kinds


@pytest.mark.parametrize("op_type", ["Neg", "Reciprocal"])
def test_functions_that_are_one_operation_with_a_number(qdq, lowered, op_type):
    g = qdq()
    y = g.node(op_type, g.input("x", [3, 50]))
    found = lowered(g, y)
    assert found.kinds == ["binary"]
    np.testing.assert_array_equal(found.values[y], found.expected[y])


def test_magnitudes(qdq, lowered):
    g = qdq()
    y = g.node("Abs", g.input("x", [4, 3]))
    strange = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 3e38, -3e38, 2], np.float32)
    g.feeds = lambda sizes=None: {"x": strange.reshape(4, 3)}
    found = lowered(g, y)
    assert found.kinds == ["binary"] * 3
    np.testing.assert_array_equal(found.values[y], np.abs(strange).reshape(4, 3))
    assert not np.signbit(found.values[y][~np.isnan(found.values[y])]).any()


@pytest.mark.parametrize("size", ["known", "free"])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_the_largest_of_windows_of_floats(qdq, lowered, size, ceil_mode):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", ["n", 5, 9, 7 if size == "known" else "w"]))
    y = g.node("MaxPool", x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=ceil_mode)
    found = lowered(g, y, sizes={"n": 2, "w": 7}).agree(1e-6)
    assert found.kinds == ["function", "pool"]


@pytest.mark.parametrize("ends", [(0, 6), (0, None), (None, 1), (2, -1), (-np.inf, 1), (None, None)], ids=str)
def test_clip_of_reals(qdq, lowered, ends):
    g = qdq()
    constants = ["" if end is None else g.constant(np.float32(end)) for end in ends]
    y = g.node("Clip", g.input("x", ["n", 50]), *constants)
    found = lowered(g, y, g.quantize(g.node("Clip", g.pair(g.input("z", [3, 5])), *constants), 0.03),
                    sizes={"n": 3}).agree()  # fmt: skip
    assert found.kinds == ["clip", "quantize", "table"]
    np.testing.assert_array_equal(found.values[y], found.expected[y])


@pytest.mark.parametrize("given", ["both", "low", "high"])
def test_clip_by_what_is_computed(qdq, lowered, given):
    g = qdq()
    low = g.input("low", []) if given != "high" else g.constant(np.float32(-0.5))
    high = g.input("high", []) if given != "low" else ""
    y = g.node("Clip", g.input("x", [3, 50]), low, high)
    found = lowered(g, y).agree()
    assert set(found.kinds) == {"binary"} and len(found.kinds) <= 2
    np.testing.assert_array_equal(found.values[y], found.expected[y])


@pytest.mark.parametrize("ends", [(np.inf, None), (None, -np.inf), (np.nan, 1)], ids=str)
def test_a_clip_that_leaves_no_number_runs_in_a_stretch(qdq, lowered, ends):
    g = qdq()
    constants = ["" if end is None else g.constant(np.float32(end)) for end in ends]
    assert lowered(g, g.node("Clip", g.input("x", [3, 5]), *constants)).kinds == ["onnx"]


@pytest.mark.parametrize("op_type", ["Max", "Min"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_extremes_of_tensors(qdq, lowered, op_type, count):
    g = qdq()
    operands = [g.input("x", [2, 5, 8]), g.pair(g.input("z", [5, 1])), g.floats(8), g.floats(1)]
    y = g.node(op_type, *operands[:count])
    found = lowered(g, y, g.quantize(y, 0.03)).agree()
    assert found.kinds == ["quantize"] + ["binary"] * (count - 1) + ["quantize"]
    np.testing.assert_array_equal(found.values[y], found.expected[y])


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_extremes_of_codes_and_numbers_are_tables(qdq, lowered, op_type):
    g = qdq()
    y = g.node(op_type, g.constant(np.float32(0.3)), g.pair(g.input("x", [4, 64])), g.constant(np.float32(1)))
    assert lowered(g, g.quantize(y, 0.03)).agree().kinds == ["quantize", "table"]


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"])
@pytest.mark.parametrize("axes", [(-1,), (1,), (2, 3), (0, -1), ()], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_one_number_for_many_reals(qdq, lowered, op_type, axes, keepdims):
    g = qdq()
    x = g.input("x", ["n", 3, 5, 6])
    given = [g.ints(*axes)] if axes else []
    found = lowered(g, g.node(op_type, x, *given, keepdims=keepdims), sizes={"n": 2}).agree(1e-5)
    assert found.kinds == ["reduce"]


def test_the_largest_of_an_image_of_reals(qdq, lowered):
    g = qdq()
    x = g.input("x", ["n", 20, 5, 6])
    assert lowered(g, g.node("GlobalMaxPool", x), sizes={"n": 2}).agree().step("reduce").function == "max"


def test_a_mean_over_no_axes_is_nothing(qdq, lowered):
    g = qdq()
    y = g.node("ReduceMean", g.input("x", [2, 5]), noop_with_empty_axes=1)
    assert lowered(g, y).agree().step("reduce").axes == ()


@pytest.mark.parametrize("source", ["float_steps", "codes"])
@pytest.mark.parametrize("rank", [3, 4])
def test_global_pools_to_reals(qdq, lowered, source, rank):
    g = qdq()
    x = g.input("x", [2, 20, 5, 6][:rank])
    y = g.node("GlobalAveragePool", g.pair(x) if source == "codes" else x)
    assert lowered(g, y).agree(1e-5).kinds == ["quantize"] * (source == "codes") + ["reduce"]


def test_the_mean_of_a_layers_images_is_taken_as_they_lie(qdq, lowered):
    g = qdq()
    y = g.node("Sigmoid", g.conv(g.pair(g.input("x", [2, 3, 5, 6])), 3, 20))
    y = g.node("ReduceMean", y, g.ints(2, 3), keepdims=0)
    y = g.node("MatMul", g.pair(y, 0.01), g.weight(20, 4, axis=1))
    assert lowered(g, g.quantize(y)).agree().kinds == ["quantize", "conv", "reduce", "linear"]


def test_the_mean_of_codes_over_a_sequence(qdq, lowered):
    g = qdq()
    y = g.node("ReduceMean", g.pair(g.input("x", [2, 7, 12])), g.ints(1))
    assert lowered(g, g.quantize(y, 0.02)).agree().kinds == ["quantize", "reduce"]


def test_softmax_takes_the_mask_before_it(qdq, lowered):
    g = qdq()
    scores = g.node("Add", g.input("x", ["batch", 2, 5, 5]), g.input("mask", ["batch", 1, 1, 5]))
    found = lowered(g, g.quantize(g.node("Softmax", scores), 1 / 127), sizes={"batch": 2}).agree()
    assert found.kinds == ["softmax"]
    assert found.step("softmax").mask == "mask"


@pytest.mark.parametrize("axis", [1, -1])
def test_softmax_over_an_axis(qdq, lowered, axis):
    g = qdq()
    y = g.node("Softmax", g.pair(g.input("x", [2, 7, 5])), axis=axis)
    assert lowered(g, y).agree().kinds == ["quantize", "softmax"]


def test_layer_norm_takes_the_residual_before_it(qdq, lowered):
    g = qdq()
    a, b = g.input("a", [2, 5, 16]), g.pair(g.input("b", [2, 5, 16]))
    y = g.node("LayerNormalization", g.node("Add", a, b), g.floats(16), g.floats(16), axis=-1)
    found = lowered(g, g.quantize(y)).agree()
    assert found.kinds == ["quantize", "layer_norm"]
    assert found.step("layer_norm").residual


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_a_layer_norm_in_pieces_is_one(qdq, lowered, square, affine):
    g = qdq()
    x = g.input("x", [2, 5, 16])
    d = g.node("Sub", x, g.node("ReduceMean", x, g.ints(-1)))
    power = g.node("Pow", d, g.constant(np.float32(2))) if square == "Pow" else g.node("Mul", d, d)
    spread = g.node("Add", g.node("ReduceMean", power, g.ints(2)), g.constant(np.float32(1e-5)))
    y = g.node("Div", d, g.node("Sqrt", spread))
    if affine:
        y = g.node("Add", g.node("Mul", y, g.floats(16)), g.floats(16))
    assert lowered(g, y).agree(1e-5).kinds == ["layer_norm"]


def test_what_has_no_kernel_runs_in_one_stretch(qdq, lowered):
    g = qdq()
    x = g.pair(g.input("x", [1, 3, 6, 6]))
    y = g.conv(x, 3, 4)
    y = g.node("Shrink", g.node("LpNormalization", y))
    side = g.node("Ceil", g.input("z", [1, 4, 6, 6]))
    y = g.conv(g.pair(g.node("Add", y, side), 0.01), 4, 4)
    found = lowered(g, g.quantize(y)).agree()
    assert found.kinds.count("onnx") == 1
    reason = found.step("onnx").reason
    assert "LpNormalization: no kernel for LpNormalization" in reason and "Shrink" in reason
    assert any("ONNX Runtime" in note for note in found.plan.notes)


def test_stretches_on_both_sides_of_a_layer_are_two(qdq, lowered):
    g = qdq()
    y = g.conv(g.pair(g.node("LpNormalization", g.input("x", [1, 3, 4, 4])), 0.01), 3, 4)
    assert lowered(g, g.node("LpNormalization", y)).agree().kinds == ["onnx", "quantize", "conv", "onnx"]


CHEAP = {
    "product": lambda g, x: g.node("Mul", x, g.constant(np.float32(0.5))),
    "sum of both": lambda g, x: g.node("Add", x, g.input("z", [2, 6])),
    "bounds": lambda g, x: g.node("Clip", x, g.constant(np.float32(-0.1)), g.constant(np.float32(0.9))),
    "function": lambda g, x: g.node("Tanh", x),
    "halves": lambda g, x: g.node("Concat", *g.node("Split", x, outputs=2, axis=1, num_outputs=2), axis=0),
    "turned": lambda g, x: g.node("Transpose", g.node("Reshape", x, g.ints(3, 4)), perm=[1, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHEAP)
def test_cheap_steps_between_stretches_join_them(qdq, lowered, name):
    g = qdq()
    y = CHEAP[name](g, g.node("LpNormalization", g.input("x", [2, 6])))
    y = CHEAP[name](g, g.node("Shrink", y)) if name in ("product", "function") else y
    found = lowered(g, g.node("LpNormalization", y)).agree(1e-6)
    assert found.kinds == ["onnx"]
    assert "it stands between nodes without a kernel" in found.step("onnx").reason


@pytest.mark.parametrize("name", ["norm", "codes", "norm beside it"])
def test_other_steps_between_stretches_stay(qdq, lowered, name):
    g = qdq()
    y = g.node("Mul", g.node("LpNormalization", g.input("x", [2, 6])), g.constant(np.float32(0.5)))
    if name == "codes":
        y = g.pair(y, 0.01)
    else:
        norm = g.node("LayerNormalization", y, g.floats(6), axis=-1)
        y = norm if name == "norm" else g.node("Add", y, norm)
    found = lowered(g, g.node("Shrink", y)).agree(1e-5)
    assert found.kinds.count("onnx") == 2 and "binary" in found.kinds


def test_a_cheap_step_that_others_read_too_joins_all_the_same(qdq, lowered):
    g = qdq()
    y = g.node("Mul", g.node("LpNormalization", g.input("x", [2, 6])), g.constant(np.float32(0.5)))
    z = g.node("MatMul", g.pair(y, 0.01), g.weight(6, 4, axis=1))
    found = lowered(g, g.node("Shrink", y), g.quantize(z)).agree()
    assert found.kinds == ["onnx", "quantize", "linear"]


def test_a_stretch_holds_the_constants_that_it_reads(qdq, lowered):
    g = qdq()
    y = g.node(
        "Mul", g.node("LpNormalization", g.input("x", [2, 6])), g.dequantize(g.constant(np.int8([3] * 6)))
    )
    assert lowered(g, g.node("Shrink", y)).agree(1e-6).kinds == ["onnx"]


def with_ids(g, ids):
    """`ids` for the input of that name, random floats for the others."""
    feeds = g.feeds
    g.feeds = lambda sizes=None: {**feeds(sizes), "ids": ids}


@pytest.mark.parametrize("wide", [np.int64, np.int32])
def test_embeddings_are_rows_of_a_table(qdq, lowered, wide):
    from onnx import helper

    g = qdq()
    table = g.dequantize(g.constant(g.rng.integers(-128, 128, (10, 8)).astype(np.int8)))
    ids = np.array([[0, 3, 9, -1, -10]], wide)
    rows = g.node("Gather", table, g.input("ids", ["batch", 5], helper.np_dtype_to_tensor_dtype(ids.dtype)))
    with_ids(g, ids)
    y = g.node("MatMul", g.pair(rows), g.weight(8, 4, axis=1))
    found = lowered(g, g.quantize(y)).agree()
    assert found.kinds == ["gather", "quantize", "linear"]


@pytest.mark.parametrize("given", ["input", "constant"])
@pytest.mark.parametrize("codes", [True, False], ids=["codes", "float_steps"])
def test_rows_of_a_tensor(qdq, lowered, given, codes):
    from onnx import TensorProto

    g = qdq()
    ids = np.array([2, 0, -1, 2])
    x = g.input("x", ["n", 6])
    index = g.constant(ids) if given == "constant" else g.input("ids", [4], TensorProto.INT64)
    if given == "input":
        with_ids(g, ids)
    y = g.node("Gather", g.pair(x) if codes else x, index)
    y = g.quantize(g.node("MatMul", g.pair(y), g.weight(6, 4, axis=1)))
    found = lowered(g, y, sizes={"n": 3}).agree()
    assert "gather" in found.kinds and "onnx" not in found.kinds


@pytest.mark.parametrize("wrong", [10, -11])
def test_an_index_out_of_range_is_an_error(qdq, wrong):
    from onnx import TensorProto

    from intact.errors import QuantValueError

    g = qdq()
    rows = g.node("Gather", g.floats(10, 8), g.input("ids", [2], TensorProto.INT64))
    plan = lower(g.proto(rows))
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match=f"ids.*{wrong}.*-10 to 9"):
            run({"ids": np.array([3, wrong])})


def test_constant_indices_are_compared_with_the_rows_that_there_are(qdq):
    from intact.errors import QuantValueError

    g = qdq()
    plan = lower(g.proto(g.node("Gather", g.input("x", ["n", 6]), g.ints(0, 3))))
    engine = Engine(plan, threads=1)
    assert engine(np.ones((4, 6), np.float32)).shape == (2, 6)
    with pytest.raises(QuantValueError, match="index 3"):
        engine(np.ones((3, 6), np.float32))


@pytest.mark.parametrize("why", ["another axis", "images"])
def test_tables_of_images_and_along_another_axis_are_laid_as_rows(qdq, lowered, why):
    from onnx import TensorProto

    g = qdq()
    ids = g.input("ids", [2], TensorProto.INT64)
    with_ids(g, np.array([1, 0]))
    if why == "images":
        y = g.node("Gather", g.floats(4, 3, 5, 6), ids)
    else:
        y = g.node("Gather", g.floats(4, 8), ids, axis=1)
    found = lowered(g, y).agree()
    assert "onnx" not in found.kinds and "gather" in found.kinds


def test_branches_run_in_a_stretch(qdq, lowered):
    from onnx import TensorProto, helper

    g = qdq()
    x = g.pair(g.input("x", [2, 4]))
    first = g.node("ReduceMax", x, keepdims=0)
    flag = g.node("Greater", first, g.constant(np.float32(0)))
    out = helper.make_tensor_value_info("branch", TensorProto.FLOAT, [2, 4])
    then = helper.make_graph([helper.make_node("LpNormalization", [x], ["branch"])], "then", [], [out])
    other = helper.make_graph([helper.make_node("Shrink", [x], ["branch"])], "else", [], [out])
    y = g.node("If", flag, then_branch=then, else_branch=other)
    found = lowered(g, y).agree()
    assert found.kinds[-1] == "onnx" and found.kinds.count("onnx") == 1


def test_slopes_below_zero(qdq, lowered):
    g = qdq()
    x = g.input("x", [2, 4, 5])
    slope = g.constant(np.float32([[0.1], [0.2], [0], [-0.5]]))
    a = g.node("LeakyRelu", x, alpha=0.2)
    b = g.quantize(g.node("PRelu", x, slope), 0.07)
    c = g.quantize(g.node("PRelu", g.pair(g.input("z", [4, 5])), slope), 0.03)
    found = lowered(g, a, b, c).agree()
    assert sorted(found.kinds) == ["binary"] * 3 + ["quantize"]
    np.testing.assert_array_equal(found.values[a], found.expected[a])


@pytest.mark.parametrize("source", ["codes", "float_steps"])
@pytest.mark.parametrize("behind", ["Relu", "LeakyRelu"])
def test_a_batchnorm_that_no_layer_takes_in(qdq, lowered, source, behind):
    g = qdq()
    x = g.input("x", ["n", 4, 5, 6])
    x = g.pair(x, 0.05, 5) if source == "codes" else x
    variance = g.constant(np.float32([0.5, 1, 2, 3]))
    y = g.node("BatchNormalization", x, g.floats(4), g.floats(4), g.floats(4), variance)
    y = g.quantize(g.node(behind, y), 0.03)
    found = lowered(g, y, sizes={"n": 2}).agree()
    assert found.kinds == (["quantize", "conv"] if source == "codes" else ["binary", "binary", "function"])


@pytest.mark.parametrize("batch", ["n", 2], ids=["free batch", "fixed batch"])
@pytest.mark.parametrize("after", [True, False], ids=["one behind", "none behind"])
def test_tokens_around_a_sequence_are_added_to_its_padding(qdq, lowered, batch, after):
    g = qdq()
    x, token = g.input("x", [batch, 5, 8]), g.floats(1, 1, 8)
    if batch == "n":
        size = g.node("Slice", g.node("Shape", x), g.ints(0), g.ints(1))
        token = g.node("Expand", token, g.node("Concat", size, g.ints(1, 8), axis=0))
    else:
        token = g.node("Expand", token, g.ints(2, 1, 8))
    y = g.node("Concat", token, x, *[token] * after, axis=1)
    found = lowered(g, y, sizes={"n": 2}).agree()
    assert found.kinds == ["pad", "binary"]
    np.testing.assert_array_equal(found.values[y], found.expected[y])


def test_a_constant_in_front_of_a_norm_is_added_by_itself(qdq, lowered):
    g = qdq()
    x = g.node("Add", g.input("x", [1, 5, 16]), g.floats(1, 5, 16))
    y = g.node("LayerNormalization", x, g.floats(16), axis=-1)
    assert lowered(g, y).agree(1e-5).kinds == ["binary", "layer_norm"]


def test_a_norm_of_a_sum_of_constants_is_one(qdq, lowered):
    """As a decoder whose queries begin at zero has it."""
    g = qdq()
    start = g.node("LayerNormalization", g.node("Add", g.floats(5, 16), g.floats(16)), g.floats(16), axis=-1)
    assert lowered(g, g.node("Mul", g.input("x", [2, 5, 16]), start)).agree(1e-5).kinds == ["binary"]


@pytest.mark.parametrize("turned", [False, True])
def test_scores_that_are_constants_are_what_is_added_to_a_mask(qdq, lowered, turned):
    g = qdq()
    terms = [g.floats(1, 5, 5), g.input("mask", [2, 5, 5])]
    y = g.node("Softmax", g.node("Add", *(reversed(terms) if turned else terms)))
    assert lowered(g, y).agree(1e-6).kinds == ["softmax"]


@pytest.mark.parametrize(("low", "high"), [(-np.inf, 1), (0, np.inf), (-np.inf, np.inf)])
def test_infinite_ends_behind_a_layer_of_reals_are_none(qdq, lowered, tmp_path, low, high):
    """They were kept, and no plan file says them."""
    g = qdq()
    y = g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 4)
    found = lowered(g, g.node("Clip", y, g.constant(np.float32(low)), g.constant(np.float32(high)))).agree()
    assert found.kinds == ["quantize", "conv"]
    Engine(found.plan, threads=1).save(tmp_path / "clip.plan")


@pytest.mark.parametrize("axis", [0, 1, 2, -3])
@pytest.mark.parametrize("weights", ["whole", "of the last axis", "none but a scale"])
@pytest.mark.parametrize("where", ["floats", "codes", "behind an Add"])
def test_a_norm_over_several_axes_is_one_over_a_row(qdq, lowered, axis, weights, where):
    g = qdq()
    shape = (2, 3, 4, 5)
    spanned = shape[axis:] if weights != "of the last axis" else shape[-1:]
    x = g.input("x", shape)
    x = g.pair(x) if where == "codes" else x
    x = g.node("Add", g.node("Sigmoid", x), g.input("z", shape)) if where == "behind an Add" else x
    more = [] if weights == "none but a scale" else [g.floats(*spanned)]
    y = g.node("LayerNormalization", x, g.floats(*spanned), *more, axis=axis)
    found = lowered(g, g.quantize(y) if where == "codes" else y).exact().agree(1e-5)
    assert "onnx" not in found.kinds and found.kinds.count("layer_norm") == 1


def test_a_norm_over_axes_that_are_not_known_says_so(qdq, lowered):
    g = qdq()
    y = g.node("LayerNormalization", g.input("x", [2, "n", 4]), g.floats(4), axis=1)
    found = lowered(g, y, sizes={"n": 3})
    assert found.kinds == ["onnx"] and "whose sizes are not known" in found.step("onnx").reason

"""Pads with any number, triangles, bounds of integers, sums of many, elements by computed indices."""

import numpy as np
import pytest
from tests.engine.conftest import exactly, few, given

from intact.engine import Plan, Tensor
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import Pad
from intact.errors import FileFormatError, QuantValueError

# -- pads


@pytest.mark.parametrize("fill", [1, -3, 0], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8", "int8", "bool", "float64"])
def test_pads_with_any_number_of_any_type(qdq, lowered, dtype, fill):
    g = qdq()
    (x,) = given(g, x=few(dtype, 2, 3, 4))
    number = g.constant(np.array(fill).astype(dtype))
    exactly(lowered(g, g.node("Pad", x, g.ints(0, 2, 1, 1, 0, 3), number)))


def test_pads_of_half_a_minute_of_sound(qdq, lowered):
    g = qdq()
    (x,) = given(g, x=few("float32", 1, 40))
    exactly(lowered(g, g.node("Pad", x, g.ints(0, 3, 0, 480_000))))


@pytest.mark.parametrize("fill", [np.inf, -np.inf, 1e-45, 3e38], ids=str)
def test_pads_of_images_with_numbers_at_the_ends(qdq, lowered, fill):
    g = qdq()
    (x,) = given(g, x=few("float32", 2, 3, 4, 5))
    pads = g.ints(0, 0, 1, 2, 0, 0, 2, 1)
    exactly(lowered(g, g.node("MaxPool", g.node("Pad", x, pads, g.constant(np.float32(fill))),
                              kernel_shape=[2, 2])))  # fmt: skip


@pytest.mark.parametrize("zero", [0, 5])
@pytest.mark.parametrize("fill", [None, 7, -128, 5])
def test_pads_of_codes_with_a_code(qdq, lowered, fill, zero):
    g = qdq()
    q = g.quantize(g.input("x", ["n", 3, 4]), 0.05, zero)
    numbers = [] if fill is None else [g.constant(np.int8(fill))]
    y = g.node("Pad", q, g.ints(0, 2, 1, 1, 0, 3), *numbers)
    assert exactly(lowered(g, y, g.dequantize(y, 0.05, zero), sizes={"n": 2})).kinds.count("pad") == 1


def test_between_pairs_a_pad_is_one_of_floats(qdq, lowered):
    g = qdq()
    y = g.node("Pad", g.pair(g.input("x", [2, 3])), g.ints(1, 1, 1, 1), g.constant(np.float32(0.3)))
    exactly(lowered(g, g.quantize(y)))


@pytest.mark.parametrize(("number", "kinds"), [(0.5, ["pad", "conv"]), (0.0, ["conv"])])
def test_a_layer_pads_with_zeros_alone(qdq, lowered, number, kinds):
    """A Pad went into the layer behind it whatever it fills with."""
    g = qdq()
    x, pads = g.pair(g.input("x", [1, 3, 5, 5]), 0.0625), g.ints(0, 0, 1, 2, 0, 0, 0, 1)
    x = g.node("Pad", x, pads, g.constant(np.float32(number)))
    found = lowered(g, g.quantize(g.conv(g.pair(x, 0.0625), 3, 4))).agree()
    assert found.kinds == ["quantize", *kinds]


@pytest.mark.parametrize(("number", "kinds"), [(0.5, ["pad", "float_conv"]), (0.0, ["float_conv"])])
def test_a_layer_of_floats_pads_with_zeros_alone(qdq, lowered, number, kinds):
    g = qdq()
    pads = g.ints(0, 0, 1, 2, 0, 0, 0, 1)
    x = g.node("Pad", g.input("x", [1, 3, 5, 5]), pads, g.constant(np.float32(number)))
    y = g.node("Conv", x, g.floats(4, 3, 3, 3), pads=[1, 1, 1, 1])
    assert lowered(g, y).agree().kinds == kinds


@pytest.mark.parametrize("pads", [(-1, 0, 0, -2), (-1, 2, 3, -1), (-3, 0, 0, 0), (-1, 1, -2, 1)], ids=str)
@pytest.mark.parametrize("how", ["floats", "codes"])
def test_negative_pads_take_away(qdq, lowered, pads, how):
    g = qdq()
    x = g.input("x", [3, 5])
    x = g.pair(x) if how == "codes" else x
    y = g.node("Pad", x, g.ints(*pads), g.constant(np.float32(0)))
    exactly(lowered(g, g.quantize(y) if how == "codes" else y))


@pytest.mark.parametrize(
    ("fill", "x", "message"),
    [
        ("x", "float32", "tensor 'x', want a constant"),
        ("i", "float32", "int64 \\(1,\\), want one float32"),
        ("two", "float32", "float32 \\(2,\\), want one float32"),
    ],
)
def test_files_cannot_fill_with_anything_else(fill, x, message):
    tensors = {"x": Tensor("x", x, (3,)), "y": Tensor("y", x, (5,))}
    arrays = {"i": ("int64", (1,)), "two": ("float32", (2,))}
    step = Pad("pad", (), "x", "y", ((1, 1),), fill)
    held = {name: np.zeros(shape, dtype) for name, (dtype, shape) in arrays.items()}
    with pytest.raises(FileFormatError, match=message):
        check_limits(Plan((step,), tensors, held, ("x",), ("y",)), arrays)


# -- triangles, bounds, sums


TRIANGLES = pytest.mark.parametrize(
    ("upper", "diagonal"), [(upper, k) for upper in (0, 1) for k in (None, -2, 0, 1, 9, -9)]
)


def triangle(g, x, upper, diagonal):
    numbers = [] if diagonal is None else [g.constant(np.int64(diagonal))]
    return g.node("Trilu", x, *numbers, upper=upper)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@TRIANGLES
def test_triangles(qdq, lowered, upper, diagonal, dtype):
    g = qdq()
    (x,) = given(g, x=few(dtype, 2, 4, 5, low=1))
    assert exactly(lowered(g, triangle(g, x, upper, diagonal))).kinds == ["elementwise"]


@TRIANGLES
def test_triangles_of_int32(qdq, upper, diagonal):
    """As NumPy has them: ONNX Runtime 1.24 has none."""
    g, x = qdq(), few("int32", 2, 4, 5, low=1)
    plan = lower(g.proto(triangle(g, *given(g, x=x), upper, diagonal)))
    want = (np.triu if upper else np.tril)(x, diagonal or 0)
    (y,) = plan.outputs
    assert [step.kind for step in plan.steps] == ["elementwise"]
    for got in (evaluate(plan, {"x": x})[y], Engine(plan, threads=1).run({"x": x})[y]):
        np.testing.assert_array_equal(got, want, strict=True)


def test_triangles_of_what_is_no_number_and_of_nothing(qdq, lowered):
    g = qdq()
    x, none = given(g, x=np.full((3, 3), np.nan, np.float32), none=few("float32", 2, 0, 3))
    exactly(lowered(g, g.node("Trilu", x, upper=0), g.node("Trilu", none)))


def test_a_triangle_of_unknown_size_is_native_once_it_is_known(qdq):
    g = qdq()
    x = few("float32", 2, 5, 5)
    engine = Engine(lower(g.proto(g.node("Trilu", g.input("x", [2, "n", "n"])))), threads=1)
    np.testing.assert_array_equal(engine(x), np.triu(x))
    assert "onnx" not in {step.kind for step in lower(
        g.proto(g.nodes[-1].output[0]), {"x": x.shape}).steps}  # fmt: skip


@pytest.mark.parametrize("ends", [(2, 6), (None, 6), (2, None), (6, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("how", ["constant", "given"])
def test_bounds_of_integers(qdq, lowered, ends, dtype, how):
    g = qdq()
    arrays = {f"end{i}": np.array(end, dtype) for i, end in enumerate(ends) if end is not None}
    held = arrays if how == "given" else {}
    x, *names = given(g, x=few(dtype, 3, 4), **held)
    names = names or [g.constant(array) for array in arrays.values()]
    low = [] if ends[0] is None else names[:1]
    exactly(lowered(g, g.node("Clip", x, *(low or [""]), *names[len(low) :])))


@pytest.mark.parametrize("op_type", ["Sum", "Mean"])
@pytest.mark.parametrize("shapes", [[(3, 4)] * 2, [(3, 4)] * 3, [(4,), (3, 1), (3, 4), (1,)]], ids=str)
@pytest.mark.parametrize("codes", [False, True])
def test_sums_of_many(qdq, lowered, op_type, shapes, codes):
    g = qdq()
    xs = [g.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    y = g.node(op_type, *(g.pair(x) for x in xs) if codes else xs)
    found = lowered(g, g.quantize(y) if codes else y).agree(1e-6)
    assert "onnx" not in found.kinds


# -- by index


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5,), 0), ((3, 5), 1), ((2, 3, 4), 1), ((2, 3, 4, 5), 0), ((2, 3, 4, 5), 2), ((2, 3, 2, 3, 4), -1)],
    ids=str,
)
@pytest.mark.parametrize("index", [(), (4,), (2, 3), (0,)], ids=str)
def test_along_any_axis(qdq, lowered, shape, index, axis):
    g = qdq()
    x, ids = given(g, x=few("float32", *shape, high=99), ids=few("int64", *index, low=-2, high=2))
    exactly(lowered(g, g.node("Gather", x, ids, axis=axis)))


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_numbers_of_any_type(qdq, lowered, dtype):
    g = qdq()
    x, ids = given(g, x=few(dtype, 3, 4, 5), ids=few("int32", 2, low=-4, high=4))
    exactly(lowered(g, g.node("Gather", x, ids, axis=1)))


def test_codes_of_images_by_computed_indices(qdq, lowered):
    """As Swin picks windows: codes stay codes on both sides."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 6, 6]))
    y = g.node("Gather", g.conv(x, 4, 4), g.input("ids", [3], 7), axis=1)
    g.feeds = lambda sizes: {"x": few("float32", sizes["n"], 4, 6, 6), "ids": np.array([3, -1, 0])}
    found = lowered(g, g.quantize(g.conv(g.pair(y), 3, 2)), sizes={"n": 2}).agree()
    assert "onnx" not in found.kinds and "dequantize" not in found.kinds


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_index_out_of_range_is_an_error(qdq, axis):
    g = qdq()
    x, ids = given(g, x=few("float32", 3, 3, 3), ids=np.array([[0, 3]]))
    plan = lower(g.proto(g.node("Gather", x, ids, axis=axis)))
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="index 3"):
            run(g.feeds())


def test_places_of_the_largest_in_windows_are_left_to_onnx_runtime(qdq, lowered):
    """Where they are an output of the model too."""
    g = qdq()
    largest, places = g.node("MaxPool", g.input("x", [1, 2, 4, 4]), kernel_shape=[2, 2], outputs=2)
    found = lowered(g, largest, places)
    assert found.kinds == ["onnx"]

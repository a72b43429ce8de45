"""Pads with any number of any type."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few

from intact.engine import Plan, Tensor
from intact.engine.files.limits import check_limits
from intact.engine.steps import Pad
from intact.errors import FileFormatError


@pytest.mark.parametrize("fill", [1, -3, 0], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8", "int8", "bool", "float64"])
def test_pads_with_any_number_of_any_type(qdq, lower_graph, dtype, fill):
    g = qdq()
    (x,) = add_inputs(g, x=few(dtype, 2, 3, 4))
    number = g.constant(np.array(fill).astype(dtype))
    exactly(lower_graph(g, g.node("Pad", x, g.ints(0, 2, 1, 1, 0, 3), number)))


def test_pads_of_half_a_minute_of_sound(qdq, lower_graph):
    g = qdq()
    (x,) = add_inputs(g, x=few("float32", 1, 40))
    exactly(lower_graph(g, g.node("Pad", x, g.ints(0, 3, 0, 480_000))))


@pytest.mark.parametrize("fill", [np.inf, -np.inf, 1e-45, 3e38], ids=str)
def test_pads_of_images_with_numbers_at_the_ends(qdq, lower_graph, fill):
    g = qdq()
    (x,) = add_inputs(g, x=few("float32", 2, 3, 4, 5))
    pads = g.ints(0, 0, 1, 2, 0, 0, 2, 1)
    exactly(lower_graph(g, g.node("MaxPool", g.node("Pad", x, pads, g.constant(np.float32(fill))),
                              kernel_shape=[2, 2])))  # fmt: skip


@pytest.mark.parametrize("zero", [0, 5])
@pytest.mark.parametrize("fill", [None, 7, -128, 5])
def test_pads_of_codes_with_a_code(qdq, lower_graph, fill, zero):
    g = qdq()
    q = g.quantize(g.input("x", ["n", 3, 4]), 0.05, zero)
    numbers = [] if fill is None else [g.constant(np.int8(fill))]
    y = g.node("Pad", q, g.ints(0, 2, 1, 1, 0, 3), *numbers)
    assert exactly(lower_graph(g, y, g.dequantize(y, 0.05, zero), sizes={"n": 2})).kinds.count("pad") == 1


def test_between_pairs_a_pad_is_one_of_floats(qdq, lower_graph):
    g = qdq()
    y = g.node("Pad", g.pair(g.input("x", [2, 3])), g.ints(1, 1, 1, 1), g.constant(np.float32(0.3)))
    exactly(lower_graph(g, g.quantize(y)))


@pytest.mark.parametrize(("number", "kinds"), [(0.5, ["pad", "conv"]), (0.0, ["conv"])])
def test_a_layer_pads_with_zeros_alone(qdq, lower_graph, number, kinds):
    """A Pad went into the layer behind it whatever it fills with."""
    g = qdq()
    x, pads = g.pair(g.input("x", [1, 3, 5, 5]), 0.0625), g.ints(0, 0, 1, 2, 0, 0, 0, 1)
    x = g.node("Pad", x, pads, g.constant(np.float32(number)))
    lowered = lower_graph(g, g.quantize(g.conv(g.pair(x, 0.0625), 3, 4))).agree()
    assert lowered.kinds == ["quantize", *kinds]


@pytest.mark.parametrize(("number", "kinds"), [(0.5, ["pad", "float_conv"]), (0.0, ["float_conv"])])
def test_a_layer_of_floats_pads_with_zeros_alone(qdq, lower_graph, number, kinds):
    g = qdq()
    pads = g.ints(0, 0, 1, 2, 0, 0, 0, 1)
    x = g.node("Pad", g.input("x", [1, 3, 5, 5]), pads, g.constant(np.float32(number)))
    y = g.node("Conv", x, g.floats(4, 3, 3, 3), pads=[1, 1, 1, 1])
    assert lower_graph(g, y).agree().kinds == kinds


@pytest.mark.parametrize("pads", [(-1, 0, 0, -2), (-1, 2, 3, -1), (-3, 0, 0, 0), (-1, 1, -2, 1)], ids=str)
@pytest.mark.parametrize("how", ["floats", "codes"])
def test_negative_pads_take_away(qdq, lower_graph, pads, how):
    g = qdq()
    x = g.input("x", [3, 5])
    x = g.pair(x) if how == "codes" else x
    y = g.node("Pad", x, g.ints(*pads), g.constant(np.float32(0)))
    exactly(lower_graph(g, g.quantize(y) if how == "codes" else y))


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
    constants = {name: np.zeros(shape, dtype) for name, (dtype, shape) in arrays.items()}
    with pytest.raises(FileFormatError, match=message):
        check_limits(Plan((step,), tensors, constants, ("x",), ("y",)), arrays)

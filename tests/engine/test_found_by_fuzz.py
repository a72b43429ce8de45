"""Faults that random graphs found (`tests/fuzz`), each in its smallest form."""

import numpy as np
import onnx
import pytest

from intact.engine.build import compile as compiled
from intact.engine.build import load
from intact.engine.engine import Engine
from intact.engine.reference import evaluate
from intact.errors import QuantValueError


class TestProductsAlongTheWidthOfImages:
    """A convolution's images lie channels last, so that the elements of a MatMul's rows are no neighbours."""

    @pytest.mark.parametrize("width", [1, 2, 5])
    def test_it_reads_what_a_convolution_made(self, qdq, lower_graph, width):
        g = qdq()
        x = g.pair(g.input("x", ["n", 3, 4, width]))
        x = g.pair(g.conv(x, 3, 8))
        y = g.pair(g.node("MatMul", x, g.weight(width, 7, axis=1)))
        lowered = lower_graph(g, y, sizes={"n": 2}).agree()
        assert lowered.kinds[-2:] == ["linear", "dequantize"]

    @pytest.mark.parametrize("outputs", [1, 6])
    def test_a_convolution_reads_what_it_made(self, qdq, lower_graph, outputs):
        g = qdq()
        x = g.pair(g.input("x", ["n", 3, 4, 5]))
        residual = g.pair(g.conv(x, 3, 3), 0.04)
        y = g.node("MatMul", residual, g.weight(5, outputs, axis=1))
        if outputs == 1:
            y = g.node("Add", g.pair(g.node("MatMul", x, g.weight(5, 5, axis=1))), residual)
        y = g.pair(g.conv(g.pair(y), 3, 4))
        lower_graph(g, y, sizes={"n": 2}).agree()

    def test_residuals_lie_so_too(self, qdq, lower_graph):
        g = qdq()
        x = g.pair(g.input("x", ["n", 3, 4, 5]))
        residual = g.pair(g.conv(x, 3, 3), 0.04)
        y = g.node("Add", g.node("MatMul", x, g.weight(5, 5, axis=1)), residual)
        y = g.pair(g.conv(g.pair(y), 3, 4))
        lowered = lower_graph(g, y, sizes={"n": 2}).agree()
        assert lowered.step("linear").epilogue.residual


def test_sizes_that_fit_for_one_batch_alone_are_refused_in_our_words(qdq, lower_graph):
    """The engine did; of the reference it was NumPy's ValueError."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 2, 8]))
    row = g.pair(g.node("Gather", x, g.constant(np.int64(0)), axis=1))
    lowered = lower_graph(g, g.pair(g.node("Add", row, x)), sizes={"n": 2}).agree()
    for run in (lambda feeds: evaluate(lowered.plan, feeds), Engine(lowered.plan, threads=1).run):
        with pytest.raises(QuantValueError):
            run({"x": np.zeros((5, 2, 8), np.float32)})


@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_weights_of_no_channels_have_a_scale_of_no_elements(qdq, lower_graph, op):
    g = qdq()
    shape, axis = ((0, 3, 1, 1), 0) if op == "Conv" else ((4, 0), 1)
    none, zeros = g.constant(np.zeros(0, np.float32)), g.constant(np.zeros(0, np.int8))
    w = g.node("DequantizeLinear", g.constant(np.zeros(shape, np.int8)), none, zeros, axis=axis)
    y = g.node(op, g.pair(g.input("x", [2, 3, 4, 4])), w)
    assert lower_graph(g, y).agree().values[y].size == 0


class TestScalesFarApart:
    """No multiplier of float32 says them: the layer stays in float, the model is not refused."""

    def test_a_layer(self, qdq, lower_graph):
        g = qdq()
        x = g.pair(g.input("x", [2, 3, 4, 4]), 1e20)
        y = g.pair(g.conv(x, 3, 4), 1e-15)
        assert "float_conv" in lower_graph(g, y).agree().kinds

    @pytest.mark.parametrize("op", ["Add", "Concat", "AveragePool", "pair", "residual"])
    def test_two_grids(self, qdq, lower_graph, op):
        g = qdq()
        x = g.input("x", [2, 3, 4, 4])
        a, b = g.pair(x, 1e20), g.pair(x, 0.1)
        y = {
            "Add": lambda: g.node("Add", a, b),
            "Concat": lambda: g.node("Concat", a, b, axis=1),
            "AveragePool": lambda: g.node("AveragePool", a, kernel_shape=[2, 2]),
            "pair": lambda: a,
            "residual": lambda: g.node("Add", g.conv(b, 3, 3), a),
        }[op]()
        lower_graph(g, g.pair(y, 1e-12)).agree()

    def test_an_integer_bias(self, qdq, lower_graph):
        g = qdq()
        x = g.pair(g.input("x", [2, 3]), 1e20)
        codes, scale = g.constant(np.ones((3, 4), np.int8)), g.constant(np.float32(1e18))
        w = g.node("DequantizeLinear", codes, scale)
        bias = g.node("DequantizeLinear", g.constant(np.ones(4, np.int32)), g.constant(np.float32(1e38)))
        lower_graph(g, g.pair(g.node("Gemm", x, w, bias), 1e30)).agree()


class TestFreeSizes:
    @pytest.mark.parametrize(
        ("start", "step", "left"), [(1, 1, 6), (6, 1, 1), (2, 3, 2), (0, 2, 4), (9, 1, 0)]
    )
    def test_a_slice_to_the_end_of_an_axis_of_any_size(self, qdq, lower_graph, start, step, left):
        """Nobody says how many elements are left: neither the model's shapes nor the plan did."""
        g = qdq()
        x = g.pair(g.input("x", ["n", 2, "h"]))
        end = np.iinfo(np.int64).max
        y = g.node("Slice", x, g.ints(start), g.ints(end), g.ints(2), g.ints(step))
        lowered = lower_graph(g, g.pair(g.node("Sigmoid", y)), sizes={"n": 2, "h": 7}).agree()
        assert lowered.expected[next(iter(lowered.expected))].shape == (2, 2, left)

    def test_a_plan_is_saved_though_the_model_takes_no_size_of_1(self, qdq, tmp_path):
        """Free sizes count as 1 for packing: here a window does not fit into that, and save failed."""
        g = qdq()
        x = g.pair(g.input("x", ["n", 3, "h", 6]))
        y = g.pair(g.node("Conv", x, g.weight(4, 3, 3, 3)))
        feeds = g.feeds({"n": 2, "h": 5})
        engine = compiled(g.proto(y), threads=1)
        engine.save(tmp_path / "it.intact")
        again = load(tmp_path / "it.intact", threads=1)
        np.testing.assert_array_equal(again.run(feeds)[y], engine.run(feeds)[y], strict=True)

    def test_a_slice_backwards_of_nothing(self, qdq, lower_graph, tmp_path):
        """It began at -1, and the plan was saved and not loaded."""
        g = qdq()
        x = g.pair(g.input("x", [2, 0, 3]))
        y = g.pair(g.node("Slice", x, g.ints(-1), g.ints(-(2**31)), g.ints(1), g.ints(-1)))
        engine = compiled(lower_graph(g, y).exact().plan, threads=1)
        engine.save(tmp_path / "it.intact")
        assert load(tmp_path / "it.intact", threads=1).run(g.feeds())[y].shape == (2, 0, 3)

    def test_images_without_pixels_are_tapped(self, qdq, lower_graph):
        """Their strides fit into no arena."""
        g = qdq()
        x = g.pair(g.input("x", ["n", 3, 4, 4]))
        y = g.pair(g.conv(g.pair(g.conv(x, 3, 4)), 4, 4))
        lower_graph(g, y, sizes={"n": 0}).exact()


def gelu(g, x):
    """As exporters write it: what it divides it reads once more."""
    factor = g.node("Add", g.node("Erf", g.node("Div", x, g.constant(np.float32(2**0.5)))), g.number(1.0))
    return g.node("Mul", g.node("Mul", x, factor), g.number(0.5))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("behind", ["", "Sigmoid", "Relu"])
def test_a_product_of_two_activations_before_a_gelu(qdq, lower_graph, scaled, behind):
    """The GELU's Div was taken for a factor of the product: "made by no native step"."""
    g = qdq()
    g.number = lambda value: g.constant(np.float32(value))
    x = g.pair(g.input("x", [2, 3, 16]))
    y = g.node("MatMul", x, g.node("Transpose", x, perm=[0, 2, 1]))
    y = g.node("Div", y, g.number(8.0)) if scaled else y
    y = gelu(g, y)
    lowered = lower_graph(g, g.pair(g.node(behind, y) if behind else y)).agree()
    assert "onnx" not in lowered.kinds and "matmul" in lowered.kinds


class TestCeiledPools:
    """A last window that would begin in the padding is not there; ONNX's inference counts it."""

    @pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
    @pytest.mark.parametrize(
        ("kernel", "stride", "pad", "size"),
        [(2, 3, 1, 5), (1, 3, 0, 6), (2, 2, 1, 3), (3, 2, 1, 6), (3, 3, 1, 7)],
    )
    def test_alone(self, qdq, lower_graph, op, kernel, stride, pad, size):
        g = qdq()
        x = g.pair(g.input("x", ["n", 2, size, 7]))
        y = g.node(op, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, ceil_mode=1)
        lower_graph(g, g.pair(y, 0.04), sizes={"n": 2}).agree(0.041)

    @pytest.mark.parametrize("free", [False, True])
    def test_one_behind_another_and_shapes_that_follow(self, qdq, lower_graph, free):
        """Also one axis with a window too many and the other without, and a Flatten behind."""
        g = qdq()
        x = g.pair(g.input("x", ["n", 2, "h" if free else 8, 9]))
        window = {"kernel_shape": [2, 2], "strides": [3, 2], "ceil_mode": 1}
        y = g.node("MaxPool", x, pads=[1, 0, 1, 1], **window)
        y = g.node("MaxPool", g.pair(g.conv(y, 2, 3)), pads=[0, 1, 1, 0], **window)
        if not free:
            y = g.node("Flatten", y, axis=1)
        lower_graph(g, y, sizes={"n": 2, "h": 8}).agree()

    @pytest.mark.parametrize("message", [3, 2])
    def test_sizes_that_the_file_says(self, qdq, message):
        """Wrong ones too, as ONNX's inference wrote them: ONNX Runtime warns and runs it."""
        g = qdq()
        x = g.pair(g.input("x", [1, 1, 5, 5]))
        y = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[3, 3], pads=[1] * 4, ceil_mode=1)
        z = g.pair(g.node("Sigmoid", y), 1 / 127)
        proto = g.proto(z)
        del proto.graph.value_info[:]
        proto.graph.value_info.append(onnx.helper.make_tensor_value_info(y, 1, [1, 1, message, message]))
        assert compiled(proto, threads=1).run(g.feeds())[z].shape == (1, 1, 2, 2)


def test_what_holds_nothing_tells_no_size(qdq, lower_graph):
    """The reference answered with NumPy's words."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 3, "h", 4]))
    y = g.pair(g.node("ConvTranspose", x, g.weight(3, 8, 2, 2, axis=1)))
    y = g.node("Gather", y, g.constant(np.int64(3)), axis=1)
    lower_graph(g, g.pair(g.node("Sigmoid", y)), sizes={"n": 0, "h": 3}).exact()

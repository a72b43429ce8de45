"""Each layer against NumPy, run by the engine that it is built into."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import intact.trt as trt
from intact.graph import Session

Add = Callable[[trt.INetworkDefinition, trt.ITensor], trt.ILayer]
X = np.random.default_rng(1).standard_normal((2, 3, 4, 6)).astype(np.float32)


def run_layer(network: trt.INetworkDefinition, layer: trt.ILayer, x: np.ndarray = X) -> list[np.ndarray]:
    for i in range(layer.num_outputs):
        network.mark_output(layer.get_output(i))
    shapes = [layer.get_output(i).shape for i in range(layer.num_outputs)]
    values = Session(network.compose().model().SerializeToString()).run({"x": x})
    arrays = [values[layer.get_output(i).name] for i in range(layer.num_outputs)]
    assert [a.shape for a in arrays] == shapes, "the shape that the tensor tells"
    return arrays


def act(kind: trt.ActivationType, alpha: float = 0.0, beta: float = 0.0) -> Add:
    def add(network: trt.INetworkDefinition, x: trt.ITensor) -> trt.ILayer:
        layer = network.add_activation(x, kind)
        layer.alpha, layer.beta = alpha, beta
        return layer

    return add


A, U, E, R = trt.ActivationType, trt.UnaryOperation, trt.ElementWiseOperation, trt.ReduceOperation

CASES: dict[str, tuple[Add, Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (act(A.RELU), lambda x: np.maximum(x, 0)),
    "clip": (act(A.CLIP, -0.5, 0.7), lambda x: np.clip(x, -0.5, 0.7)),
    "leaky": (act(A.LEAKY_RELU, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    "scaled tanh": (act(A.SCALED_TANH, 2.0, 0.5), lambda x: 2 * np.tanh(0.5 * x)),
    "softplus": (act(A.SOFTPLUS, 2.0, 0.5), lambda x: 2 * np.log1p(np.exp(0.5 * x))),
    "exp": (lambda n, x: n.add_unary(x, U.EXP), np.exp),
    "abs": (lambda n, x: n.add_unary(x, U.ABS), np.abs),
    "sum": (lambda n, x: n.add_elementwise(x, x, E.SUM), lambda x: x + x),
    "floor_div": (
        lambda n, x: n.add_elementwise(x, n.add_constant((1,), np.float32([0.3])).get_output(0), E.FLOOR_DIV),
        lambda x: np.floor(x / np.float32(0.3)),
    ),
    "reduce": (lambda n, x: n.add_reduce(x, R.AVG, 0b1100, True), lambda x: x.mean((2, 3), keepdims=True)),
    "uniform scale": (
        lambda n, x: n.add_scale(x, trt.ScaleMode.UNIFORM, np.float32([1]), np.float32([2]), np.float32([2])),
        lambda x: (2 * x + 1) ** 2,
    ),
    "channel scale": (
        lambda n, x: n.add_scale(x, trt.ScaleMode.CHANNEL, None, np.float32([1, 2, 3])),
        lambda x: x * np.float32([1, 2, 3])[:, None, None],
    ),
    "identity": (lambda n, x: n.add_identity(x), lambda x: x),
    "cast": (lambda n, x: n.add_cast(x, trt.int32), lambda x: x.astype(np.int32)),
    "slice": (lambda n, x: n.add_slice(x, (0, 1, 0, 5), (2, 2, 2, 3), (1, 1, 2, -2)),
              lambda x: x[:, 1:3, 0:3:2, 5::-2]),
    "padding": (lambda n, x: n.add_padding_nd(x, (1, 2), (0, 1)),
                lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)))),
    "gather": (
        lambda n, x: n.add_gather(x, n.add_constant((2,), np.int32([2, 0])).get_output(0), 1),
        lambda x: x[:, [2, 0]],
    ),
    "select": (
        lambda n, x: n.add_select(
            n.add_elementwise(x, n.add_constant((1,), np.float32([0])).get_output(0), E.GREATER)
            .get_output(0),
            x, n.add_unary(x, U.NEG).get_output(0)),
        np.abs,
    ),
    "shape": (lambda n, x: n.add_shape(x), lambda x: np.array(x.shape)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_layer(network: trt.INetworkDefinition, case: str) -> None:
    add, formula = CASES[case]
    layer = add(network, network.add_input("x", trt.float32, X.shape))
    (got,) = run_layer(network, layer)
    np.testing.assert_allclose(got, formula(X), rtol=2e-5, atol=2e-6)


def test_softmax_takes_the_axis_whose_bit_is_set(network: trt.INetworkDefinition) -> None:
    layer = network.add_softmax(network.add_input("x", trt.float32, X.shape))
    layer.axes = 1 << 3
    (got,) = run_layer(network, layer)
    np.testing.assert_allclose(got.sum(3), 1, rtol=1e-6)


def test_topk_gives_values_and_int32_indices(network: trt.INetworkDefinition) -> None:
    layer = network.add_topk(network.add_input("x", trt.float32, X.shape), trt.TopKOperation.MAX, 2, 1 << 3)
    values, indices = run_layer(network, layer)
    assert indices.dtype == np.int32
    assert (values == np.sort(X, 3)[..., :-3:-1]).all()
    assert (np.take_along_axis(X, indices.astype(np.int64), 3) == values).all()


def test_shuffle_transposes_reshapes_transposes(network: trt.INetworkDefinition) -> None:
    layer = network.add_shuffle(network.add_input("x", trt.float32, X.shape))
    layer.first_transpose, layer.reshape_dims, layer.second_transpose = (0, 2, 3, 1), (0, -1, 3), (1, 0, 2)
    (got,) = run_layer(network, layer)
    assert (got == X.transpose(0, 2, 3, 1).reshape(2, -1, 3).transpose(1, 0, 2)).all()


@pytest.mark.parametrize(
    ("mode", "formula"),
    [
        (trt.PoolingType.MAX, lambda w: w.max((3, 5))),
        (trt.PoolingType.AVERAGE, lambda w: w.mean((3, 5))),
        (trt.PoolingType.MAX_AVERAGE_BLEND, lambda w: 0.25 * w.mean((3, 5)) + 0.75 * w.max((3, 5))),
    ],
    ids=lambda v: v.name.lower() if isinstance(v, trt.PoolingType) else "",
)
def test_pooling(network: trt.INetworkDefinition, mode: trt.PoolingType, formula) -> None:
    layer = network.add_pooling_nd(network.add_input("x", trt.float32, X.shape), mode, (2, 2))
    layer.stride_nd, layer.blend_factor = (2, 2), 0.25
    (got,) = run_layer(network, layer)
    np.testing.assert_allclose(got, formula(X.reshape(2, 3, 2, 2, 3, 2)), rtol=1e-5)


@pytest.mark.parametrize("axes", [0b1000, 0b1100, 0b0010], ids=["last", "plane", "channel"])
def test_normalization(network: trt.INetworkDefinition, axes: int) -> None:
    over = tuple(i for i in range(4) if axes >> i & 1)
    shape = tuple(X.shape[i] if i in over else 1 for i in range(4))
    rng = np.random.default_rng(2)
    scale, bias = rng.standard_normal((2, *shape)).astype(np.float32)
    constants = [network.add_constant(shape, a).get_output(0) for a in (scale, bias)]
    layer = network.add_normalization(network.add_input("x", trt.float32, X.shape), *constants, axes)
    (got,) = run_layer(network, layer)
    centred = X - X.mean(over, keepdims=True)
    wanted = centred / np.sqrt(X.var(over, keepdims=True) + 1e-5) * scale + bias
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_resize_and_concatenation(network: trt.INetworkDefinition) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    resize = network.add_resize(x)
    resize.scales = (1, 1, 2, 2)
    joined = network.add_concatenation([resize.get_output(0), resize.get_output(0)])
    joined.axis = 1
    (got,) = run_layer(network, joined)
    double = X.repeat(2, 2).repeat(2, 3)
    assert (got == np.concatenate([double, double], 1)).all()


def test_deconvolution_has_kernels_of_in_by_out(network: trt.INetworkDefinition) -> None:
    kernel = np.random.default_rng(3).standard_normal((3, 5, 2, 2)).astype(np.float32)
    layer = network.add_deconvolution_nd(network.add_input("x", trt.float32, X.shape), 5, (2, 2), kernel)
    layer.stride_nd = (2, 2)
    (got,) = run_layer(network, layer)
    wanted = np.einsum("nchw,copq->nohpwq", X, kernel).reshape(2, 5, 8, 12)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "op", [trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE], ids=["plain", "transposed"]
)
def test_matrix_multiply(network: trt.INetworkDefinition, op: trt.MatrixOperation) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    other = np.ones((1, 1, 6, 5) if op == trt.MatrixOperation.NONE else (1, 1, 5, 6), np.float32)
    layer = network.add_matrix_multiply(
        x, trt.MatrixOperation.NONE, network.add_constant(other.shape, other).get_output(0), op
    )
    (got,) = run_layer(network, layer)
    np.testing.assert_allclose(got, np.repeat(X.sum(3, keepdims=True), 5, 3), rtol=1e-4, atol=1e-5)


def test_names_and_inputs_are_checked(network: trt.INetworkDefinition, log) -> None:
    x = network.add_input("x", trt.float32, (1, 2))
    assert network.add_input("x", trt.float32, (1, 2)) is None
    assert "there is a tensor 'x' already" in log.of("ERROR")[0]
    with pytest.raises(ValueError, match="the name 'x', which is taken"):
        network.add_identity(x).get_output(0).name = "x"
    with pytest.raises(ValueError, match="want an ITensor"):
        network.add_unary(np.ones(3), trt.UnaryOperation.ABS)


def test_an_output_type_that_holds_no_reals_converts(network: trt.INetworkDefinition) -> None:
    layer = network.add_unary(network.add_input("x", trt.float32, X.shape), U.CEIL)
    layer.set_output_type(0, trt.int32)
    (got,) = run_layer(network, layer)
    assert got.dtype == np.int32 and (got == np.ceil(X)).all()
    assert layer.get_output_type(0) == trt.int32

"""Biases off the boundaries between codes: which layers get one, and which keep theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from intact.numerics import midway_bias
from intact.ptq import quantize

PLAIN: dict[str, Any] = {
    "method": "max", "bias_correction": False, "equalization": False, "progress": False,
    "dynamic_ranges": False, "float_budget": 0,
}  # fmt: skip


def constants(model: onnx.ModelProto, data: np.ndarray, **options: Any) -> dict[str, np.ndarray]:
    proto = quantize(model, data, **PLAIN, **options).proto
    return {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}


def biases(
    model: onnx.ModelProto, data: np.ndarray, bias: str, *scales: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bias, and the one expected from the bias without short scales."""
    got, before = constants(model, data), constants(model, data, scale_bits=None)[bias]
    want = midway_bias(before, *(got[f"{name}.scale"] for name in scales))
    assert np.abs(want - before).max() < 0.01 * got[f"{scales[2]}.scale"]
    return got[bias], want


@pytest.mark.rule("N9")
@pytest.mark.parametrize(
    "bias, scales",
    [("b1", ("x", "w1", "r1")), ("b2", ("r1", "w2", "r2")), ("b3", ("r2", "w3", "r3", "r1"))],
    ids=["folded BatchNorm", "Conv+Relu", "Conv+Add+Relu"],
)
def test_convolutions_get_midway_biases(
    cnn: onnx.ModelProto, images: np.ndarray, bias: str, scales: tuple[str, ...]
) -> None:
    got, want = biases(cnn, images, bias, *scales)
    np.testing.assert_array_equal(got, want)
    assert not np.array_equal(got, constants(cnn, images, scale_bits=None)[bias])


def test_a_layer_that_puts_out_reals_keeps_its_bias(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    b4 = next(numpy_helper.to_array(i) for i in cnn.graph.initializer if i.name == "b4")
    np.testing.assert_array_equal(constants(cnn, images)["b4"], b4)


WIDTH = 16  # narrower products stay in float


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def products(build: Any, *middle: tuple[Any, ...], second: str = "c") -> onnx.ModelProto:
    """x @ w + b, something behind it that makes m, and m @ v + `second`."""
    shapes = {"w": (WIDTH, WIDTH), "b": (WIDTH,), "v": (WIDTH, WIDTH), second: (WIDTH,)}
    weights = {name: normal(seed, *shape) for seed, (name, shape) in enumerate(shapes.items())}
    nodes = [
        ("MatMul", "x w", "xw"), ("Add", "b xw", "s"), *middle,
        ("MatMul", "m v", "mv"), ("Add", f"mv {second}", "y"),
    ]  # fmt: skip
    return build(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, **weights)


@pytest.fixture
def rows() -> np.ndarray:
    return normal(9, 32, WIDTH)


def test_the_constant_behind_a_product_is_its_bias(build: Any, rows: np.ndarray) -> None:
    np.testing.assert_array_equal(*biases(products(build, ("Relu", "s", "m")), rows, "b", "x", "w", "m"))


@pytest.mark.rule("N9")
@pytest.mark.parametrize(
    "middle, second",
    [([("Sigmoid", "s", "m")], "c"), ([("Relu", "s", "t"), ("Sin", "s", "u"), ("Mul", "t u", "m")], "c"),
     ([("Relu", "s", "m")], "b")],
    ids=["a function behind it", "two readers", "a bias of two layers"],
)  # fmt: skip
def test_other_biases_stay(build: Any, rows: np.ndarray, middle: list[Any], second: str) -> None:
    model = products(build, *middle, second=second)
    before = next(numpy_helper.to_array(i) for i in model.graph.initializer if i.name == "b")
    np.testing.assert_array_equal(constants(model, rows)["b"], before)


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_and_convolutions_of_what_was_moved(build: Any, transposed: int, rows: np.ndarray) -> None:
    shapes = {"w": (WIDTH, WIDTH), "b": (WIDTH,), "v": (WIDTH, 6, 2, 2), "c": (6,), "u": (4, 6, 1, 1)}
    weights = {name: normal(seed, *shape) for seed, (name, shape) in enumerate(shapes.items())}
    nodes = [
        ("Gemm", "x w b", "g", {"transB": transposed}), ("Reshape", "g shape", "p"),
        ("ConvTranspose", "p v c", "q"), ("Relu", "q", "r"), ("Conv", "r u", "y"),
    ]  # fmt: skip
    shape = np.array([-1, WIDTH, 1, 1])
    model = build(nodes, {"x": ["N", WIDTH]}, {"y": ["N", 4, 2, 2]}, shape=shape, **weights)
    np.testing.assert_array_equal(*biases(model, rows, "b", "x", "w", "g"))
    np.testing.assert_array_equal(*biases(model, rows, "c", "g", "v", "r"))

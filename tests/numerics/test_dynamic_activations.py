"""Activations with ranges of their own: against ONNX Runtime, and against the formula in rationals."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from tests.numerics.exact import exact, fl32
from tests.onnx_models import onnx_model

from intact import numerics as nx
from intact.errors import QuantValueError


def dynamic_quantize_linear(x: np.ndarray) -> list[np.ndarray]:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    outputs = {"q": (TensorProto.UINT8, None), "s": None, "z": (TensorProto.UINT8, None)}
    model = onnx_model([node], {"x": [*x.shape]}, outputs)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


@pytest.mark.rule("N68")
@pytest.mark.parametrize("shift", [-3.0, -0.4, 0.0, 0.7, 5.0])
def test_uint8_per_tensor_is_dynamic_quantize_linear(rng, shift):
    for seed in range(20):
        x = (np.random.default_rng(seed).normal(size=(7, 33)) + shift).astype(np.float32)
        q, s, z = dynamic_quantize_linear(x)
        result = nx.quantize_dynamic(x, symmetric=False, per="tensor")
        assert (result.scales, result.zero_points) == (s, z)
        np.testing.assert_array_equal(result.codes, q)


def test_uint8_of_zeros_is_dynamic_quantize_linear():
    x = np.zeros((2, 3), np.float32)
    q, s, z = dynamic_quantize_linear(x)
    result = nx.quantize_dynamic(x, symmetric=False, per="tensor")
    assert (result.scales, result.zero_points) == (s, z) and (result.codes == q).all()


@pytest.mark.rule("N68")
@pytest.mark.parametrize(("per", "block"), [("tensor", None), ("token", None), ("block", 8), ("block", 5)])
def test_int8_scale_is_one_division_and_codes_round_ties_to_even(rng, per, block):
    x = rng.normal(size=(3, 24)).astype(np.float32)
    x[0, :4] = [127, 2.5, -3.5, 0.5]  # scale 1 in each of the granularities that holds it
    result = nx.quantize_dynamic(x, per=per, block_size=block)
    for row, k in np.ndindex(x.shape):
        rows, columns = (slice(None), slice(None)) if per == "tensor" else (row, slice(None))
        if block is not None:
            columns = slice(k // block * block, (k // block + 1) * block)
        scale = fl32(exact(np.abs(x[rows, columns]).max()) / 127)
        index = {"tensor": (), "token": (row,)}.get(per, (row, k // (block or 1)))
        assert exact(result.scales[index]) == scale
        assert result.codes[row, k] == round(fl32(exact(x[row, k]) / scale))


@pytest.mark.rule("N68")
def test_rows_and_blocks_are_quantized_alone(rng):
    x = rng.normal(size=(2, 4, 20)).astype(np.float32) - 1
    for symmetric in (True, False):
        tokens = nx.quantize_dynamic(x, symmetric=symmetric, per="token")
        blocks = nx.quantize_dynamic(x, symmetric=symmetric, block_size=8)
        for index in np.ndindex(2, 4):
            alone = nx.quantize_dynamic(x[index], symmetric=symmetric, per="tensor")
            np.testing.assert_array_equal(tokens.codes[index], alone.codes)
            for block in range(3):
                span = slice(8 * block, 8 * block + 8)
                alone = nx.quantize_dynamic(x[index][span], symmetric=symmetric, per="tensor")
                np.testing.assert_array_equal(blocks.codes[index][span], alone.codes)
                assert blocks.scales[index][block] == alone.scales


@pytest.mark.rule("N68")
@pytest.mark.parametrize("largest", [0.0, 1e-45, 1e-37])
def test_a_range_too_small_for_a_normal_scale_gives_zeros(largest):
    for symmetric in (True, False):
        result = nx.quantize_dynamic([largest, -largest], symmetric=symmetric, per="token")
        assert result.scales == 1 and not result.codes.any()


def test_the_smallest_normal_scale_is_used():
    result = nx.quantize_dynamic(np.float32([127, -63]) * np.float32(2.0**-126), per="token")
    assert result.scales == np.float32(2.0**-126) and result.codes.tolist() == [127, -63]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_range_that_is_not_finite_has_a_nan_for_scale(bad, symmetric):
    result = nx.quantize_dynamic([[1.0, bad], [2.0, -1.0]], symmetric=symmetric, per="token")
    assert np.isnan(result.scales).tolist() == [True, False]
    assert not result.codes[0].any() and result.codes[1].any()


def test_a_range_beyond_float32_has_a_nan_for_scale():
    largest = np.finfo(np.float32).max
    assert np.isnan(nx.quantize_dynamic([largest, -largest], symmetric=False, per="token").scales)


def test_a_single_number_is_refused():
    with pytest.raises(QuantValueError, match="an axis"):
        nx.quantize_dynamic(3.0, per="token")


@pytest.mark.parametrize("choice", [{"per": "token", "block_size": 32}, {"per": "block"}, {"per": "row"}])
def test_a_granularity_that_is_none_is_refused(choice):
    with pytest.raises(QuantValueError, match="per"):
        nx.quantize_dynamic([1.0], **choice)

"""Element by element, of any type (N53): what ONNX leaves open, and what Python's integers say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact.numerics import ELEMENTWISE, elementwise
from intact.numerics.elementwise import exp64, takes

INTEGERS = ["int32", "int64"]


def _ends(dtype: str) -> np.ndarray:
    """Numbers around 0 and at the ends."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.array([low, low + 1, -7, -2, -1, 0, 1, 2, 7, high - 1, high], dtype)


def _pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(_ends(dtype), _ends(dtype))
    return a.reshape(-1), b.reshape(-1)


def _wrap(number: int, dtype: str) -> int:
    bits = np.iinfo(dtype).bits
    return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _quotient(a: int, b: int) -> int:
    whole = abs(a) // abs(b) if b else 0
    return whole if (a < 0) == (b < 0) else -whole


EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": max, "min": min,
    "div": _quotient, "mod": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: a - b * _quotient(a, b) if b else 0,
}  # fmt: skip


@pytest.mark.rule("N53")
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", EXACT)
def test_integers_wrap_around_and_quotients_by_zero_are_zero(name: str, dtype: str) -> None:
    a, b = _pairs(dtype)
    want = [_wrap(EXACT[name](int(m), int(n)), dtype) for m, n in zip(a, b, strict=True)]
    got = elementwise(name, [a, b], dtype)
    assert got.dtype == dtype and got.tolist() == want


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_least_integer_has_no_magnitude(dtype: str) -> None:
    x = _ends(dtype)
    assert elementwise("abs", [x], dtype).tolist() == [_wrap(abs(int(n)), dtype) for n in x]
    assert elementwise("neg", [x], dtype).tolist() == [_wrap(-int(n), dtype) for n in x]


def _whole(x: float, dtype: str) -> int:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if math.isnan(x):
        return 0
    return low if x == -math.inf else high if x == math.inf else min(max(int(x), low), high)


@pytest.mark.rule("N53")
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_become_integers_towards_zero_and_within_their_ends(source: str, dtype: str) -> None:
    ends = [float(n) for n in (np.iinfo(dtype).min, np.iinfo(dtype).max)]
    numbers = np.array(
        [0.0, -0.0, 0.5, -0.5, 1.99, -1.99, math.nan, math.inf, -math.inf, 1e30, *ends], source
    )
    beside = [np.nextafter(numbers, np.array(side, source)) for side in (-math.inf, math.inf)]
    x = np.concatenate([numbers, *beside])
    got = elementwise("cast", [x], dtype)
    assert got.dtype == dtype and got.tolist() == [_whole(float(n), dtype) for n in x]


@pytest.mark.rule("N53")
def test_casts_of_integers_keep_the_lower_bits() -> None:
    x = np.array([0, 1, 127, 128, 255, 256, -1, 2**31, -(2**31) - 1, 2**63 - 1])
    assert elementwise("cast", [x], "uint8").tolist() == [int(n) % 256 for n in x]
    assert elementwise("cast", [x], "int32").tolist() == [_wrap(int(n), "int32") for n in x]
    assert elementwise("cast", [np.array([2**24 + 1, 2**24 + 3])], "float32").tolist() == [2**24, 2**24 + 4]


@pytest.mark.rule("N53")
def test_a_bool_says_whether_a_number_is_other_than_zero() -> None:
    x = np.float32([0, -0.0, 1e-45, math.nan, -2])
    assert elementwise("cast", [x], "bool").tolist() == [False, False, True, True, True]
    assert elementwise("cast", [np.array([0, 256])], "bool").tolist() == [False, True]
    assert elementwise("cast", [np.array([False, True])], "float32").tolist() == [0, 1]


@pytest.mark.rule("N53")
def test_comparisons_of_what_is_no_number_do_not_hold() -> None:
    a = np.float32([math.nan, 1, math.nan])
    b = np.float32([1, math.nan, math.nan])
    for name in ("equal", "less", "less_or_equal", "greater", "greater_or_equal"):
        assert not elementwise(name, [a, b], "bool").any(), name


@pytest.mark.rule("N53")
def test_floats_are_rounded_to_even_at_ties() -> None:
    x = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 2**23 + 1, math.inf])
    assert elementwise("round", [x], "float32").tolist() == [0, 2, 2, 0, -2, 2**23 + 1, math.inf]
    assert np.signbit(elementwise("round", [np.float32([-0.2])], "float32")).all()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_operation_has_its_operands_and_its_dtypes(name: str) -> None:
    operation = ELEMENTWISE[name]
    dtype = min(operation.types or {"float32"})
    operands = [dtype] * operation.operands
    if name == "where":
        operands[0] = "bool"
    output_dtype = operation.makes or dtype
    assert takes(name, operands, output_dtype)
    assert not takes(name, [*operands, dtype], output_dtype)
    assert not takes(name, operands, "uint16")
    assert not takes(name, ["str"] * operation.operands, output_dtype)
    if operation.operands == 2:
        assert not takes(name, [dtype, "int64" if dtype == "float64" else "float64"], output_dtype)


@pytest.mark.rule("N53")
def test_powers_of_e_in_64_bits() -> None:
    x = np.array([*np.linspace(-745, 709, 4001), *np.linspace(-2, 2, 999), 0.0, -0.0, 5e-324])
    got = exp64(x)
    want = np.array([math.exp(value) for value in x])
    assert (np.abs(got - want) <= 5e-16 * want + 5e-324).all()  # 2 in the last place
    assert exp64(np.array([0.0, 710.0, np.inf, -750.0, -np.inf])).tolist() == [1, np.inf, np.inf, 0, 0]
    assert np.isnan(exp64(np.array([np.nan]))).all()

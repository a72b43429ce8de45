"""Formats and specs: two values with one spelling per meaning."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from intact.errors import QuantValueError
from intact.spec import FP4E2M1, FP8E4M3, FP8E5M2, INT4, INT8, INT16, UINT4, UINT8, Format, QuantSpec

NAMES = [f"{u}int{n}" for u in ("", "u") for n in range(2, 17)] + ["fp8e4m3", "fp8e5m2", "fp4e2m1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_parsed_and_shown_again(name):
    fmt = Format.parse(name)
    assert str(fmt) == fmt.name == name
    assert Format.parse(fmt) is fmt
    assert fmt == Format.parse(name)
    assert hash(fmt) == hash(Format.parse(name))


@pytest.mark.rule("N1")
@pytest.mark.parametrize("bits", range(2, 17))
def test_integer_ends(bits):
    signed, unsigned = Format.integer(bits), Format.integer(bits, signed=False)
    assert (signed.qmin, signed.qmax) == (-(2**bits) // 2, 2**bits // 2 - 1)
    assert (unsigned.qmin, unsigned.qmax) == (0, 2**bits - 1)


@pytest.mark.rule("N1")
@pytest.mark.parametrize("name", NAMES)
def test_storage_holds_both_ends(name):
    fmt = Format.parse(name)
    ends = np.array([fmt.qmin, fmt.qmax], np.float32).astype(fmt.storage_dtype)
    assert ends.astype(np.float32).tolist() == [fmt.qmin, fmt.qmax]
    assert fmt.storage_dtype.itemsize == (2 if fmt.bits > 8 else 1)


def test_constants_and_aliases():
    named = {"int8": INT8, "uint8": UINT8, "int16": INT16, "int4": INT4, "uint4": UINT4}
    named |= {"fp8e4m3": FP8E4M3, "fp8": FP8E4M3, "fp8e5m2": FP8E5M2, "fp4e2m1": FP4E2M1, "fp4": FP4E2M1}
    assert {name: Format.parse(name) for name in named} == named
    assert (FP8E4M3.qmax, FP8E5M2.qmax, FP4E2M1.qmax) == tuple(
        float(ml_dtypes.finfo(f.storage_dtype).max) for f in (FP8E4M3, FP8E5M2, FP4E2M1)
    )


@pytest.mark.parametrize(
    "name", ["int1", "int17", "uint", "int08", "int8 ", "float32", "", 8, None, ["int8"]]
)
def test_unknown_format(name):
    with pytest.raises(QuantValueError) as caught:
        Format.parse(name)
    assert str(caught.value) == (
        f"format: got {name!r}, want intN or uintN with N = 2..16, fp8e4m3, fp8e5m2 or fp4e2m1. "
        "Fix: choose one of these names, for example 'int8'"
    )


@pytest.mark.parametrize("bits", [1, 17, 0, -8])
def test_unknown_width(bits):
    with pytest.raises(QuantValueError) as caught:
        Format.integer(bits)
    assert str(caught.value) == f"bits: got {bits}, want 2..16. Fix: choose a width in that range"


@pytest.mark.parametrize(
    ("inputs", "canonical"),
    [(None, None), ((), None), (2, 2), ((2,), 2), ([-1], -1), ((1, 0), (0, 1)), (np.int64(3), 3)],
    ids=repr,
)
def test_axis_has_one_spelling_per_meaning(inputs, canonical):
    spec = QuantSpec(axis=inputs)
    assert spec.axis == canonical
    assert spec == QuantSpec(axis=canonical)
    assert hash(spec) == hash(QuantSpec(axis=canonical))
    assert spec.axes == (
        () if canonical is None else canonical if isinstance(canonical, tuple) else (canonical,)
    )


def test_equal_specs_stay_equal_after_use_and_copies():
    used, fresh = QuantSpec("int8", narrow=True), QuantSpec(INT8, narrow=True)
    assert (used.qmin, used.qmax) == (-127, 127)  # fills the cache
    assert used == fresh
    assert len({used, fresh, copy.deepcopy(used), pickle.loads(pickle.dumps(used))}) == 1
    assert used.with_(narrow=False).qmin == -128
    assert used != used.with_(narrow=False)
    assert used.with_(format="uint4").format == UINT4


@pytest.mark.rule("N1")
def test_narrow_drops_a_code_of_signed_integers_alone():
    assert [QuantSpec(f, narrow=True).qmin for f in ("int4", "uint8", "fp8")] == [-7, 0, -448.0]


def test_a_spec_is_frozen():
    with pytest.raises(AttributeError):
        QuantSpec().axis = 1


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (QuantSpec(), "int8 per-tensor"),
        (QuantSpec("int8", axis=0, narrow=True), "int8n per-channel(axis=0)"),
        (QuantSpec("uint8", symmetric=False), "uint8 per-tensor asymmetric"),
        (QuantSpec("int4", axis=-1, block_size=32), "int4 per-block(axis=-1, block_size=32)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text(spec, text):
    assert str(spec) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"block_size": 32},
            "block_size: got 32 with axis None, want a positive size and exactly one axis. "
            "Fix: give the axis that is cut into blocks, for example axis=-1, block_size=32",
        ),
        (
            {"block_size": 0, "axis": 1},
            "block_size: got 0, want a positive integer, or None. Fix: 32 is usual",
        ),
        (
            {"block_size": 8, "axis": (0, 1)},
            "block_size: got 8 with axis (0, 1), want a positive size and exactly one axis. "
            "Fix: give the axis that is cut into blocks, for example axis=-1, block_size=32",
        ),
        (
            {"format": "fp8", "symmetric": False},
            "symmetric: got False with format fp8e4m3, want True: a float grid has no zero point. "
            "Fix: use symmetric=True, or an integer format",
        ),
        (
            {"axis": 0.5},
            "axis: got 0.5, want None, an integer or a tuple of integers. "
            "Fix: count axes from 0, or from -1 at the end",
        ),
    ],
    ids=["block-without-axis", "empty-block", "block-on-two-axes", "float-asymmetric", "axis-not-integer"],
)
def test_contradictions(arguments, message):
    with pytest.raises(QuantValueError) as caught:
        QuantSpec(**arguments)
    assert str(caught.value) == message

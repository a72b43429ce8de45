"""Integer sums of a linear layer against Python integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intact import numerics as nx
from intact.spec import INT8, QuantSpec


def loop_linear(x, w, z_x, z_w, bias):
    out = np.zeros((x.shape[0], w.shape[0]), object)
    for n, o in itertools.product(range(x.shape[0]), range(w.shape[0])):
        out[n, o] = int(bias[o]) + sum(
            (int(a) - z_x) * (int(b) - int(z_w[o])) for a, b in zip(x[n], w[o], strict=True)
        )
    return out


@pytest.mark.rule("N19")
def test_linear_equals_python_integers(rng):
    x = rng.integers(0, 256, (3, 7), np.uint8)
    w = rng.integers(-128, 128, (4, 7), np.int8)
    z_w, bias = np.array([0, 1, -5, 7]), rng.integers(-(2**20), 2**20, 4, np.int32)
    want = loop_linear(x, w, 131, z_w, bias)
    got = nx.linear(x, w, 131, z_w, bias)
    assert got.dtype == np.int32
    assert (got == want).all()
    assert (nx.linear(x[0], w, 131, z_w, bias) == want[0]).all()


@pytest.mark.rule("N30")
def test_foreign_int32_bias_is_exact():
    """2**24 + 1 survives only because the bias joins the integer sum, before fl32."""
    acc = nx.linear(np.array([[1]]), np.array([[1]]), 0, bias=np.array([2**24]))
    assert acc == 2**24 + 1


def test_layers_take_every_storage_dtype():
    x = nx.store([[1, -2]], QuantSpec("int4"))
    assert nx.linear(x, nx.store([[7, -8]], QuantSpec("int4")), 1) == 24
    assert nx.linear(x.astype(np.int16), np.array([[7, -8]], np.int64), 1) == 24
    assert INT8.storage_dtype == np.int8

"""Per-tensor, per-channel (one axis or several) and per-block: which elements share a scale."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from intact import numerics as nx
from intact.errors import QuantValueError
from intact.numerics.grids import granularity
from intact.spec import QuantSpec


@pytest.mark.rule("N4")
@pytest.mark.parametrize(
    ("shape", "spec", "granules"),
    [
        ((2, 3, 4), QuantSpec(), ()),
        ((2, 3, 4), QuantSpec(axis=1), (3,)),
        ((2, 3, 4), QuantSpec(axis=-1), (4,)),
        ((2, 3, 4), QuantSpec(axis=(-1, 0)), (2, 4)),
        ((2, 3, 4), QuantSpec(axis=(0, 1, 2)), (2, 3, 4)),
        ((2, 3, 5), QuantSpec(axis=-1, block_size=2), (2, 3, 3)),
        ((2, 7), QuantSpec(axis=0, block_size=2), (1, 7)),
        ((2, 7), QuantSpec(axis=1, block_size=100), (2, 1)),
        ((0, 3), QuantSpec(axis=0), (0,)),
        ((3, 0), QuantSpec(axis=1, block_size=4), (3, 0)),
    ],
    ids=lambda value: str(value),
)
def test_every_element_uses_its_granules_scale(shape, spec, granules, rng):
    """Against one lookup per element, written with indices alone."""
    assert nx.granule_shape(shape, spec) == granules
    x, scale = rng.standard_normal(shape).astype(np.float32), rng.random(granules) + np.float32(0.01)
    q = nx.quantize(x, scale, 0, spec)
    axes = sorted(a % len(shape) for a in spec.axes)
    for index in np.ndindex(shape):
        if spec.block_size:
            granule = tuple(i // spec.block_size if a in axes else i for a, i in enumerate(index))
        else:
            granule = tuple(index[a] for a in axes)
        assert q[index] == nx.quantize(x[index], scale[granule], 0, QuantSpec())
    assert (nx.dequantize(q, scale, 0, spec) == nx.fake_quantize(x, scale, 0, spec)).all()


def test_zero_points_follow_the_same_granules():
    spec = QuantSpec("uint8", axis=0, symmetric=False)
    assert nx.quantize([[0, 1], [0, 1]], [1, 0.5], [10, 20], spec).tolist() == [[10, 11], [20, 22]]


@pytest.mark.rule("N4")
@pytest.mark.parametrize("scale", [0.5, [0.5], [[[0.5]]]], ids=["number", "one-element", "rank-3"])
@pytest.mark.parametrize("spec", [QuantSpec(), QuantSpec(axis=0), QuantSpec(axis=1, block_size=2)], ids=str)
def test_one_number_fits_every_granularity(scale, spec):
    assert nx.quantize([[1, 2, 3], [4, 5, 6]], scale, 0, spec).tolist() == [[2, 4, 6], [8, 10, 12]]


def test_expand_keeps_dtype_and_broadcasts():
    spread = nx.expand(np.array([1, 2], np.int32), (3, 2, 5), QuantSpec(axis=1))
    assert (spread.shape, spread.dtype) == ((1, 2, 1), np.int32)


@pytest.mark.rule("N4")
@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, -2)], ids=str)
def test_axis_errors(axis):
    with pytest.raises(QuantValueError) as caught:
        nx.granule_shape((4, 5), QuantSpec(axis=axis))
    assert str(caught.value) == (
        f"axis: got {QuantSpec(axis=axis).axis} for a tensor of shape (4, 5), want distinct axes in [-2, 2). "
        "Fix: choose an axis that the tensor has, or None for one scale per tensor"
    )


@pytest.mark.rule("N17")
def test_shape_errors():
    with pytest.raises(QuantValueError) as caught:
        nx.quantize(np.zeros((2, 3)), [1.0, 1.0], 0, QuantSpec(axis=1))
    assert str(caught.value) == (
        "scale or zero_point: got shape (2,) for a tensor of shape (2, 3), int8 per-channel(axis=1), "
        "want shape (3,). Fix: calibrate with the same axis and block size as the tensor is quantized with"
    )


def test_examples_in_docstrings():
    assert doctest.testmod(granularity) == (0, 2)

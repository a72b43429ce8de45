"""Clip of integers and of floats."""

import numpy as np
import pytest
from tests.engine.conftest import exactly, few, given

from intact.engine.engine import Engine


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


@pytest.mark.parametrize("ends", [(0, 6), (0, None), (None, 1), (2, -1), (-np.inf, 1), (None, None)], ids=str)
def test_clip_of_reals(qdq, lowered, ends):
    g = qdq()
    constants = ["" if end is None else g.constant(np.float32(end)) for end in ends]
    y = g.node("Clip", g.input("x", ["n", 50]), *constants)
    found = lowered(g, y, g.quantize(g.node("Clip", g.pair(g.input("z", [3, 5])), *constants), 0.03),
                    sizes={"n": 3}).agree()  # fmt: skip
    assert found.kinds == ["clip", "quantize", "table"]
    np.testing.assert_array_equal(found.values[y], found.expected[y])


@pytest.mark.parametrize("given", ["both", "low", "high"])
def test_clip_by_what_is_computed(qdq, lowered, given):
    g = qdq()
    low = g.input("low", []) if given != "high" else g.constant(np.float32(-0.5))
    high = g.input("high", []) if given != "low" else ""
    y = g.node("Clip", g.input("x", [3, 50]), low, high)
    found = lowered(g, y).agree()
    assert set(found.kinds) == {"binary"} and len(found.kinds) <= 2
    np.testing.assert_array_equal(found.values[y], found.expected[y])


@pytest.mark.parametrize("ends", [(np.inf, None), (None, -np.inf), (np.nan, 1)], ids=str)
def test_a_clip_that_leaves_no_number_runs_in_a_stretch(qdq, lowered, ends):
    g = qdq()
    constants = ["" if end is None else g.constant(np.float32(end)) for end in ends]
    assert lowered(g, g.node("Clip", g.input("x", [3, 5]), *constants)).kinds == ["onnx"]


@pytest.mark.parametrize(("low", "high"), [(-np.inf, 1), (0, np.inf), (-np.inf, np.inf)])
def test_infinite_ends_behind_a_layer_of_reals_are_none(qdq, lowered, tmp_path, low, high):
    """They were kept, and no plan file says them."""
    g = qdq()
    y = g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 4)
    found = lowered(g, g.node("Clip", y, g.constant(np.float32(low)), g.constant(np.float32(high)))).agree()
    assert found.kinds == ["quantize", "conv"]
    Engine(found.plan, threads=1).save(tmp_path / "clip.plan")

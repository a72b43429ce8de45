"""Clip of integers and of floats."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few

from intact.engine.engine import Engine


@pytest.mark.parametrize("ends", [(2, 6), (None, 6), (2, None), (6, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("how", ["constant", "given"])
def test_bounds_of_integers(qdq, lower_graph, ends, dtype, how):
    g = qdq()
    arrays = {f"end{i}": np.array(end, dtype) for i, end in enumerate(ends) if end is not None}
    constants = arrays if how == "given" else {}
    x, *names = add_inputs(g, x=few(dtype, 3, 4), **constants)
    names = names or [g.constant(array) for array in arrays.values()]
    low = [] if ends[0] is None else names[:1]
    exactly(lower_graph(g, g.node("Clip", x, *(low or [""]), *names[len(low) :])))


@pytest.mark.parametrize("ends", [(0, 6), (0, None), (None, 1), (2, -1), (-np.inf, 1), (None, None)], ids=str)
def test_clip_of_reals(qdq, lower_graph, ends):
    g = qdq()
    constants = ["" if end is None else g.constant(np.float32(end)) for end in ends]
    y = g.node("Clip", g.input("x", ["n", 50]), *constants)
    lowered = lower_graph(g, y, g.quantize(g.node("Clip", g.pair(g.input("z", [3, 5])), *constants), 0.03),
                    sizes={"n": 3}).agree()  # fmt: skip
    assert lowered.kinds == ["clip", "quantize", "table"]
    np.testing.assert_array_equal(lowered.values[y], lowered.expected[y])


@pytest.mark.parametrize("bounds", ["both", "low", "high"])
def test_clip_by_what_is_computed(qdq, lower_graph, bounds):
    g = qdq()
    low = g.input("low", []) if bounds != "high" else g.constant(np.float32(-0.5))
    high = g.input("high", []) if bounds != "low" else ""
    y = g.node("Clip", g.input("x", [3, 50]), low, high)
    lowered = lower_graph(g, y).agree()
    assert set(lowered.kinds) == {"binary"} and len(lowered.kinds) <= 2
    np.testing.assert_array_equal(lowered.values[y], lowered.expected[y])


@pytest.mark.parametrize("ends", [(np.inf, None), (None, -np.inf), (np.nan, 1)], ids=str)
def test_a_clip_that_leaves_no_number_runs_in_a_stretch(qdq, lower_graph, ends):
    g = qdq()
    constants = ["" if end is None else g.constant(np.float32(end)) for end in ends]
    assert lower_graph(g, g.node("Clip", g.input("x", [3, 5]), *constants)).kinds == ["onnx"]


@pytest.mark.parametrize(("low", "high"), [(-np.inf, 1), (0, np.inf), (-np.inf, np.inf)])
def test_infinite_ends_behind_a_layer_of_reals_are_none(qdq, lower_graph, tmp_path, low, high):
    """They were kept, and no plan file says them."""
    g = qdq()
    y = g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 4)
    lowered = lower_graph(
        g, g.node("Clip", y, g.constant(np.float32(low)), g.constant(np.float32(high)))
    ).agree()
    assert lowered.kinds == ["quantize", "conv"]
    Engine(lowered.plan, threads=1).save(tmp_path / "clip.plan")

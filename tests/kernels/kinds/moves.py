"""Random cases of the steps of src/intact/engine/steps/moves."""

from __future__ import annotations

from math import prod

import numpy as np
from tests.kernels.kinds.draw import Draw
from tests.one_step import Case, one_step

from intact.engine.steps import (
    Concat,
    Expand,
    Gather,
    GatherElements,
    GatherRows,
    GridSample,
    Interpolate,
    Pad,
    Reshape,
    Resize,
    ScatterElements,
    ScatterRows,
    Slice,
    StackPlanes,
    Transpose,
)
from intact.numerics import SCATTER_REDUCTIONS

DTYPES = ("uint8", "bool", "float16", "int32", "float32", "int64", "float64")
REDUCED = ("float32", "int32", "int64")
"""Dtypes whose updates are added and compared."""


def elements_of(d: Draw, name: str, shape: tuple[int, ...]) -> str:
    """Elements of any dtype, or codes."""
    if d.chance(0.4):
        return d.codes(name, shape)
    return d.numbers(name, shape, d.pick(*DTYPES))


def like(d: Draw, x: str, y: str = "y") -> str:
    """A tensor of the grid or dtype of x."""
    if x in d.grids:
        d.grids[y] = d.grids[x]
    else:
        d.dtypes[y] = d.feeds[x].dtype.name
    return y


def axis_of(d: Draw, shape: tuple[int, ...]) -> int:
    """One of its axes."""
    return d.integer(0, len(shape) - 1)


def concat(d: Draw) -> Case:
    """One to three tensors of codes, each of a grid of its own, or of any dtype."""
    shape = d.shape()
    axis, shapes = axis_of(d, shape), []
    for _ in range(d.integer(1, 3)):
        shapes.append(tuple(d.integer(0, 5) if i == axis else n for i, n in enumerate(shape)))
    if d.chance():
        xs = [d.codes(f"x{i}", s) for i, s in enumerate(shapes)]
        y = d.output_codes()
    else:
        dtype = d.pick(*DTYPES)
        xs = [d.numbers(f"x{i}", s, dtype) for i, s in enumerate(shapes)]
        y = d.output(dtype=dtype)
    return d.case(Concat("s", (), tuple(xs), y, d.pick(axis, axis - len(shape))))


def expand(d: Draw) -> Case:
    """A smaller tensor, of fewer axes or of axes of size 1."""
    shape = d.shape()
    x = elements_of(d, "x", d.smaller(shape))
    step = Expand("s", (), x, like(d, x))
    return one_step(step, d.feeds, grids=d.grids, dtypes=d.dtypes, shapes={"y": shape})


def gather(d: Draw) -> Case:
    """Elements, pairs and long rows, along any axis, by indices of any rank."""
    shape = d.shape(size=12)
    axis = axis_of(d, shape)
    x = elements_of(d, "x", shape)
    index = d.index("index", d.pick((), (50,), (4, 6), (3, 0)) if shape[axis] else (0,), shape[axis])
    return d.case(Gather("s", (), x, index, like(d, x), axis))


def gather_elements(d: Draw) -> Case:
    """An index for each element."""
    shape = tuple(max(n, 1) for n in d.shape())
    axis = axis_of(d, shape)
    x = elements_of(d, "x", shape)
    wanted = tuple(d.integer(0, 9) if i == axis else d.integer(1, n) for i, n in enumerate(shape))
    return d.case(GatherElements("s", (), x, d.index("index", wanted, shape[axis]), like(d, x), axis))


def _tuples(d: Draw, sizes: tuple[int, ...], count: int) -> str:
    d.feeds["index"] = np.stack([d.rng.integers(-n, n, count) for n in sizes], 1).astype(
        d.pick(np.int32, np.int64)
    )
    return "index"


def gather_rows(d: Draw) -> Case:
    """Rows by tuples, of one table or of several."""
    sizes, parts, width = d.pick((3, 4), (6,), (2, 3, 2)), d.pick(1, 2), d.pick(0, 1, 5, 700)
    x = elements_of(d, "x", (parts * prod(sizes), width))
    return d.case(GatherRows("s", (), x, _tuples(d, sizes, parts * d.pick(0, 1, 20)), like(d, x), sizes))


def grid_sample(d: Draw) -> Case:
    """Places within images, beyond them, and nowhere."""
    n, c, h, w = d.pick((2, 3, 4, 5), (1, 9, 1, 7), (2, 2, 3, 3), (1, 16, 8, 8))
    x = d.floats("x", (n, c, h, w), special=0.05)
    grid = d.rng.uniform(-3, 3, (n, *d.pick((3, 50), (2, 3), (0, 4)), 2)).astype(np.float32)
    odd = np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, 1, -1])
    d.feeds["grid"] = np.where(d.rng.random(grid.shape) < 0.1, d.rng.choice(odd, grid.shape), grid)
    padding = d.pick("zeros", "border", "reflection")
    return d.case(GridSample("s", (), x, "grid", "y", d.chance(), padding, d.chance()))


def interpolate(d: Draw) -> Case:
    """Sums of one to four elements along any axis."""
    shape = d.shape()
    axis, terms = axis_of(d, shape), d.pick(1, 2, 4)
    places = d.rng.integers(0, max(shape[axis], 1), (5 if shape[axis] else 0, terms))
    step = Interpolate(
        "s", (), d.floats("x", shape), "y", axis, d.constant("p", places, np.int64),
        d.constant("w", d.rng.standard_normal(places.shape)),
    )  # fmt: skip
    return d.case(step)


def pad(d: Draw) -> Case:
    """Before and behind any axis, of codes and of any dtype, with zeros or a number."""
    x = elements_of(d, "x", d.shape())
    pads = tuple((d.pick(0, 0, 1, 3), d.pick(0, 1, 2)) for _ in d.feeds[x].shape)
    fill = (
        d.constant("c", d.feeds[x].reshape(-1)[:1], d.feeds[x].dtype)
        if d.feeds[x].size and d.chance()
        else ""
    )
    return d.case(Pad("s", (), x, like(d, x), pads, fill))


def reshape(d: Draw) -> Case:
    """The same elements under other axes."""
    shape = d.shape()
    x = elements_of(d, "x", shape)
    size = prod(shape)
    by = d.pick(*[n for n in range(1, size + 1) if size % n == 0][:6]) if size else 1
    wanted = d.pick((size,), (by, size // by), (1, by, size // by, 1), shape)
    return one_step(
        Reshape("s", (), x, like(d, x)), d.feeds, grids=d.grids, dtypes=d.dtypes, shapes={"y": wanted}
    )


def resize(d: Draw) -> Case:
    """Elements that repeat or fall away, along some axes."""
    shape = tuple(max(n, 1) for n in d.shape())
    axes = tuple(sorted(d.rng.permutation(len(shape))[: d.integer(1, min(2, len(shape)))].tolist()))
    names = [
        d.constant(f"i{axis}", np.sort(d.rng.integers(0, shape[axis], d.pick(1, 5, 20))), np.int64)
        for axis in axes
    ]
    x = elements_of(d, "x", shape)
    return d.case(Resize("s", (), x, like(d, x), axes, tuple(names)))


def _reduction(d: Draw) -> tuple[str, str]:
    reduction = d.pick(*SCATTER_REDUCTIONS)
    return reduction, d.pick(*(DTYPES if reduction == "none" else REDUCED))


def scatter_elements(d: Draw) -> Case:
    """Updates of elements, some of one place."""
    shape = tuple(max(n, 1) for n in d.shape())
    axis, (reduction, dtype) = axis_of(d, shape), _reduction(d)
    wanted = tuple(d.integer(0, 20) if i == axis else d.integer(1, n) for i, n in enumerate(shape))
    x, updates = d.numbers("x", shape, dtype), d.numbers("u", wanted, dtype)
    index = d.index("index", wanted, shape[axis])
    return d.case(ScatterElements("s", (), x, index, updates, d.output(dtype=dtype), axis, reduction))


def scatter_rows(d: Draw) -> Case:
    """Updates of rows by tuples."""
    sizes, width, count = d.pick((3, 4), (6,)), d.pick(0, 1, 5, 700), d.pick(0, 1, 40)
    reduction, dtype = _reduction(d)
    x, updates = d.numbers("x", (prod(sizes), width), dtype), d.numbers("u", (count, width), dtype)
    return d.case(
        ScatterRows("s", (), x, _tuples(d, sizes, count), updates, d.output(dtype=dtype), sizes, reduction)
    )


def slices(d: Draw) -> Case:
    """Forwards and backwards, every element and some; rows of a few bytes among them."""
    shape = d.pick(d.shape(), (3, 61, 2 * d.integer(1, 17)))
    x, starts, hops = elements_of(d, "x", shape), [], []
    for n in shape:
        hop = d.pick(1, 1, 2, 3, -1, -2)
        hops.append(hop if n else 1)
        starts.append((0 if hop > 0 else n - 1) if n else 0)
    y = d.feeds[x][tuple(slice(None, None, hop) for hop in hops)]
    step = Slice("s", (), x, like(d, x), tuple(starts), tuple(hops))
    return one_step(step, d.feeds, grids=d.grids, dtypes=d.dtypes, shapes={"y": y.shape})


def stack_planes(d: Draw) -> Case:
    """Windows over the depth of volumes, as channels or as rows."""
    depth, kernel, dilation = d.integer(1, 5), d.integer(1, 3), d.pick(1, 2)
    reach = (kernel - 1) * dilation + 1
    least = max(0, reach - depth)
    pads = d.integer(least, least + 2), d.integer(0, 2)
    x = elements_of(d, "x", (d.integer(1, 2) * depth, *(d.integer(1, 6) for _ in "chw")))
    step = StackPlanes(
        "s", (), x, like(d, x), depth, kernel, d.pick(1, 2), dilation, pads, d.chance(), d.chance()
    )
    return d.case(step)


def transpose(d: Draw) -> Case:
    """Axes in any order; matrices of any size among them."""
    shape = d.shape() if d.chance() else (d.pick(1, 3, 16, 17, 64, 200), d.pick(1, 3, 15, 16, 33, 300))
    x = elements_of(d, "x", shape)
    return d.case(Transpose("s", (), x, like(d, x), tuple(d.rng.permutation(len(shape)).tolist())))


KINDS = {
    "concat": concat, "expand": expand, "gather": gather, "gather_elements": gather_elements,
    "gather_rows": gather_rows, "grid_sample": grid_sample, "interpolate": interpolate, "pad": pad,
    "reshape": reshape, "resize": resize, "scatter_elements": scatter_elements, "scatter_rows": scatter_rows,
    "slice": slices, "stack_planes": stack_planes, "transpose": transpose,
}  # fmt: skip

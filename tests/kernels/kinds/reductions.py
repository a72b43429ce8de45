"""Random cases of the steps of src/intact/engine/steps/reductions."""

from __future__ import annotations

import numpy as np
from tests.kernels.kinds.draw import Draw
from tests.kernels.kinds.moves import axis_of, like
from tests.one_step import Case

from intact.engine.steps import ArgMax, CumSum, Fold, LayerNorm, Pool, Reduce, Softmax, TopK
from intact.numerics import CUM_SUM_DTYPES, FOLD_DTYPES, ORDER_DTYPES, REDUCTIONS


def _line(d: Draw, fewest: int = 0) -> tuple[int, ...]:
    """Sizes of a tensor with short and long lines along some axis."""
    return d.pick(
        (7,), (3, 300), (300, 3), (2, 5, 4, 3), (2, 700), (700, 2), *([] if fewest else [(3, 0, 2), (0, 4)])
    )


def arg_max(d: Draw) -> Case:
    """The first or the last place of the largest or the smallest, NaNs among them."""
    shape = _line(d, 1)
    x = d.numbers("x", shape, d.pick(*ORDER_DTYPES))
    step = ArgMax("s", (), x, d.output(dtype="int64"), axis_of(d, shape), d.chance(), d.chance())
    return d.case(step)


def cum_sum(d: Draw) -> Case:
    """From either end, with and without the element itself."""
    shape = _line(d)
    x = d.numbers("x", shape, d.pick(*CUM_SUM_DTYPES))
    return d.case(CumSum("s", (), x, like(d, x), axis_of(d, shape), d.chance(), d.chance()))


def fold(d: Draw) -> Case:
    """Every function of every dtype, with numbers whose sums and products wrap around."""
    shape, dtype = _line(d), d.pick(*FOLD_DTYPES)
    x = d.numbers("x", shape, dtype)
    if dtype in ("int32", "int64"):
        d.feeds[x] = (d.feeds[x] - np.array(2, dtype)) * np.array(2**29, dtype)
    return d.case(Fold("s", (), x, like(d, x), axis_of(d, shape), d.pick(*FOLD_DTYPES[dtype])))


def layer_norm(d: Draw) -> Case:
    """Few rows or many, with and without weight, bias and residual."""
    shape, n = (d.pick(1, 2), d.pick(d.integer(1, 5), d.integer(6, 300))), d.integer(1, 70)
    x, residual = d.real("x", (*shape, n)), d.real("r", (*shape, n)) if d.chance() else ""
    weight, bias = (d.constant(name, d.rng.standard_normal(n)) if d.chance() else "" for name in "wb")
    return d.case(LayerNorm("s", (), x, d.output(), weight, bias, 1e-5, residual))


def pool(d: Draw) -> Case:
    """The largest codes and floats of windows, and means of codes; whole planes, too."""
    mode = d.pick("max", "max", "average")
    window, kernel, sizes = d.window(5)
    shape = (d.integer(1, 2), d.pick(d.integer(1, 70), 16, 100), *sizes)
    is_float = mode == "max" and d.chance()
    x = d.floats("x", shape, special=0.2) if is_float else d.codes("x", shape)
    if is_float:
        y = d.output(dtype="float32")
    elif mode == "max":
        y = like(d, x)
    else:
        y = d.output_codes()
    if mode == "average" and d.chance(0.3):
        return d.case(Pool("s", (), x, y, mode))
    if mode == "average":
        window["dilations"] = (1, 1)
        window["pads"] = tuple(min(p, k - 1) for p, k in zip(window["pads"], kernel * 2, strict=True))
    step = Pool("s", (), x, y, mode, kernel, **window, ceil_mode=d.chance(), count_include_pad=d.chance())
    return d.case(step)


def reduce(d: Draw) -> Case:
    """Every function over any axes; long lines in pieces."""
    shape = d.pick(d.shape(), (2, 30, 7, 9), (5, 1000), (3, 400, 40), (700, 5), (4, 0, 3))
    axes = tuple(axis for axis in range(len(shape)) if d.chance())
    step = Reduce("s", (), d.real("x", shape), d.output(), d.pick(*sorted(REDUCTIONS)), axes, d.chance())
    return d.case(step)


def softmax(d: Draw) -> Case:
    """Few rows or many, along any axis, with masks that hide some or all of a row."""
    shape = (2, d.pick(d.integer(1, 5), d.integer(6, 300)), d.integer(1, 70))
    x, mask, axis = d.real("x", shape), "", d.pick(-1, -1, 1, 0)
    if d.chance():
        hidden = np.where(d.rng.random((d.pick(1, 2), 1, shape[2])) < 0.3, d.pick(-np.inf, -1e4), 0.5)
        mask = d.constant("m", hidden)
        if d.chance():
            d.feeds["m"] = d.constants.pop("m")
    gain = float(np.float32(d.pick(1.0, 0.125, -0.3, 0.0)))
    return d.case(Softmax("s", (), x, d.output(), axis, gain, mask))


def top_k(d: Draw) -> Case:
    """None, few, most and all of a line."""
    shape = _line(d)
    axis = axis_of(d, shape)
    x = d.codes("x", shape) if d.chance(0.3) else d.numbers("x", shape, d.pick(*ORDER_DTYPES))
    d.dtypes["places"] = "int64"
    k = d.pick(0, min(2, shape[axis]), min(17, shape[axis]), shape[axis])
    return d.case(TopK("s", (), x, like(d, x), "places", axis, k, d.chance()))


KINDS = {
    "arg_max": arg_max, "cum_sum": cum_sum, "fold": fold, "layer_norm": layer_norm, "pool": pool,
    "reduce": reduce, "softmax": softmax, "top_k": top_k,
}  # fmt: skip

"""Steps that work on values of any rank: functions, arithmetic, bounds, pairs, moves of elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from tests.fuzz.net import Impossible, Net, Real

TABLES = (
    "HardSwish", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Relu", "Neg", "Abs", "Exp", "Softplus",
    "HardSigmoid", "Gelu", "GeluTanh", "GeluErf", "GeluPow", "Silu", "Clip", "Erf", "Mish", "Softsign",
    "PRelu", "Scaled", "Floor", "Sin", "Cos", "Selu", "Celu",
)  # fmt: skip


_CODES_ALONE = frozenset({"Neg", "Abs", "HardSigmoid", "Floor"})


def one(net: Net, op: str, x: str, **attributes: object) -> str:
    return str(net.node(op, x, **attributes))


def gelu_erf(net: Net, x: str) -> str:
    """As torch.onnx exports it: five nodes, in one of several orders."""
    if net.chance(0.5):
        inner = one(net, "Erf", str(net.node("Div", x, net.number(np.sqrt(2.0)))))
    else:
        inner = one(net, "Erf", str(net.node("Mul", x, net.number(np.sqrt(0.5)))))
    factor = net.node("Add", inner, net.number(1.0))
    if net.chance(0.5):
        return str(net.node("Mul", net.node("Mul", x, factor), net.number(0.5)))
    return str(net.node("Mul", net.node("Mul", x, net.number(0.5)), factor))


def gelu_pow(net: Net, x: str) -> str:
    """The form with tanh and a cube."""
    cube = (
        net.node("Pow", x, net.number(3.0)) if net.chance(0.5) else net.node("Mul", net.node("Mul", x, x), x)
    )
    inner = net.node("Add", x, net.node("Mul", cube, net.number(0.044715)))
    inner = one(net, "Tanh", str(net.node("Mul", inner, net.number(np.sqrt(2 / np.pi)))))
    half = net.node("Mul", x, net.number(0.5))
    return str(net.node("Mul", half, net.node("Add", inner, net.number(1.0))))


def clip(net: Net, x: str, spread: float) -> str:
    """Bounds on both sides of 0, on one, beside it, or none."""
    how = net.pick(["both", "low", "high", "above", "below", "none", "six"])
    ends: dict[str, tuple[float | None, float | None]] = {
        "both": (-0.4, 0.6), "low": (-0.3, None), "high": (None, 0.5), "above": (0.2, 0.7),
        "below": (-0.6, -0.1), "none": (None, None), "six": (0.0, 0.9),
    }  # fmt: skip
    if "one_sided" in net.off and how in ("above", "below"):
        how = "both"
    names = ["" if end is None else net.number(end * spread) for end in ends[how]]
    while names and not names[-1]:
        names.pop()
    return str(net.node("Clip", x, *names))


def function(net: Net, x: Real, channel: int | None = None) -> Real:
    """An element-wise function, as one node or as exporters write it."""
    kind, name, spread = net.pick(TABLES), x.name, x.spread
    if kind in _CODES_ALONE and x.grid is None and net.chance(0.9):
        kind = "Clip"  # no kernel computes the others on floats
    if kind == "Exp" and spread > 6:
        kind = "Tanh"
    plain: dict[str, Callable[[], str]] = {
        "GeluErf": lambda: gelu_erf(net, name),
        "GeluPow": lambda: gelu_pow(net, name),
        "Silu": lambda: str(net.node("Mul", name, one(net, "Sigmoid", name))),
        "Clip": lambda: clip(net, name, spread),
        "LeakyRelu": lambda: one(net, "LeakyRelu", name, alpha=net.pick([0.01, 0.2, -0.5, 1.5])),
        "Gelu": lambda: one(net, "Gelu", name) if net.opset >= 20 else gelu_erf(net, name),
        "GeluTanh": lambda: (
            one(net, "Gelu", name, approximate="tanh") if net.opset >= 20 else gelu_pow(net, name)
        ),
        "Mish": lambda: str(net.node("Mul", name, one(net, "Tanh", one(net, "Softplus", name)))),
        "PRelu": lambda: str(net.node("PRelu", name, slopes(net, x, channel))),
        "Scaled": lambda: str(
            net.node(net.pick(["Mul", "Div", "Add", "Sub"]), name, net.number(net.pick([0.25, 1.7, -2.0])))
        ),
        "Elu": lambda: one(net, "Elu", name, alpha=net.pick([1.0, 0.5])),
    }
    result = plain[kind]() if kind in plain else one(net, kind, name)
    bounded = {
        "Sigmoid": 1.0,
        "Tanh": 1.0,
        "Erf": 1.0,
        "HardSigmoid": 1.0,
        "Softsign": 1.0,
        "Sin": 1.0,
        "Cos": 1.0,
    }
    reach = min(spread, bounded.get(kind, spread))
    if kind == "Exp":
        reach = float(np.exp(spread))
    return net.add_value(result, x.sizes, reach * (2 if kind == "Scaled" else 1))


def slopes(net: Net, x: Real, channel: int | None) -> str:
    """Of a PRelu: one number, or one for each channel."""
    if channel is None or net.chance(0.4):
        return net.constant(np.float32([net.pick([0.25, -0.5, 0.0])]))
    shape = [x.sizes[channel]] + [1] * (x.rank - 1 - channel)
    return net.floats_of(shape, 1.0)


def element(net: Net) -> None:
    """A function between codes, of floats, or of an empty tensor."""
    net.end(function(net, net.real()))


def one_sided(net: Net) -> None:
    """Add values on one side of 0, so that the grid's zero point may lie outside all codes."""
    if "one_sided" in net.off:
        raise Impossible
    x = net.real()
    y = one(net, "Relu", x.name)
    if net.chance(0.6):
        y = one(net, "Neg", y) if x.grid else str(net.node("Mul", y, net.number(-1.0)))
    if net.chance(0.3):
        y = clip(net, y, x.spread)
    net.end(net.add_value(y, x.sizes, x.spread), 1.0)


def again(net: Net) -> None:
    """A second pair behind a pair."""
    net.keep(net.add_pair(net.real(grid=True)))


def arithmetic(net: Net) -> None:
    """Two values, sizes equal or broadcast."""
    a = net.real()
    if net.chance(0.75):
        b = net.like(a.sizes, a)
    else:
        fits = [
            r for r in net.floats
            if 0 < r.rank <= a.rank
            and all(m in (1, n) for m, n in zip(r.sizes[::-1], a.sizes[::-1], strict=False))
        ]  # fmt: skip
        b = net.pick(fits)
    op = net.pick(["Add", "Add", "Add", "Sub", "Mul", "Max", "Min"])
    first, second = (a, b) if net.chance(0.5) else (b, a)
    spread = a.spread * b.spread if op == "Mul" else a.spread + b.spread
    y = net.add_value(net.node(op, first.name, second.name), a.sizes, spread)
    if net.chance(0.35):
        y = function(net, y)
    net.end(y)


def gate(net: Net) -> None:
    """A product with the sigmoid of another value, or with a constant for each channel."""
    a = net.real()
    if net.chance(0.5) and a.rank > 1 and not a.empty:
        shape = [1] * a.rank
        axis = int(net.rng.integers(1, a.rank))
        shape[axis] = a.sizes[axis]
        y = net.node(net.pick(["Mul", "Add"]), a.name, net.floats_of(shape, 1.0))
    else:
        y = net.node("Mul", a.name, one(net, "Sigmoid", net.like(a.sizes, a).name))
    net.end(net.add_value(y, a.sizes, a.spread))


def softmax(net: Net) -> None:
    x = net.real(2, 3, 4)
    axis = net.upto(x.rank - 1)
    name = x.name
    if net.chance(0.3):
        name = net.node("Mul", name, net.number(0.35))
    y = net.node("Softmax", name, axis=axis if net.chance(0.5) else axis - x.rank)
    net.end(net.add_value(y, x.sizes, 1.0))


def reduce(net: Net) -> None:
    """Sums and means along any axes but the first."""
    x = net.real(2, 3, 4)
    count = 1 + net.upto(x.rank - 2)
    axes = sorted(net.rng.permutation(np.arange(1, x.rank))[:count].tolist())
    if x.rank == 4 and net.chance(0.5):
        axes = [2, 3]
    op, keep = net.pick(["ReduceMean"] * 4 + ["ReduceSum"] * 2 + ["ReduceMax"]), net.upto(1)
    inputs = [a if net.chance(0.5) else a - x.rank for a in axes]
    if net.opset >= 18 or op == "ReduceSum":
        y = net.node(op, x.name, net.ints(*inputs), keepdims=keep)
    else:
        y = net.node(op, x.name, axes=inputs, keepdims=keep)
    sizes = [1 if i in axes else n for i, n in enumerate(x.sizes) if keep or i not in axes]
    count = int(np.prod([x.sizes[a] for a in axes]))
    if count == 0:
        raise Impossible  # a mean of nothing is no number
    net.end(net.add_value(y, sizes, x.spread * (count**0.5 if op == "ReduceSum" else 1)))


def concat(net: Net) -> None:
    """Two or three values side by side; grids differ mostly."""
    a = net.real(2, 3, 4)
    axis = int(net.rng.integers(1, a.rank))
    fits = [
        r for r in net.floats
        if r.rank == a.rank
        and all(i == axis or m == n for i, (m, n) in enumerate(zip(r.sizes, a.sizes, strict=True)))
    ]  # fmt: skip
    parts = [a, *(net.pick(fits) for _ in range(net.pick([1, 1, 2])))]
    total = sum(p.sizes[axis] for p in parts)
    if total > 40:
        raise Impossible
    y = net.node("Concat", *(p.name for p in parts), axis=axis if net.chance(0.6) else axis - a.rank)
    sizes = [total if i == axis else n for i, n in enumerate(a.sizes)]
    net.end(net.add_value(y, sizes, max(p.spread for p in parts)), 0.8)


def move(net: Net, x: Real, y: str, sizes: list[int]) -> None:
    """Add an operator that moves elements; half of the time codes pass through it."""
    net.end(net.add_value(y, sizes, x.spread, x.grid), 0.5)


def slices(net: Net) -> None:
    """Along one or two axes, forwards and backwards; now and then nothing is left."""
    x = net.real(2, 3, 4)
    axes = sorted(net.rng.permutation(np.arange(1, x.rank))[: 1 + net.upto(1)].tolist())
    starts, ends, hops, sizes = [], [], [], list(x.sizes)
    for axis in axes:
        n = sizes[axis]
        hop = net.pick([1, 1, 1, 2, 3, -1, -2])
        start, end = net.upto(n), net.pick([n, 2**31 - 1, 2**63 - 1, n - 1, -1])
        if hop < 0:
            start, end = net.pick([n, 2**31 - 1, -1]), net.pick([-(2**31), -n - 1, 0])
        left = len(range(*slice(start, end, hop).indices(n)))
        if left == 0 and ("empty" in net.off or net.chance(0.8)):
            start, end, hop, left = 0, 2**31 - 1, 1, n
        starts.append(start)
        ends.append(end)
        hops.append(hop)
        sizes[axis] = left
    more = [net.ints(*axes), net.ints(*hops)] if net.chance(0.9) or set(hops) != {1} else [net.ints(*axes)]
    y = net.node("Slice", x.name, net.ints(*starts), net.ints(*ends), *more)
    move(net, x, y, sizes)


def split(net: Net) -> None:
    x = net.real(2, 3, 4)
    axis = int(net.rng.integers(1, x.rank))
    n = x.sizes[axis]
    first = net.upto(n)
    if first in (0, n) and "empty" in net.off:
        raise Impossible
    result = net.node("Split", x.name, net.ints(first, n - first), axis=axis, outputs=2)
    for name, size in zip(result, (first, n - first), strict=True):
        if net.chance(0.7):
            move(net, x, name, [size if i == axis else m for i, m in enumerate(x.sizes)])


def transpose(net: Net) -> None:
    """Of all axes but the batch."""
    x = net.real(3, 4)
    perm = [0, *(1 + net.rng.permutation(x.rank - 1)).tolist()]
    y = net.node("Transpose", x.name, perm=perm)
    move(net, x, y, [x.sizes[p] for p in perm])


def reshape(net: Net) -> None:
    """Images as tokens, tokens as images, anything as rows; the batch stays."""
    x = net.real(2, 3, 4)
    n, rest = x.sizes[0], int(np.prod(x.sizes[1:]))
    if rest > 400:
        raise Impossible
    by = net.pick([d for d in range(1, rest + 1) if rest % d == 0] or [1])
    forms = [[rest], [by, rest // by], [by, 1, rest // by], [1, by, rest // by]]
    form = net.pick(forms)
    if net.chance(0.25):
        y = net.node("Flatten", x.name, axis=1)
        form = [rest]
    elif net.chance(0.3) and x.sizes[1] == 1 and x.rank > 2:
        y, form = net.node("Squeeze", x.name, net.ints(1)), list(x.sizes[2:])
    elif net.chance(0.2) and x.rank < 4:
        y, form = net.node("Unsqueeze", x.name, net.ints(2)), [x.sizes[1], 1, *x.sizes[2:]]
    else:
        inputs = [0, *form]
        if rest and net.chance(0.4):
            inputs[-1] = -1
        if net.chance(0.2) and rest:
            inputs = [-1, *form]
        y = net.node("Reshape", x.name, net.ints(*inputs))
    move(net, x, y, [n, *form])


def pad(net: Net) -> None:
    x = net.real(2, 3, 4)
    before, after = [0] * x.rank, [0] * x.rank
    for axis in range(1, x.rank):
        if net.chance(0.6):
            before[axis], after[axis] = net.pick([0, 1, 2, 5, -1]), net.pick([0, 0, 1, 3, -1])
    sizes = [n + b + a for n, b, a in zip(x.sizes, before, after, strict=True)]
    if min(sizes) < 0 or ("empty" in net.off and 0 in sizes) or np.prod(sizes) > 3000:
        raise Impossible
    more = () if net.chance(0.7) else (net.number(net.pick([0.0, 0.5])),)
    y = net.node("Pad", x.name, net.ints(*before, *after), *more)
    move(net, x, y, sizes)


def gather(net: Net) -> None:
    """One index or several of an axis."""
    x = net.real(2, 3, 4)
    axis = int(net.rng.integers(1, x.rank))
    n = x.sizes[axis]
    if n == 0 or (x.rank < 3 and net.chance(0.5)):
        raise Impossible
    low = -n if net.chance(0.3) else 0
    if net.chance(0.6):
        index, sizes = np.int64(net.rng.integers(low, n)), [m for i, m in enumerate(x.sizes) if i != axis]
    else:
        index = net.rng.integers(low, n, net.pick([1, 2, 3]))
        sizes = [index.size if i == axis else m for i, m in enumerate(x.sizes)]
    y = net.node("Gather", x.name, net.constant(np.asarray(index, np.int64)), axis=axis)
    move(net, x, y, sizes)


def mask(net: Net) -> None:
    """A choice between values by what codes say: of floats that are computed, one ulp may decide."""
    x, number = net.real(grid=True), net.constant(np.float32(net.pick([0.0, 0.1, -0.3, np.nan, np.inf])))
    test = net.node(net.pick(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"]), x.name, number)
    if net.chance(0.3):
        test = net.node("Not", test)
    if net.chance(0.3):
        other = net.node("Greater", x.name, net.number(0.05))
        test = net.node(net.pick(["And", "Or", "Xor"]), test, other)
    how = net.pick(["where", "where", "number", "cast", "whole"])
    if how == "cast":
        y = net.node("Mul", x.name, net.node("Cast", test, to=onnx.TensorProto.FLOAT))
    elif how == "whole":
        whole = net.node("Cast", test, to=net.pick([onnx.TensorProto.INT32, onnx.TensorProto.INT64]))
        y = net.node(
            "Mul", x.name, net.node("Cast", net.node("Add", whole, whole), to=onnx.TensorProto.FLOAT)
        )
    else:
        other = net.number(0.25) if how == "number" else net.like(x.sizes, x).name
        y = net.node("Where", test, *([x.name, other] if net.chance(0.5) else [other, x.name]))
    net.end(net.add_value(y, x.sizes, 2 * x.spread + 0.25))


def along(net: Net) -> None:
    """Running sums, elements by index, the place of the largest of codes, and folds of such places."""
    x = net.real(2, 3, 4, grid=True)
    axis = 1 + net.upto(x.rank - 2)
    if x.empty or not x.sizes[0]:
        raise Impossible
    how, size = net.pick(["sums", "elements", "largest", "folds"]), x.sizes[axis]
    if how == "sums":
        flags = {"exclusive": net.upto(1), "reverse": net.upto(1)}
        y = net.node("CumSum", x.name, net.constant(np.array(axis - x.rank * net.upto(1))), **flags)
        net.end(net.add_value(y, x.sizes, x.spread * size))
    elif how == "elements":
        index = net.constant(net.rng.integers(-size, size, (1, *x.sizes[1:])))
        y = net.node("GatherElements", x.name, index, axis=axis)
        net.end(net.add_value(y, (1, *x.sizes[1:]), x.spread, x.grid), 0.7)
    else:
        op, last = net.pick(["ArgMax", "ArgMin"]), net.upto(1)
        place = net.node(op, x.name, axis=axis, keepdims=1, select_last_index=last)
        if how == "folds":
            other = net.pick([other for other in range(1, x.rank) if other != axis] or [0])
            with_axes = ["ReduceSum", "ReduceMax", "ReduceMin"] if net.opset >= 18 else ["ReduceSum"]
            fold = net.pick(with_axes)
            place, size = net.node(fold, place, net.constant(np.array([other]))), size * x.sizes[other]
        y = net.node("Mul", x.name, net.node("Cast", place, to=onnx.TensorProto.FLOAT))
        net.end(net.add_value(y, x.sizes, x.spread * size))


STEPS: tuple[tuple[float, Callable[[Net], None]], ...] = (
    (1.5, element), (1.0, one_sided), (0.5, again), (1.5, arithmetic), (0.6, gate), (0.4, softmax),
    (0.6, reduce), (0.8, concat), (0.6, slices), (0.4, split), (0.5, transpose), (0.7, reshape), (0.5, pad),
    (0.4, gather), (0.6, mask), (0.4, along),
)  # fmt: skip
"""Steps with their frequencies."""

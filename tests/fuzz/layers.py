"""Steps with sums, windows and norms: convolutions, products, pools, attention, resizing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from tests.fuzz.elements import clip, function
from tests.fuzz.net import Impossible, Net, Real

MOST = 2500
"""Elements of an image; more would cost time and show nothing else."""


def finish(net: Net, y: Real, channel: int) -> None:
    """Add nodes behind a sum: norm, factors, offsets, a residual, an activation; then the pair."""
    shape = [1] * y.rank
    shape[channel] = y.sizes[channel]
    if net.chance(0.15) and channel == 1:
        y = batchnorm(net, y)
    while net.chance(0.2):
        wide = [1] * net.upto(1) if net.chance(0.5) else shape[net.pick([0, channel]) :]
        op = net.pick(["Mul", "Div", "Add", "Sub"])
        values = net.rng.uniform(0.3, 2.0, wide) * net.pick([1, 1, -1])
        operands = [y.name, net.constant(values.astype(np.float32))]
        if op in ("Mul", "Add") and net.chance(0.3):
            operands.reverse()
        y = net.add_value(net.node(op, *operands), y.sizes, y.spread * 1.5)
    if net.chance(0.25) and any(r.sizes == y.sizes for r in net.floats):
        other = net.like(y.sizes)
        operands = [y.name, other.name]
        if net.chance(0.5):
            operands.reverse()
        y = net.add_value(net.node("Add", *operands), y.sizes, y.spread + other.spread)
    how = net.rng.random()
    if how < 0.25:
        y = net.add_value(net.node("Relu", y.name), y.sizes, y.spread)
    elif how < 0.4:
        y = net.add_value(clip(net, y.name, y.spread), y.sizes, y.spread)
    elif how < 0.6:
        y = function(net, y, channel)
        if net.chance(0.3):
            y = function(net, y, channel)
    if how < 0.6 and net.chance(0.3):
        y = scale(net, y, shape[net.pick([0, channel]) :])
    net.end(y, 0.9)


def scale(net: Net, y: Real, shape: list[int]) -> Real:
    """Factors and offsets behind a function: one for all, or one for each channel."""
    for op in net.pick([["Mul"], ["Add"], ["Mul", "Add"], ["Add", "Mul"]]):
        wide = net.pick([[], [1], shape])
        values = net.constant(net.rng.uniform(-0.5, 2.0, wide).astype(np.float32))
        y = net.add_value(net.node(op, y.name, values), y.sizes, y.spread * 1.5 + 1)
    return y


def batchnorm(net: Net, x: Real) -> Real:
    c = x.sizes[1]
    numbers = [
        net.rng.uniform(-1.5, 1.5, c), net.rng.uniform(-1, 1, c) * x.spread,
        net.rng.uniform(-1, 1, c) * x.spread,
        net.rng.uniform(0.5, 2, c) * x.spread**2,
    ]  # fmt: skip
    names = (net.constant(number.astype(np.float32)) for number in numbers)
    return net.add_value(net.node("BatchNormalization", x.name, *names), x.sizes, 2 * x.spread + 1)


def norm_alone(net: Net) -> None:
    x = net.real(2, 3, 4)
    y = batchnorm(net, x)
    if net.chance(0.4):
        y = net.add_value(net.node("Relu", y.name), y.sizes, y.spread)
    net.end(y)


def window(net: Net, sizes: Sequence[int], most: int = 5) -> tuple[dict[str, Any], list[int], list[int]]:
    """Attributes of a window over `sizes`, its kernel, and the sizes that it gives."""
    rank = len(sizes)
    kernel = [net.pick([1, 1, 2, 3, 3, most])] * rank
    if net.chance(0.4):
        kernel = [1 + net.upto(most - 1) for _ in range(rank)]
    strides = (
        [net.pick([1, 1, 1, 2, 3])] * rank if net.chance(0.8) else [1 + net.upto(3) for _ in range(rank)]
    )
    dilations = [1] * rank if net.chance(0.75) else [1 + net.upto(2) for _ in range(rank)]
    how = net.pick(["none", "same", "same", "random", "random", "large", "auto"])
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [0] * (2 * rank)
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations}
    if how == "same":
        pads = [(e - 1) // 2 for e in reaches] + [e // 2 for e in reaches]
    elif how == "random":
        pads = [net.upto(3) for _ in pads]
    elif how == "large":
        pads = [net.upto(8) for _ in pads]
    elif how == "auto":
        auto = net.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if any(stride > reach for stride, reach in zip(strides, reaches, strict=True)):
            auto = (
                "VALID"  # less than no padding: ONNX Runtime refuses it, or shifts windows, or takes it for 0
            )
        attributes["auto_pad"] = auto
        if auto != "VALID":
            return attributes, kernel, [-(-n // s) for n, s in zip(sizes, strides, strict=True)]
    for axis, (n, reach) in enumerate(zip(sizes, reaches, strict=True)):
        if how == "auto" and n < reach:
            raise Impossible
        while n + pads[axis] + pads[axis + rank] < reach:
            pads[axis + net.upto(1) * rank] += 1
    if how != "auto" and any(pads):
        attributes["pads"] = pads
    out = [(n + pads[i] + pads[i + rank] - reaches[i]) // strides[i] + 1 for i, n in enumerate(sizes)]
    return attributes, kernel, out


def _check(net: Net, x: Real, sizes: Sequence[int]) -> None:
    if np.prod(sizes) > MOST or ("empty" in net.off and (x.empty or 0 in sizes)):
        raise Impossible


def conv(net: Net) -> None:
    """Of images, sequences or volumes; dense, in groups, of each channel by itself."""
    x = net.real(3, 4, 5, grid=net.chance(0.97))
    c = x.sizes[1]
    if c == 0:
        raise Impossible
    attributes, kernel, spatial = window(net, x.sizes[2:])
    groups, out = 1, net.pick([1, 2, 3, 4, 5, 8, 16, 17, 32])
    if net.chance(0.3):
        groups, out = c, c * net.pick([1, 1, 1, 2, 3])
    elif net.chance(0.25):
        groups = net.pick([g for g in range(1, c + 1) if c % g == 0])
        out = groups * net.pick([1, 2, 4])
    if "no_channels" not in net.off and net.chance(0.01) and groups == 1:
        out = 0
    sizes = [x.sizes[0], out, *spatial]
    _check(net, x, sizes)
    w, typical = net.weights((out, c // groups, *kernel), 0)
    spread = x.spread * typical * max(1.0, np.prod(kernel) * c / groups) ** 0.5
    third = net.bias(out, x, w, spread)
    if groups > 1 or net.chance(0.3):
        attributes["group"] = groups
    if net.chance(0.5):
        attributes["kernel_shape"] = kernel
    y = net.node("Conv", x.name, w, *third, **attributes)
    finish(net, net.add_value(y, sizes, spread), 1)


def conv_transpose(net: Net) -> None:
    x = net.real(4)
    c = x.sizes[1]
    if c == 0:
        raise Impossible
    kernel = [1 + net.upto(3), 1 + net.upto(3)]
    strides = [1 + net.upto(2), 1 + net.upto(2)]
    dilations = [1, 1] if net.chance(0.8) else [1 + net.upto(1), 2]
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [net.upto(1), net.upto(2), net.upto(2), net.upto(1)] if net.chance(0.5) else [0] * 4
    extra = (
        [net.upto(max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)]
        if net.chance(0.3)
        else [0, 0]
    )
    groups = c if net.chance(0.2) else 1
    out = net.pick([1, 2, 3, 8]) * groups
    spatial = [
        (x.sizes[2 + i] - 1) * strides[i] + reaches[i] + extra[i] - pads[i] - pads[i + 2] for i in range(2)
    ]
    sizes = [x.sizes[0], out, *spatial]
    if min(spatial) < ("empty" in net.off):
        raise Impossible
    _check(net, x, sizes)
    w, typical = net.weights((c, out // groups, *kernel), 1 if groups == 1 or net.chance(0.2) else None)
    spread = x.spread * typical * max(1.0, np.prod(kernel) * c / groups) ** 0.5
    third = net.bias(out, x, w, spread) if groups == 1 else ()
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    if any(extra):
        attributes["output_padding"] = extra
    y = net.node("ConvTranspose", x.name, w, *third, **attributes)
    finish(net, net.add_value(y, sizes, spread), 1)


def pool(net: Net) -> None:
    """Windows of maxima and means; padding is smaller than the kernel, as ONNX Runtime asks."""
    x = net.real(3, 4, 5, grid=net.chance(0.95))
    op, axes = net.pick(["MaxPool", "AveragePool"]) if x.rank < 5 else "MaxPool", range(x.rank - 2)
    still = [1] * len(axes)
    attributes, kernel, spatial = window(net, x.sizes[2:], 4)
    dilations = attributes["dilations"]
    if op == "AveragePool" and (net.opset < 19 or net.chance(0.8)):
        dilations = attributes["dilations"] = still
        if net.opset < 19:
            del attributes["dilations"]
    if dilations != still and "auto_pad" in attributes:
        raise Impossible  # ONNX Runtime pads as if there were no dilations
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if "auto_pad" not in attributes:
        pads = [
            min(p, k - 1)
            for p, k in zip(attributes.get("pads", 2 * len(axes) * [0]), kernel * 2, strict=True)
        ]
        attributes["pads"] = pads
        room = [x.sizes[2 + i] + pads[i] + pads[i + len(axes)] - reaches[i] for i in axes]
        if min(room) < 0:
            raise Impossible
        spatial = [room[i] // attributes["strides"][i] + 1 for i in axes]
        if net.chance(0.4):
            attributes["ceil_mode"] = 1
            spatial = _ceil(x.sizes[2:], pads, room, attributes["strides"])
    if op == "AveragePool" and net.chance(0.5):
        attributes["count_include_pad"] = 1
    sizes = [*x.sizes[:2], *spatial]
    _check(net, x, sizes)
    y = net.node(op, x.name, kernel_shape=kernel, **attributes)
    net.end(net.add_value(y, sizes, x.spread, x.grid), 0.9 if op == "AveragePool" else 0.5)


def _ceil(
    sizes: Sequence[int], pads: Sequence[int], room: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """Positions rounded up; the last window must begin before the padding behind the image."""
    counts = []
    for n, before, r, s in zip(sizes, pads, room, strides, strict=False):
        count = -(-r // s) + 1
        counts.append(count - 1 if (count - 1) * s >= n + before else count)
    return counts


def whole(net: Net) -> None:
    """Global pools."""
    x = net.real(4)
    _check(net, x, [1])
    if x.empty:
        raise Impossible
    y = net.node(net.pick(["GlobalAveragePool", "GlobalMaxPool"]), x.name)
    net.end(net.add_value(y, [*x.sizes[:2], 1, 1], x.spread, x.grid), 0.9)


def resize(net: Net) -> None:
    x = net.real(4)
    scales = np.float32([1, 1, net.pick([2.0, 0.5, 1.0, 3.0, 1.5]), net.pick([2.0, 1.0, 0.7])])
    sizes = [int(np.floor(np.float32(n) * s)) for n, s in zip(x.sizes, scales, strict=True)]
    if 0 in sizes[1:] and not x.empty:
        raise Impossible
    if sizes != [int(np.floor(n * float(s))) for n, s in zip(x.sizes, scales, strict=True)]:
        raise Impossible  # 10 * 0.7f: ONNX's shape inference says 6, ONNX Runtime makes 7
    _check(net, x, sizes)
    attributes = {
        "mode": "nearest" if net.chance(0.8) else net.pick(["linear", "cubic"]),
        "coordinate_transformation_mode": net.pick(
            ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
        ),
        "nearest_mode": net.pick(["floor", "round_prefer_floor", "round_prefer_ceil", "ceil"]),
    }
    if net.chance(0.7):
        y = net.node("Resize", x.name, "", net.constant(scales), **attributes)
    else:
        y = net.node("Resize", x.name, "", "", net.ints(*sizes), **attributes)
        if x.sizes[0] != sizes[0] or net.chance(0.5):
            raise Impossible
    net.end(net.add_value(y, sizes, x.spread, x.grid), 0.6)


def depth(net: Net) -> None:
    """DepthToSpace, SpaceToDepth."""
    x = net.real(4)
    n, c, h, w = x.sizes
    if c % 4 == 0 and c and net.chance(0.6):
        y = net.node("DepthToSpace", x.name, blocksize=2, mode=net.pick(["DCR", "CRD"]))
        sizes = [n, c // 4, 2 * h, 2 * w]
    elif h % 2 == w % 2 == 0:
        y, sizes = net.node("SpaceToDepth", x.name, blocksize=2), [n, 4 * c, h // 2, w // 2]
    else:
        raise Impossible
    _check(net, x, sizes)
    net.end(net.add_value(y, sizes, x.spread, x.grid), 0.5)


def linear(net: Net) -> None:
    """MatMul with a weight, and what adds a bias."""
    x = net.real(2, 3, 4, grid=net.chance(0.95))
    k = x.sizes[-1]
    out = net.pick([1, 2, 3, 8, 15, 16, 33])
    if k == 0 or np.prod(x.sizes) > MOST:
        raise Impossible
    w, typical = net.weights((k, out), 1)
    spread = x.spread * typical * k**0.5
    y = net.node("MatMul", x.name, w)
    if net.chance(0.6):
        operands = [y, net.floats_of((out,), spread)]
        y = net.node("Add", *(operands if net.chance(0.5) else operands[::-1]))
    finish(net, net.add_value(y, [*x.sizes[:-1], out], spread), x.rank - 1)


def dynamic(net: Net) -> None:
    """A product with one dynamic range for all of its input, as ONNX Runtime's quantize_dynamic writes it."""
    x = net.real(2, 3, 4)
    k, out = x.sizes[-1], net.pick([1, 3, 8, 16, 33])
    if k == 0 or np.prod(x.sizes) > MOST:
        raise Impossible
    dtype, count = net.pick(["int8", "uint8"]), net.pick([(), (out,)])
    limits = np.iinfo(dtype)
    w = net.constant(net.rng.integers(limits.min, limits.max + 1, (k, out)).astype(dtype))
    zero = net.constant(net.rng.integers(limits.min, limits.max + 1, count).astype(dtype))
    typical = net.rng.uniform(0.2, 1.0)
    scale = net.constant((net.rng.uniform(0.5, 1.0, count) * typical / 128).astype(np.float32))
    codes, x_scale, x_zero = net.node("DynamicQuantizeLinear", x.name, outputs=3)
    zeros = [x_zero, zero][: 1 + net.upto(1)]
    sums = net.node("Cast", net.node("MatMulInteger", codes, w, *zeros), to=onnx.TensorProto.FLOAT)
    scales = net.node("Mul", *([x_scale, scale] if net.chance(0.7) else [scale, x_scale]))
    spread = x.spread * typical * k**0.5
    y = net.node("Mul", *([sums, scales] if net.chance(0.7) else [scales, sums]))
    if net.chance(0.5):
        y = net.node("Add", y, net.floats_of((out,), spread))
    finish(net, net.add_value(y, [*x.sizes[:-1], out], spread), x.rank - 1)


def gemm(net: Net) -> None:
    x = net.real(2, grid=net.chance(0.95))
    k, out = x.sizes[1], net.pick([1, 2, 5, 10, 16, 31])
    if k == 0:
        raise Impossible
    attributes: dict[str, Any] = {}
    if net.chance(0.5):
        attributes["transB"] = 1
    w, typical = net.weights((out, k) if attributes else (k, out), 0 if attributes else 1)
    if net.chance(0.2):
        attributes["alpha"] = net.pick([0.5, -1.0, 2.0])
    if net.chance(0.2):
        attributes["beta"] = net.pick([0.0, 0.5, 2.0])
    spread = x.spread * typical * k**0.5
    name = x.name
    if net.chance(0.15):
        name, attributes["transA"] = net.node("Transpose", name, perm=[1, 0]), 1
    y = net.node("Gemm", name, w, *net.bias(out, x, w, spread), **attributes)
    finish(net, net.add_value(y, [x.sizes[0], out], spread * 2), 1)


def product(net: Net) -> None:
    """Two activations: scores with a scale, a mask or a GELU behind, or a weighted sum."""
    a = net.real(3, 4, grid=net.chance(0.95))
    b = net.like(a.sizes) if net.chance(0.7) else net.real(a.rank, grid=True)
    if a.sizes[:-2] != b.sizes[:-2]:
        raise Impossible
    right = b.name
    if a.sizes[-1] == b.sizes[-1] and (net.chance(0.7) or a.sizes[-1] != b.sizes[-2]):
        perm = [*range(b.rank - 2), b.rank - 1, b.rank - 2]
        right, columns = net.node("Transpose", right, perm=perm), b.sizes[-2]
    elif a.sizes[-1] == b.sizes[-2]:
        columns = b.sizes[-1]
    else:
        raise Impossible
    spread = a.spread * b.spread * max(1, a.sizes[-1]) ** 0.5
    sizes = [*a.sizes[:-1], columns]
    if np.prod(sizes) > MOST or ("empty" in net.off and (a.empty or b.empty)):
        raise Impossible
    y = net.add_value(net.node("MatMul", a.name, right), sizes, spread)
    if net.chance(0.4) and columns:
        scaled = net.node(net.pick(["Mul", "Div"]), y.name, net.number(net.pick([0.25, 8.0, 0.125])))
        mask = scaled
        if net.chance(0.3):
            mask = net.node("Add", scaled, net.floats_of((1, columns), 1.0))
        weights = net.add_pair(net.add_value(net.node("Softmax", mask, axis=-1), sizes, 1.0))
        net.keep(weights)
        if net.chance(0.6) and b.sizes[-2] == columns:
            y = net.add_value(net.node("MatMul", weights.name, b.name), [*sizes[:-1], b.sizes[-1]], b.spread)
            net.end(y)
        return
    finish(net, y, y.rank - 1)


def heads(net: Net) -> None:
    """Tokens cut into heads."""
    x = net.real(3)
    n, t, e = x.sizes
    count = net.pick([h for h in (1, 2, 4) if e % h == 0])
    y = net.node("Reshape", x.name, net.ints(0, t, count, e // count))
    y = net.node("Transpose", y, perm=[0, 2, 1, 3])
    net.keep(net.add_value(y, [n, count, t, e // count], x.spread, x.grid))


def layer_norm(net: Net) -> None:
    x = net.real(2, 3, 4)
    e = x.sizes[-1]
    if e == 0:
        raise Impossible
    name = x.name
    if net.chance(0.5):
        name = net.node("Add", name, net.like(x.sizes).name)
    more = (
        (net.floats_of((e,), 1.0), net.floats_of((e,), 1.0))
        if net.chance(0.7)
        else (net.floats_of((e,), 1.0),)
    )
    if net.chance(0.7):
        y = net.node("LayerNormalization", name, *more, axis=-1, epsilon=net.pick([1e-5, 1e-3]))
    else:  # as exporters decompose it
        axes = {"axes": [-1]} if net.opset < 18 else {}
        at = () if net.opset < 18 else (net.ints(-1),)
        centred = net.node("Sub", name, net.node("ReduceMean", name, *at, **axes))
        square = net.node("Pow", centred, net.number(2.0))
        variance = net.node("Add", net.node("ReduceMean", square, *at, **axes), net.number(1e-5))
        y = net.node("Mul", net.node("Div", centred, net.node("Sqrt", variance)), more[0])
        if len(more) > 1:
            y = net.node("Add", y, more[1])
    net.end(net.add_value(y, x.sizes, 2.0))


STEPS: tuple[tuple[float, Callable[[Net], None]], ...] = (
    (5.0, conv), (0.8, conv_transpose), (1.6, pool), (0.6, whole), (0.7, resize), (0.4, depth), (2.5, linear),
    (1.0, gemm), (0.5, dynamic), (1.6, product), (0.7, heads), (0.8, layer_norm), (0.4, norm_alone),
)  # fmt: skip
"""Steps with their frequencies."""

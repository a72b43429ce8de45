"""Random graphs whose sizes are all free: moves, windows and products behind arithmetic with sizes.

    python -m tests.fuzz.free_sizes --first 0 --count 500

Each graph runs with several sets of sizes. Engine and reference give the same bits, on one plan; ONNX Runtime
gives the same sizes and integers, and floats that rounding alone tells apart.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import IntactError

NAMES = ("batch", "rows", "columns", "depth")
SETS = 4
"""Sets of sizes that a graph runs with."""
KNOWN = ("0 elements of 0, want elements of some", "a window no larger than the padded input")
"""Refusals that stand: images without pixels that become larger, and windows over them (N27)."""
CHANNELS = 3
"""Of most images; the second size of others is free."""
MOST = 9
"""The largest free size; computed ones are held below three times as much."""
T = TypeVar("T")
_FLOAT, _INT = TensorProto.FLOAT, TensorProto.INT64


@dataclass
class SizeNet:
    """A graph that grows: values of known rank, and numbers that are made of their sizes.

    Attributes:
        reals: Float values and their ranks.
        numbers: Integers without axes.
    """

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    reals: list[tuple[str, int]] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def constant(self, array: object, dtype: type = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{name}", **attributes))
        return name

    def real(self, *ranks: int) -> tuple[str, int]:
        """Choose a value of one of these ranks."""
        return self.pick([x for x in self.reals if not ranks or x[1] in ranks] or self.reals[:1])

    def vector(self, *numbers: str) -> str:
        """Join numbers to a vector."""
        front = self.constant([0])
        parts = [self.node("Unsqueeze", n, front) for n in numbers]
        return self.node("Concat", *parts, axis=0)

    def sizes_of(self, x: str, rank: int) -> list[str]:
        """Read all sizes of a value, one by one or at once."""
        shape = self.node("Shape", x)
        return [self.node("Gather", shape, self.constant(i - rank * self.chance(0.2))) for i in range(rank)]

    def size(self, low: int = 0) -> str:
        """Choose a number, with few more operators, held between `low` and three times `MOST`."""
        number = self.numbers[-1 - int(self.rng.integers(min(len(self.numbers), 6)))]
        for _ in range(int(self.rng.integers(3))):
            number = compute(self, number)
        clamped = self.node("Max", number, self.constant(low))
        return self.node("Min", clamped, self.constant(3 * MOST)) if self.chance(0.9) else clamped


def compute(net: SizeNet, n: str) -> str:
    """Compute a number from another one, in integers or as exporters do in floats."""
    other = net.pick(net.numbers) if net.chance(0.3) else net.constant(int(net.pick([1, 2, 2, 3, 4, -1])))
    kind = net.pick(["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Neg", "float", "where", "vector"])
    if kind == "Neg":
        return net.node("Neg", n)
    if kind in ("Div", "Mod"):
        return net.node(kind, n, net.constant(int(net.pick([1, 2, 3, 4]))))
    if kind == "where":
        equal = net.node("Equal", n, net.constant(int(net.pick([-1, 0, 2]))))
        return net.node("Where", equal, other, n)
    if kind == "vector":
        pair = net.vector(n, other)
        if net.chance(0.5):
            return net.node("ReduceProd", pair, keepdims=0)
        return net.node("Gather", pair, net.constant(int(net.pick([0, -2]))))
    if kind == "float":
        real = net.node("Cast", n, to=_FLOAT)
        for _ in range(1 + net.chance(0.3)):
            factor = net.constant(net.pick([2.0, 3.0, 0.5, 1.5, 0.7, 7.0, 1 / 3]), np.float32)
            real = net.node(net.pick(["Div", "Mul", "Mul", "Add"]), real, factor)
        rounded = net.node(net.pick(["Floor", "Ceil", "Identity"]), real)
        return net.node("Cast", rounded, to=_INT)
    return net.node(kind, n, other)


def flatten(net: SizeNet) -> None:
    """Join two axes, and now and then part them again."""
    x, rank = net.real(2, 3, 4)
    if rank < 2:
        return
    sizes, place = net.sizes_of(x, rank), int(net.rng.integers(rank - 1))
    product = net.node("Mul", sizes[place], sizes[place + 1])
    target = net.vector(*sizes[:place], product, *sizes[place + 2 :])
    net.reals.append((net.node("Reshape", x, target, allowzero=1), rank - 1))
    if net.chance(0.5):
        moved = net.node("Relu", net.reals[-1][0])
        net.reals.append((net.node("Reshape", moved, net.vector(*sizes), allowzero=1), rank))
    net.numbers.append(product)


def turn(net: SizeNet) -> None:
    x, rank = net.real()
    order = [int(n) for n in net.rng.permutation(rank)]
    net.reals.append((net.node("Transpose", x, perm=order), rank))
    net.numbers.extend(net.sizes_of(net.reals[-1][0], rank)[:1])


def cut(net: SizeNet) -> None:
    x, rank = net.real()
    axis = int(net.rng.integers(rank))
    start, end = net.size(), net.size()
    if net.chance(0.3):
        start = net.node("Neg", start)
    hop = net.constant([int(net.pick([1, 1, 2]))])
    ends = net.vector(start), net.vector(end), net.constant([axis]), hop
    net.reals.append((net.node("Slice", x, *ends), rank))
    net.numbers.append(net.sizes_of(net.reals[-1][0], rank)[axis])


def widen(net: SizeNet) -> None:
    x, rank = net.real()
    sizes = net.sizes_of(x, rank)
    if net.chance(0.5):
        raised = net.node("Unsqueeze", x, net.constant([0]))
        target = net.vector(net.size(), *sizes)
        net.reals.append((net.node("Expand", raised, target), rank + 1))
    else:
        counts = [net.constant(int(net.rng.integers(1, 3))) for _ in sizes]
        net.reals.append((net.node("Tile", x, net.vector(*counts)), rank))


def surround(net: SizeNet) -> None:
    x, rank = net.real()
    widths = [net.constant(int(net.rng.integers(3))) for _ in range(2 * rank)]
    place = int(net.rng.integers(2 * rank))
    widths[place] = net.node("Min", net.size(), net.constant(5))
    net.reals.append((net.node("Pad", x, net.vector(*widths), mode="constant"), rank))


def join(net: SizeNet) -> None:
    x, rank = net.real()
    axis = int(net.rng.integers(rank))
    moved = net.node("Neg", x)
    parts = [x, moved, x][: int(net.rng.integers(2, 4))]
    net.reals.append((net.node("Concat", *parts, axis=axis - rank * net.chance(0.3)), rank))
    net.numbers.append(net.sizes_of(net.reals[-1][0], rank)[axis])


def mask(net: SizeNet) -> None:
    """Zero what lies behind a place, as attention and sequences do."""
    x, rank = net.real()
    length = net.sizes_of(x, rank)[-1]
    zero, step = net.constant(0), net.constant(1)
    places = net.node("Range", zero, length, step)
    inside = net.node(net.pick(["Less", "Greater", "LessOrEqual"]), places, net.size())
    net.reals.append((net.node("Where", inside, x, net.constant(0.25, np.float32)), rank))


def fill(net: SizeNet) -> None:
    x, rank = net.real()
    if net.chance(0.5):
        shape = net.node("Shape", x)
        value = helper.make_tensor("", _FLOAT, [1], [float(net.rng.uniform(-1, 1))])
        filled = net.node("ConstantOfShape", shape, value=value)
        net.reals.append((net.node("Add", x, filled), rank))
    else:
        factor = net.node("Cast", net.size(1), to=_FLOAT)
        net.reals.append((net.node(net.pick(["Div", "Mul"]), x, factor), rank))


def resize(net: SizeNet) -> None:
    x, rank = net.real(4)
    if rank != 4:
        return
    sizes = net.sizes_of(x, 4)
    mode = net.pick(["nearest", "linear"])
    options = {"coordinate_transformation_mode": net.pick(["asymmetric", "half_pixel"]), "mode": mode}
    if mode == "nearest":
        options["nearest_mode"] = "floor"
    if net.chance(0.5):
        scales = net.constant([1, 1, net.pick([2, 0.5, 1.5]), net.pick([1, 2, 3])], np.float32)
        net.reals.append((net.node("Resize", x, "", scales, **options), 4))
    else:
        target = net.vector(*sizes[:2], net.size(1), net.size(1))
        net.reals.append((net.node("Resize", x, "", "", target, **options), 4))
    net.numbers.append(net.sizes_of(net.reals[-1][0], 4)[2])


def window(net: SizeNet) -> None:
    x, rank = net.real(4)
    if rank != 4:
        return
    options = {"kernel_shape": [2, 2], "strides": [net.pick([1, 2]), 1], "pads": [0, 0, 1, 1]}
    if net.chance(0.5):
        options["ceil_mode"] = 1
    net.reals.append((net.node(net.pick(["MaxPool", "AveragePool"]), x, **options), 4))
    net.numbers.append(net.sizes_of(net.reals[-1][0], 4)[2])


def product(net: SizeNet) -> None:
    x, rank = net.real(2, 3, 4)
    if rank < 2:
        return
    order = [*range(rank - 2), rank - 1, rank - 2]
    y = net.node("MatMul", x, net.node("Transpose", x, perm=order))
    net.reals.append((net.node("Softmax", y, axis=-1) if net.chance(0.5) else y, rank))


def reduce(net: SizeNet) -> None:
    x, rank = net.real(2, 3, 4)
    if rank < 2:
        return
    axis, keepdims = int(net.rng.integers(rank)), net.chance(0.5)
    y = net.node(net.pick(["ReduceSum", "ReduceMax"]), x, net.constant([axis]), keepdims=int(keepdims))
    net.reals.append((y, rank if keepdims else rank - 1))


def halve(net: SizeNet) -> None:
    x, rank = net.real()
    axis = int(net.rng.integers(rank))
    size = net.sizes_of(x, rank)[axis]
    names = [f"s{len(net.nodes)}a", f"s{len(net.nodes)}b"]
    inputs, options = [x], {"axis": axis, "name": names[0]}
    if net.chance(0.5):
        options["num_outputs"] = 2
    else:
        front = net.node("Div", size, net.constant(2))
        inputs.append(net.vector(front, net.node("Sub", size, front)))
    net.nodes.append(helper.make_node("Split", inputs, names, **options))
    net.reals.append((net.pick(names), rank))


STEPS: tuple[Callable[[SizeNet], None], ...] = (
    flatten, turn, cut, widen, surround, join, mask, fill, resize, window, product, reduce, halve,
)  # fmt: skip


def make(seed: int) -> tuple[onnx.ModelProto, list[tuple[int, ...]]]:
    """Return the graph of a seed and the sets of sizes that it runs with."""
    net = SizeNet(np.random.default_rng([seed, 37]))
    rank = int(net.pick([2, 3, 4, 4]))
    net.reals.append(("x", rank))
    net.numbers.extend(net.sizes_of("x", rank))
    for _ in range(int(net.rng.integers(1, 7))):
        if max(r for _, r in net.reals) > 5:
            break
        net.pick(STEPS)(net)
    outputs = list(dict.fromkeys([net.reals[-1][0], net.pick(net.reals)[0], net.numbers[-1]]))
    outputs = [net.node("Identity", name) if name == "x" else name for name in outputs]
    ports = {name: (_INT if name == net.numbers[-1] else _FLOAT, None) for name in outputs}
    dims: list[int | str] = [*NAMES[:rank]]
    if rank == 4 and net.chance(0.6):
        dims[1] = CHANNELS
    proto = onnx_model(net.nodes, {"x": dims}, ports, net.constants, opset=18, ir_version=8)
    least = 0 if net.chance(0.2) else 1
    sizes = net.rng.integers(least, MOST + 1, (SETS, rank))
    if CHANNELS in dims:
        sizes[:, 1] = CHANNELS
    return proto, [tuple(some) for some in sizes.tolist()]


def check(seed: int) -> str:
    """Run the graph of a seed; returns "native", "again" where sizes lower it again, or "invalid".

    Raises:
        AssertionError: The engine, the reference or ONNX Runtime differ, or the engine refuses a sound graph.
    """
    proto, sets = make(seed)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # what it raises has no public base
        return "invalid"
    rng = np.random.default_rng([seed, 38])
    plan = lower(proto)
    engine = intact.compile(plan, threads=1 + seed % 2)
    ran = 0
    for sizes in (*sets, sets[0]):
        feeds = {"x": rng.standard_normal(sizes).astype(np.float32)}
        wanted = _outputs_of(session, feeds)
        try:
            outputs = engine.run(feeds)
        except IntactError as error:
            is_known = any(words in str(error) for words in KNOWN)
            assert wanted is None or is_known, f"seed {seed}, {sizes}: refused: {error}"
            continue
        if wanted is None:
            continue
        ran += 1
        if not plan.model:
            values = evaluate(plan, feeds)
            for name, array in outputs.items():
                np.testing.assert_array_equal(array, values[name], f"seed {seed}, {sizes}, {name}: reference")
        for (name, array), want in zip(outputs.items(), wanted, strict=True):
            np.testing.assert_allclose(
                array, want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max(initial=0)),
                err_msg=f"seed {seed}, {sizes}, {name}: ONNX Runtime",
            )  # fmt: skip
    return ("again" if plan.model else "native") if ran else "invalid"


def _outputs_of(session: ort.InferenceSession, feeds: dict[str, NDArray[np.float32]]) -> list[NDArray] | None:
    try:
        return [np.asarray(array) for array in session.run(None, feeds)]
    except Exception:  # what it raises has no public base
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: dict[str, int] = {}
    for seed in range(args.first, args.first + args.count):
        try:
            status = check(seed)
        except Exception as error:
            status = "FAULT"
            print(f"{seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        counts[status] = counts.get(status, 0) + 1
    print(f"{args.count} graphs from {args.first}: {counts}")
    return int("FAULT" in counts)


if __name__ == "__main__":
    sys.exit(main())

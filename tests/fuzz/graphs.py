"""Random Q/DQ graphs, each the work of one integer.

    case = make(7)
    case.proto              # an ONNX model
    make(7, steps=(0, 2))   # without its second step: what is random in a step is the seed's and the step's

Sizes 0 and 1, grids biased to their ends, activations on one side of 0, odd windows, weights at their limits,
composites as exporters write them. Nobody promises that a graph is valid: ONNX Runtime decides (`check`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from tests.fuzz import blocks, dynamic_ranges, elements, layers, recurrent
from tests.fuzz.net import Impossible, Net

FEATURES = frozenset({"empty", "no_channels", "one_sided", "rare_blocks", "wild"})
"""Features that `off` may leave out.

Without "rare_blocks" half of all steps have weights in blocks or dynamic ranges.
"""

_OF_BLOCKS = (*blocks.STEPS, *dynamic_ranges.STEPS)
_STEPS = (*layers.STEPS, *elements.STEPS, *recurrent.STEPS, *_OF_BLOCKS)
_WEIGHTS = np.array([weight for weight, _ in _STEPS])
_BLOCKS = np.array([step in _OF_BLOCKS for step in _STEPS])
_BLOCKS_OFTEN = np.where(_BLOCKS, _WEIGHTS / _WEIGHTS[_BLOCKS].sum(), _WEIGHTS / _WEIGHTS[~_BLOCKS].sum())
BATCHES = (2, 1, 3, 0, 5)


@dataclass(frozen=True)
class Case:
    """A graph and what it is run with.

    Attributes:
        proto: The model.
        sizes: What free sizes are, run by run.
        tame: Scales are such as calibrations give: float evaluations must agree (N33).
        log: What its steps were, those that did nothing as "-".
    """

    proto: onnx.ModelProto
    sizes: tuple[dict[str, int], ...] = ()
    tame: bool = False
    log: tuple[str, ...] = field(default=())

    def file_bytes(self) -> bytes:
        """The model as a file that `read` makes the same case of."""
        proto = onnx.ModelProto.FromString(self.proto.SerializeToString())
        note = {"sizes": self.sizes, "tame": self.tame, "log": self.log}
        onnx.helper.set_model_props(proto, {"fuzz": json.dumps(note)})
        return proto.SerializeToString()


def read(data: bytes) -> Case:
    """A case from a file of `store`."""
    proto = onnx.ModelProto.FromString(data)
    note = json.loads(next(p.value for p in proto.metadata_props if p.key == "fuzz"))
    return Case(proto, tuple(note["sizes"]), bool(note["tame"]), tuple(note["log"]))


def make(seed: int, *, steps: Sequence[int] | None = None, off: frozenset[str] = frozenset()) -> Case:
    """The graph of a seed.

    Args:
        seed: Any integer of 0 or more.
        steps: Which of its steps; None: all.
        off: Names of `FEATURES` that are left out.
    """
    rng = np.random.default_rng([seed, 2**20])
    wild = bool(rng.random() < 0.25) and "wild" not in off
    net = Net(int(rng.choice([17, 19, 20, 21, 21, 21])), wild, off)
    net.rng = rng
    free = _begin(net)
    count = int(rng.integers(1, 9))
    log = []
    for step in range(count) if steps is None else steps:
        log.append(_step(net, seed, step))
    net.rng = np.random.default_rng([seed, 2**20 + 1])
    sizes = tuple({"n": int(n), **free} for n in (2, *net.rng.permutation(BATCHES[1:])[:2]))
    if "empty" in net.off:
        sizes = tuple(size for size in sizes if size["n"])
    return Case(net.proto(*_outputs(net)), sizes, not wild, tuple(log))


def _step(net: Net, seed: int, step: int) -> str:
    """One step; several tries, since values at hand may not allow the first."""
    net.rng = np.random.default_rng([seed, step])
    weights = _BLOCKS_OFTEN if "rare_blocks" in net.off else _WEIGHTS
    for _ in range(8):
        _, act = _STEPS[net.rng.choice(len(_STEPS), p=weights / weights.sum())]
        remaining = len(net.nodes), len(net.constants), len(net.floats)
        try:
            with np.errstate(over="ignore"):  # of scales that no network has
                act(net)
        except Impossible:
            for result, n in zip((net.nodes, net.constants, net.floats), remaining, strict=True):
                del result[n:]
            continue
        return act.__name__
    return "-"


def _begin(net: Net) -> dict[str, int]:
    """The inputs: images, tokens or rows, as floats or as codes; returns the free sizes but the batch."""
    kind = net.pick(["image"] * 6 + ["tokens"] * 3 + ["sequence", "rows", "volume"])
    small = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12] + [0] * ("empty" not in net.off and net.chance(0.15))
    channels = net.pick([1, 2, 3, 4, 4, 8, 8, 16, 17])
    sizes = {
        "image": [channels, net.pick(small), net.pick(small)],
        "tokens": [net.pick(small), net.pick([1, 4, 8, 16, 16, 24])],
        "sequence": [channels, net.pick(small)],
        "volume": [channels, *(min(net.pick(small), 5) for _ in range(3))],
        "rows": [net.pick([1, 7, 16, 33])],
    }[kind]
    free = {}
    dims: list[int | str] = ["n", *sizes]
    if net.chance(0.12) and kind != "rows":
        name = {"image": "h", "tokens": "t", "sequence": "l", "volume": "w"}[kind]
        place = {"tokens": 1, "volume": 4}.get(kind, 2)
        free[name], dims[place] = sizes[place - 1], name
    _input(net, "x", dims, [2, *sizes])
    if net.chance(0.2):
        _input(net, "x2", dims, [2, *sizes])
    return free


def _input(net: Net, name: str, dims: list[int | str], sizes: list[int]) -> None:
    """One input: floats behind a pair, codes, or floats that something is done to before."""
    spread = float(net.rng.uniform(1, 6))
    grid = net.grid(spread)
    if net.chance(0.15):
        codes = net.input(name, dims, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(grid.dtype)))
        x = net.dequantize(codes, grid.scale, grid.zero, grid.dtype)
        net.keep(net.add_value(x, sizes, spread, grid))
        return
    x = net.add_value(net.input(name, dims), sizes, spread)
    if net.chance(0.15):
        x = net.add_value(net.node(net.pick(["Relu", "Relu", "Neg"]), x.name), sizes, spread)
    net.keep(net.add_pair(x, grid) if net.chance(0.95) else x)


def _outputs(net: Net) -> list[str]:
    """Choose the graph's outputs: the last value, now and then codes and values in between."""
    last = net.floats[-1].name
    outputs = [last]
    producer = {o: n for n in net.nodes for o in n.output}
    if last in producer and producer[last].op_type == "DequantizeLinear" and net.chance(0.3):
        outputs = [producer[last].input[0]]
    for real in net.floats[:-1]:
        if net.chance(0.1) and real.name in producer:
            outputs.append(real.name)
    if last not in producer and outputs == [last]:
        outputs = [net.node("Identity", last)]
    return list(dict.fromkeys(outputs))

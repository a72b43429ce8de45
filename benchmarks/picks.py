"""Operators that read and write where numbers say, in the engine, beside ONNX Runtime: one operator each.

    python benchmarks/picks.py [--rounds 100] [--threads 1] [--only TopK]

Both run in turn; printed are the least times of all rounds in microseconds, copies into and out of the
engine included, and of the engine's steps alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper
from peers import in_turns

import intact

TOP_K = [
    ((1, 67200), 300, "float32"),
    ((1, 67200), 5000, "float32"),
    ((8400,), 8400, "float32"),
    ((80, 8400), 100, "float32"),
    ((4096, 64), 2, "float32"),
    ((512, 1000), 5, "float32"),
    ((1, 32000), 50, "float32"),
    ((1, 67200), 300, "int64"),
]
"""The shape, how many along the last axis, and of what."""
ROWS = [((1, 8400, 84), 300), ((1, 256, 160, 160), 2000), ((32000, 64), 4096), ((100000, 4), 50000)]
"""A table whose first axes tuples of two index, and how many tuples; ONNX Runtime has no int8 there."""
GATHERS = [
    ((8, 400, 64), 1, 300),
    ((1, 256, 80, 80), 3, 80),
    ((64, 32, 100), 2, 50),
    ((16, 1000, 4), 1, 500),
    ((50000, 1), 0, 20000),
    ((30000, 256), 0, 512),
]
"""The shape, the axis, and how many along it, by indices that are computed."""
ELEMENTS = [((1, 8400, 80), 1, 300), ((64, 1000), 1, 500), ((1000, 64), 0, 500)]
"""The shape, the axis, and how many along it: ScatterElements and GatherElements."""
RNG = np.random.default_rng(0)

Case = tuple[str, onnx.ModelProto, dict[str, np.ndarray]]


def numbers(dtype: str, *shape: int) -> np.ndarray:
    if dtype == "float32":
        return RNG.standard_normal(shape).astype(np.float32)
    return RNG.integers(-100, 100, shape).astype(dtype)


def case(what: str, op: str, feeds: dict[str, np.ndarray], outputs: dict[str, str], **output: Any) -> Case:
    def info(name: str, dtype: str, shape: tuple[int, ...] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = helper.make_graph(
        [helper.make_node(op, [*feeds], [*outputs], **output)], op,
        [info(name, x.dtype.name, x.shape) for name, x in feeds.items() if name != "k"],
        [info(name, dtype, None) for name, dtype in outputs.items()],
        [onnx.numpy_helper.from_array(x, name) for name, x in feeds.items() if name == "k"],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    constants = {name: x for name, x in feeds.items() if name != "k"}
    return f"{op} {what}", onnx.shape_inference.infer_shapes(model), constants


def cases() -> Iterator[Case]:
    for shape, k, dtype in TOP_K:
        feeds = {"x": numbers(dtype, *shape), "k": np.array([k])}
        yield case(f"{list(shape)} {dtype}, {k}", "TopK", feeds, {"y": dtype, "places": "int64"})
    for shape, count in ROWS:
        sizes = shape[:2] if len(shape) > 2 else shape[:1]
        rows = RNG.permutation(np.prod(sizes))[:count]
        index = np.stack(np.unravel_index(rows, sizes), -1)
        x, what = numbers("float32", *shape), f"{list(shape)}, {count} tuples of {len(sizes)}"
        yield case(what, "GatherND", {"x": x, "index": index}, {"y": "float32"})
        updates = numbers("float32", len(rows), *shape[len(sizes) :])
        for reduction in ("none", "add"):
            feeds = {"x": x, "index": index, "updates": updates}
            yield case(f"{what}, {reduction}", "ScatterND", feeds, {"y": "float32"}, reduction=reduction)
    for shape, axis, count in GATHERS:
        index = RNG.integers(0, shape[axis], count)
        for dtype in ("float32", "int8"):
            feeds = {"x": numbers(dtype, *shape), "index": index}
            what = f"{list(shape)} {dtype}, {count} of axis {axis}"
            yield case(what, "Gather", feeds, {"y": dtype}, axis=axis)
    for shape, axis, count in ELEMENTS:
        result = (*shape[:axis], count, *shape[axis + 1 :])
        index = np.argsort(RNG.random(shape), axis=axis).take(np.arange(count), axis=axis)
        feeds, what = (
            {"x": numbers("float32", *shape), "index": index},
            f"{list(shape)}, {count} of axis {axis}",
        )
        yield case(what, "GatherElements", feeds, {"y": "float32"}, axis=axis)
        feeds = {**feeds, "updates": numbers("float32", *result)}
        yield case(what, "ScatterElements", feeds, {"y": "float32"}, axis=axis)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="operators whose name begins so")
    options = parser.parse_args()
    expected = ort.SessionOptions()
    expected.intra_op_num_threads = options.threads
    print(f"{'us: INTact':>11} {'its steps':>10} {'ORT':>9} {'INTact/ORT':>11}")
    for what, model, feeds in cases():
        if not what.startswith(options.only):
            continue
        engine = intact.compile(model, threads=options.threads)
        session = ort.InferenceSession(model.SerializeToString(), expected)
        mine, other = in_turns(engine, session, feeds, options.rounds)
        steps = []
        for _ in range(max(1, options.rounds // 10)):
            steps.append(sum(t.seconds for t in engine.profile(feeds, runs=1).timings))
        alone = min(steps)
        times = f"{mine * 1e6:11.1f} {alone * 1e6:10.1f} {other * 1e6:9.1f}"
        print(f"{times} {mine / other:11.2f}  {what}", flush=True)


if __name__ == "__main__":
    main()

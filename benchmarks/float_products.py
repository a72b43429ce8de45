"""Products and convolutions of floats in the engine, beside ONNX Runtime: one operator, one thread.

    python benchmarks/float_products.py [--rounds 200] [--threads 1]

Both run in turn; printed are the least times of all rounds, copies into and out of the engine included, and
of the engine's steps alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from peers import in_turns

import intact

PRODUCTS = [
    (128, 384, 384),
    (128, 384, 1536),
    (128, 1536, 384),
    (512, 512, 512),
    (1000, 64, 64),
    (1, 512, 512),
]
"""[m, k] by a weight [k, n]."""
SCORES = [(12, 128, 32, 128), (12, 128, 128, 32), (4, 256, 64, 256)]
"""[batch, m, k] by [batch, k, n], both made at run time."""
CONVS = [
    ((1, 64, 56, 56), 64, 3, 1, 1), ((1, 256, 14, 14), 256, 3, 1, 1), ((1, 256, 28, 28), 64, 1, 1, 1),
    ((1, 3, 224, 224), 32, 3, 2, 1), ((1, 240, 28, 28), 240, 5, 1, 240), ((1, 128, 1000), 128, 3, 1, 1),
    ((1, 64, 8, 28, 28), 64, 3, 1, 1), ((1, 64, 8, 28, 28), 64, 3, 1, 64),
]  # fmt: skip
"""The input, output channels, kernel, stride, groups."""
RNG = np.random.default_rng(0)

Case = tuple[str, onnx.ModelProto, dict[str, np.ndarray], int]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def case(
    what: str, op: str, feeds: dict[str, np.ndarray], products: int, *weights: np.ndarray, **output: Any
) -> Case:
    constants = {f"w{i}": w for i, w in enumerate(weights)}
    graph = helper.make_graph(
        [helper.make_node(op, [*feeds, *constants], ["y"], **output)], op,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, name) for name, w in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return what, onnx.shape_inference.infer_shapes(model), feeds, products


def cases() -> Iterator[Case]:
    for m, k, n in PRODUCTS:
        yield case(f"[{m}, {k}] x [{k}, {n}]", "MatMul", {"a": floats(m, k)}, m * k * n, floats(k, n))
    for batch, m, k, n in SCORES:
        feeds = {"a": floats(batch, m, k), "b": floats(batch, k, n)}
        yield case(f"{batch} times [{m}, {k}] x [{k}, {n}]", "MatMul", feeds, batch * m * k * n)
    for shape, out, kernel, stride, groups in CONVS:
        rank, pad = len(shape) - 2, kernel // 2
        w = floats(out, shape[1] // groups, *[kernel] * rank)
        places = np.prod([(n + 2 * pad - kernel) // stride + 1 for n in shape[2:]])
        output = {"pads": [pad] * 2 * rank, "strides": [stride] * rank, "group": groups}
        what = f"{list(shape)} to {out}, kernel {kernel}, stride {stride}, groups {groups}"
        yield case(what, "Conv", {"x": floats(*shape)}, int(places) * w.size, w, floats(out), **output)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    expected = ort.SessionOptions()
    expected.intra_op_num_threads = options.threads
    print(f"{'us: INTact':>11} {'its steps':>10} {'GMAC/s':>7} {'ORT':>9} {'INTact/ORT':>11}")
    for what, model, feeds, products in cases():
        engine = intact.compile(model, threads=options.threads)
        session = ort.InferenceSession(model.SerializeToString(), expected)
        mine, other = in_turns(engine, session, feeds, options.rounds)
        steps = []
        for _ in range(options.rounds // 10):
            profile = engine.profile(feeds, runs=1)
            steps.append(sum(t.seconds for t in profile.timings if t.kind.startswith("float_")))
        alone = min(steps)
        rate = products / alone / 1e9
        times = f"{mine * 1e6:11.1f} {alone * 1e6:10.1f} {rate:7.1f} {other * 1e6:9.1f}"
        print(f"{times} {mine / other:11.2f}  {what}")


if __name__ == "__main__":
    main()

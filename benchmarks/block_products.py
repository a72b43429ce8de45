"""Time products with block weights alone, beside ONNX Runtime's MatMulNBits, one row to many.

Prints for each shape the time of a product, GMAC/s, and the bytes of weights read a second, beside what a
plain read of memory reaches. Each product runs in turn with its peer's; least of several turns.

    python benchmarks/block_products.py [--rows 1 16 128] [--sizes 576 2048 4096] [--threads 1] [--bits 4]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from intact.engine.engine import Engine
from intact.engine.lower import lower


def nbits_model(k: int, n: int, bits: int, block: int) -> onnx.ModelProto:
    """Build a MatMulNBits of accuracy level 4 with random weights; x float32 [rows, k]."""
    rng = np.random.default_rng(k + n)
    blocks = -(-k // block)
    constants = {
        "w": rng.integers(0, 256, (n, blocks, block * bits // 8), np.uint8),
        "s": rng.uniform(0.001, 0.02, (n, blocks)).astype(np.float32),
    }
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], name="product", domain="com.microsoft",
        K=k, N=n, bits=bits, block_size=block, accuracy_level=4,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", n])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def session_of(model: onnx.ModelProto, threads: int) -> ort.InferenceSession:
    """Open ONNX Runtime on a model."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def least_seconds(runs: list[Callable[[], object]], turns: int, threads: int = 1) -> list[float]:
    """Return the least time of a call of each, in turn: CPU time of one thread, wall time of several."""
    clock = time.process_time if threads == 1 else time.perf_counter
    least = [float("inf")] * len(runs)
    for _ in range(turns):
        for index, run in enumerate(runs):
            calls, begin = 0, clock()
            while (elapsed := clock() - begin) < 0.05:
                run()
                calls += 1
            least[index] = min(least[index], elapsed / max(calls, 1))
    return least


def read_bandwidth() -> float:
    """Return the bytes a second at which one thread sums memory far larger than caches."""
    memory = np.ones(2**25, np.float64)
    return memory.nbytes / least_seconds([memory.sum], 5)[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16, 128, 512])
    parser.add_argument("--sizes", type=int, nargs="+", default=[576, 2048, 4096])
    parser.add_argument("--bits", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    bandwidth = read_bandwidth()
    print(f"a thread reads {bandwidth / 1e9:.1f} GB/s")
    print("| bits | k x n | rows | INTact us | GMAC/s | GB/s of weights | ONNX Runtime us | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for bits in options.bits:
        for size in options.sizes:
            model = nbits_model(size, size, bits, options.block)
            engine, peer = Engine(lower(model), threads=options.threads), session_of(model, options.threads)
            for rows in options.rows:
                x = {"x": np.random.default_rng(rows).normal(0, 1, (rows, size)).astype(np.float32)}
                runs = [partial(engine.run, x), partial(peer.run, None, x)]
                ours, theirs = least_seconds(runs, options.turns, options.threads)
                weight_bytes = size * size * (bits / 8 + 4 / options.block)
                print(
                    f"| {bits} | {size} x {size} | {rows} | {ours * 1e6:.0f} "
                    f"| {rows * size**2 / ours / 1e9:.0f} | {weight_bytes / ours / 1e9:.1f} "
                    f"| {theirs * 1e6:.0f} | {ours / theirs:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

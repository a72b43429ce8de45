"""Time products with block weights alone, beside ONNX Runtime's MatMulNBits and OpenVINO, one row to many.

Prints for each shape the time of a product, GMAC/s, and the bytes of weights read a second, beside what a
plain read of memory reaches. Each product runs in turn with its peer's; least of several turns. OpenVINO
runs behind them on one thread, in a process of an interpreter that has it (`block_products_openvino.py`).
llama.cpp's wheels run whole models alone: `language.py` compares those.

    python benchmarks/block_products.py [--rows 1 16 128] [--sizes 576 2048 4096] [--threads 1] [--bits 4]
        [--peer-python .peers/bin/python]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

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


def openvino_seconds(python: str, model: onnx.ModelProto, rows: list[int]) -> dict[int, float]:
    """Return OpenVINO's least CPU time of a call for each number of rows; nothing without its interpreter."""
    if not python:
        return {}
    weight, scales = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    attributes = {attribute.name: attribute.i for attribute in model.graph.node[0].attribute}
    bits = attributes["bits"]
    codes = (
        weight if bits == 8 else np.stack([weight & 15, weight >> 4], axis=-1).reshape(*weight.shape[:2], -1)
    )
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "codes.npz"
        np.savez(archive, codes=codes, scales=scales, bits=bits)
        script = Path(__file__).with_name("block_products_openvino.py")
        words = [python, str(script), str(archive), "--rows", *map(str, rows)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    times = json.loads(done.stdout.splitlines()[-1])
    return {int(count): seconds for count, (seconds, _) in times.items()}


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
    parser.add_argument("--peer-python", default="", help="an interpreter with openvino")
    options = parser.parse_args()
    bandwidth = read_bandwidth()
    print(f"a thread reads {bandwidth / 1e9:.1f} GB/s")
    print("| bits | k x n | rows | INTact us | GMAC/s | GB/s of weights | ONNX Runtime us | OpenVINO us |")
    print("|---|---|---|---|---|---|---|---|")
    for bits in options.bits:
        for size in options.sizes:
            model = nbits_model(size, size, bits, options.block)
            engine, peer = Engine(lower(model), threads=options.threads), session_of(model, options.threads)
            openvino = openvino_seconds(options.peer_python, model, options.rows)
            for rows in options.rows:
                x = {"x": np.random.default_rng(rows).normal(0, 1, (rows, size)).astype(np.float32)}
                runs = [partial(engine.run, x), partial(peer.run, None, x)]
                ours, theirs = least_seconds(runs, options.turns, options.threads)
                weight_bytes = size * size * (bits / 8 + 4 / options.block)
                print(
                    f"| {bits} | {size} x {size} | {rows} | {ours * 1e6:.0f} "
                    f"| {rows * size**2 / ours / 1e9:.0f} | {weight_bytes / ours / 1e9:.1f} "
                    f"| {theirs * 1e6:.0f} | {openvino.get(rows, float('nan')) * 1e6:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Time products with block weights in OpenVINO, in an interpreter that has it: a peer of `block_products.py`.

    python benchmarks/block_products_openvino.py CODES.npz --rows 1 16 128

The archive holds `codes` uint8 [n, blocks, block] without a sign, `scales` float32 [n, blocks] and `bits`.
Prints a line of JSON: for each number of rows the CPU time of a call in seconds, and how far the output is
from the float product, relative to its largest value.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op


def product_model(codes: np.ndarray, scales: np.ndarray, bits: int) -> tuple[ov.Model, list[np.ndarray]]:
    """Build ``x @ ((codes - zero) * scales).T``; returns the arrays that its constants refer to, too."""
    n, blocks, block = codes.shape
    dtype, zero = (ov.Type.u4, 0x88) if bits == 4 else (ov.Type.u8, 0x80)
    packed = codes.reshape(-1) if bits == 8 else codes.reshape(-1, 2)[:, 0] | codes.reshape(-1, 2)[:, 1] << 4
    arrays = [np.ascontiguousarray(packed), np.full(n * blocks * bits // 8, zero, np.uint8)]
    weight, zeros = (
        op.convert(ov.op.Constant(ov.Tensor(array, ov.Shape(shape), dtype)), "f32")
        for array, shape in zip(arrays, ([n, blocks, block], [n, blocks, 1]), strict=True)
    )
    floats = op.multiply(op.subtract(weight, zeros), op.constant(scales[..., None]))
    matrix = op.reshape(floats, np.array([n, blocks * block], np.int64), False)
    x = op.parameter([-1, blocks * block], np.float32)
    return ov.Model([op.result(op.matmul(x, matrix, False, True))], [x]), arrays


def least_seconds(run: Any, turns: int) -> float:
    """Return the least CPU time of a call, over several turns."""
    least = float("inf")
    for _ in range(turns):
        calls, begin = 0, time.process_time()
        while (elapsed := time.process_time() - begin) < 0.05:
            run()
            calls += 1
        least = min(least, elapsed / max(calls, 1))
    return least


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("codes", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with np.load(options.codes) as archive:
        codes, scales, bits = archive["codes"], archive["scales"], int(archive["bits"])
    model, arrays = product_model(codes, scales, bits)
    n, blocks, block = codes.shape
    config = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "DYNAMIC_QUANTIZATION_GROUP_SIZE": block}
    request = ov.Core().compile_model(model, "CPU", config).create_infer_request()
    floats = ((codes.astype(np.float32) - 2 ** (bits - 1)) * scales[..., None]).reshape(n, blocks * block)
    result = {}
    for rows in options.rows:
        x = np.random.default_rng(rows).normal(0, 1, (rows, blocks * block)).astype(np.float32)
        y, expected = request.infer({0: x})[0], x @ floats.T
        apart = float(np.abs(y - expected).max() / np.abs(expected).max())
        result[rows] = least_seconds(lambda x=x: request.infer({0: x}), options.turns), apart
    del arrays
    print(json.dumps(result))


if __name__ == "__main__":
    main()

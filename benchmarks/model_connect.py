"""Runs the quantization formats of NVIDIA's TensorRT-Model-Connect in three types, against NumPy.

    python benchmarks/model_connect.py TensorRT-Model-Connect

Each format writes the matrix product of a linear layer into a network, as its builders do. The network is
built, serialized, read and run; the output is compared with the product of the floats, within the error that
codes of the format bring, and its type with that of the activation.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import intact.trt as trt
from intact.trt.alias import alias
from intact.trt.base.itensor import pack, unpack

FORMATS = {"fp8": 0.06, "int8_sq": 0.02, "int4_awq": 0.15, "nvfp4": 0.25, "w4a8": 0.15}
"""The most that a product may differ from that of the floats, as a share of its norm."""
TYPES = (trt.float32, trt.float16, trt.bfloat16)
ROWS, WIDTH, OUTPUTS, BLOCK = 5, 256, 64, 128


def scales_of(name: str, x: np.ndarray, w: np.ndarray, kind: Any) -> Any:
    """Return the scales that its calibration would find: per tensor, channel or block of the weights."""
    activation = float(np.abs(x).max())
    if name in ("int4_awq", "w4a8"):
        weight: Any = np.abs(w.reshape(WIDTH // BLOCK, BLOCK, OUTPUTS)).max(1) / 7
        return kind(input_scale=activation / 127, weight_scale=weight, block_size=BLOCK)
    if name == "int8_sq":
        return kind(input_scale=activation / 127, weight_scale=np.abs(w).max(0) / 127)
    if name == "fp8":
        return kind(input_scale=activation / 448, weight_scale=float(np.abs(w).max()) / 448)
    return kind(input_scale=activation / 6, weight_scale=1.0, block_size=16)


def outcome(name: str, dtype: trt.DataType) -> str:
    """Build and run one format in one type; return "" where it is right, and else what is wrong."""
    from tensorrt_model_connect.families.llama import graph_ops
    from tensorrt_model_connect.quantization import LayerScales, get_format

    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((ROWS, WIDTH), (WIDTH, OUTPUTS)))
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    data = network.add_input("x", dtype, x.shape)
    stored = np.float32 if dtype is trt.bfloat16 else dtype.numpy
    y = get_format(name).wrap_matmul(
        network, data, w.astype(stored), scales_of(name, x, w, LayerScales),
        lhs_width=WIDTH, rhs_width=OUTPUTS, dtype=stored, graph_ops=graph_ops,
    )  # fmt: skip
    y.name = "y"
    network.mark_output(y)
    serialized = builder.build_serialized_network(network, builder.create_builder_config())
    if serialized is None:
        return "not built"
    engine = trt.Runtime(builder.logger).deserialize_cuda_engine(serialized)
    if engine.get_tensor_dtype("y") is not dtype:
        return f"the output is {engine.get_tensor_dtype('y')}"
    memory, output = pack(x.astype(dtype.numpy), dtype), np.zeros(dtype.bytes_of(ROWS * OUTPUTS), np.uint8)
    context = engine.create_execution_context()
    context.set_tensor_address("x", memory.ctypes.data)
    context.set_tensor_address("y", output.ctypes.data)
    if not context.execute_async_v3(0):
        return "not run"
    result = unpack(output, dtype, ROWS * OUTPUTS).astype(np.float32).reshape(ROWS, OUTPUTS)
    error = np.linalg.norm(result - x @ w) / np.linalg.norm(x @ w)
    return "" if error < FORMATS[name] else f"differs by {error:.3f} of its norm"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a checkout")
    sys.path.insert(0, str(parser.parse_args().folder / "python"))
    alias(force=True)
    passed = 0
    for name in FORMATS:
        for dtype in TYPES:
            try:
                wrong = outcome(name, dtype)
            except Exception as error:  # a crash is an outcome, too
                wrong = f"{type(error).__name__}: {error}"
            passed += not wrong
            print(f"{name:10}{dtype.name:6}{wrong or 'right'}")
    print(f"{len(FORMATS) * len(TYPES)} formats and types: {passed} right")


if __name__ == "__main__":
    main()

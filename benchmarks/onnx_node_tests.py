"""ONNX's node tests through TensorRT's parser: parse, build, serialize, read, run, compare.

    python benchmarks/onnx_node_tests.py [--match conv] [--table FILE]

The models and their numbers come with the onnx package. Each test runs as a script of TensorRT 10 does:
shapes are set, inputs have the types that the engine says, every output has an allocator. Floats of 32 bits
may differ by the test's own tolerance, and by 1e-3 at least; those of 16 bits and fewer by 2e-2.
Prints how many passed, and what became of the others. ``--table`` writes one line for each test.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import intact.trt as trt
from intact.trt.base.itensor import pack, unpack


class Log(trt.ILogger):
    """Keeps the errors."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def log(self, severity: Any, msg: str) -> None:
        if severity <= trt.Logger.ERROR:
            self.errors.append(msg)


class Allocator(trt.IOutputAllocator):
    """Memory that is as large as asked for."""

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        self.memory = np.zeros(size, np.uint8)
        return int(self.memory.ctypes.data)

    def notify_shape(self, tensor_name: str, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)

    def array(self, dtype: trt.DataType) -> np.ndarray:
        """Return what was written."""
        count = int(np.prod(self.shape, dtype=np.int64))
        return unpack(self.memory[: dtype.bytes_of(count)], dtype, count).reshape(self.shape)


def outcome(case: Any) -> tuple[str, str]:
    """Run one test; what became of it, and what was said about it."""
    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    if not trt.OnnxParser(network, log).parse(case.model.SerializeToString()):
        return "refused by the parser", log.errors[0]
    serialized = builder.build_serialized_network(network, builder.create_builder_config())
    if serialized is None:
        return "not built", log.errors[-1]
    engine = trt.Runtime(log).deserialize_cuda_engine(serialized)
    inputs, outputs = case.data_sets[0]
    feeds = dict(zip((value.name for value in case.model.graph.input), inputs, strict=False))
    results = run(engine, feeds)
    if results is None:
        return "not run", log.errors[-1]
    for value, wanted in zip(case.model.graph.output, outputs, strict=False):
        if value.name in results and (wrong := difference(case, results[value.name], wanted)):
            return "wrong", wrong
    return "passed", ""


def run(engine: trt.ICudaEngine, feeds: dict[str, Any]) -> dict[str, np.ndarray] | None:
    """Run on host memory; None where an input or the run was refused."""
    context = engine.create_execution_context()
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    buffers, allocators = [], {}
    for name in names:
        dtype = engine.get_tensor_dtype(name)
        if engine.get_tensor_mode(name) is trt.TensorIOMode.OUTPUT:
            allocators[name] = Allocator()
            context.set_output_allocator(name, allocators[name])
            continue
        array = np.array(_array(feeds[name]), dtype.numpy, order="C")
        memory = pack(array, dtype) if array.size else np.zeros(1, np.uint8)
        buffers.append(memory)
        if not context.set_input_shape(name, array.shape):
            return None
        context.set_tensor_address(name, memory.ctypes.data)
    if not context.execute_async_v3(0):
        return None
    return {name: a.array(engine.get_tensor_dtype(name)) for name, a in allocators.items()}


def difference(case: Any, result: np.ndarray, wanted: Any) -> str:
    """Return how a result differs from what the test wants; "" where it does not."""
    wanted = _array(wanted)
    dtype = np.dtype(np.float32) if wanted.dtype == np.float64 else wanted.dtype  # as TensorRT's parser
    if result.shape != wanted.shape or result.dtype != dtype:
        return f"{result.dtype} of {result.shape}, want {dtype} of {wanted.shape}"
    narrow = dtype.itemsize < 4 and dtype.kind not in "iub"
    tolerances = (2e-2, 2e-2) if narrow else (max(case.rtol, 1e-3), max(case.atol, 1e-4))
    a, b = result.astype(np.float64), wanted.astype(np.float64)
    if np.allclose(a, b, *tolerances, equal_nan=True):
        return ""
    return f"differs by {np.nanmax(np.abs(a - b))}"


def _array(value: Any) -> np.ndarray:
    """Return the array that a test gives: types that NumPy lacks come as messages."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def tests(match: str) -> Iterator[Any]:
    """Yield the tests whose names hold `match`."""
    from onnx.backend.test.loader import load_model_tests

    yield from (case for case in load_model_tests(kind="node") if match in case.name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--match", default="", help="only tests whose names hold this")
    parser.add_argument("--table", type=Path, help="a file for one line of each test")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, lines = Counter[str](), []
    for case in tests(options.match):
        try:
            state, text = outcome(case)
        except Exception as error:  # a crash is an outcome, too
            state, text = "raised", f"{type(error).__name__}: {error}"
        counts[state] += 1
        lines.append(f"{case.name}\t{state}\t{text[:300]!r}")
        print(f"\r{sum(counts.values())} ", end="", file=sys.stderr, flush=True)
    if options.table:
        options.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(file=sys.stderr)
    print(f"{sum(counts.values())} node tests: {counts['passed']} passed")
    for state, count in counts.most_common():
        print(f"{count:6} {state}")


if __name__ == "__main__":
    main()

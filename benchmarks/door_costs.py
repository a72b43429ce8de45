"""Time of runs that `intact.ort` watches beside ONNX Runtime's, and of the engine's with and without a guard.

    python benchmarks/door_costs.py [--runs 2000]

Contenders take turns on the same inputs, all different; printed are medians of the ratios of their times.
Each network has linear layers: `width` inputs and outputs, for `rows` rows.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import intact.ort

NETWORKS = {"tiny": (16, 1), "small": (128, 8), "medium": (512, 64)}
"""(width, rows)."""
LAYERS = 4
NEVER = 10**9


def network(width: int) -> bytes:
    """Return a model of linear layers with Relu between them."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((width, width)).astype(np.float32) / width**0.5 for _ in range(LAYERS)]
    nodes = []
    for index in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"a{index}"], name=f"n{index}"))
        nodes.append(helper.make_node("Relu", [f"a{index}"], [f"x{index + 1}"], name=f"r{index}"))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info(f"x{LAYERS}", onnx.TensorProto.FLOAT, ["n", width])],
        [numpy_helper.from_array(weight, f"w{index}") for index, weight in enumerate(weights)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def ratio(runs: list[Any], inputs: list[np.ndarray], count: int) -> float:
    """Return the median of the second run's time by the first's, each on an input that it has not seen."""
    ratios = []
    for turn, x in zip(range(count), itertools.cycle(inputs), strict=False):
        seconds = [0.0, 0.0]
        for which in (0, 1) if turn % 2 else (1, 0):
            x = x + np.float32(1e-6 * (turn + 1))
            begin = time.perf_counter()
            runs[which](None, {"x0": x})
            seconds[which] = time.perf_counter() - begin
        ratios.append(seconds[1] / seconds[0])
    return median(ratios)


def session_of(model: bytes, **rules: Any) -> onnxruntime.InferenceSession:
    """Return a session of one thread that the door looks at by these rules."""
    intact.ort.policy(**rules)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options)


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    count = parser.parse_args().runs
    plain_run = onnxruntime.InferenceSession.run
    intact.ort.install()
    rng = np.random.default_rng(1)
    for name, (width, rows) in NETWORKS.items():
        inputs = [rng.standard_normal((rows, width)).astype(np.float32) for _ in range(64)]
        model = network(width)
        with tempfile.TemporaryDirectory() as folder:
            base = {"cache": Path(folder), "accuracy": 0.0, "speed": 0.0}
            session = session_of(model, watch=NEVER, **base)
            watched = ratio([plain_run.__get__(session), session.run], inputs, count)
            engines = []
            for guard in (NEVER, 200):
                session = session_of(model, watch=4, guard=guard, **base)
                for x in itertools.islice(itertools.cycle(inputs), 200_000):
                    session.run(None, {"x0": x})
                    if intact.ort.status()[-1].state != "watching":
                        break
                intact.ort.wait()
                assert intact.ort.status()[-1].state == "int8", intact.ort.status()[-1].why
                engines.append(session.run)
            guarded = ratio(engines, inputs, count)
        print(
            f"{name} ({width} x {rows}): watched {watched:.3f} of ONNX Runtime's time,"
            f" guarded {guarded:.3f} of the engine's",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Times one model in one engine, in its own process: ``python time_engine.py <engine> <file>`` prints JSON.

It imports no more than that engine, so that another interpreter, which has the engine, can run it too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Ready = tuple[Callable[[], Any], float]
"""Pair of a callable that runs the model once and the seconds that loading took."""


def main() -> None:
    """Time the model, and print one line of JSON."""
    args = _arguments()
    before = resident("VmRSS")
    ready, load = ENGINES[args.engine](args)
    for _ in range(args.warm):
        ready()
    times: list[float] = []
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < args.least:
        start = time.perf_counter()
        ready()
        times.append(time.perf_counter() - start)
    print(json.dumps({
        "ms": 1e3 * min(times), "median_ms": 1e3 * float(np.median(times)), "runs": len(times),
        "load_ms": 1e3 * load, "peak_mb": resident("VmHWM"), "before_mb": before,
    }))  # fmt: skip


def resident(field: str) -> float | None:
    """Return VmRSS or VmHWM of this process in MB; None where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines[field].split()[0]) / 1e3


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1, help="the size of every open first dimension")
    parser.add_argument("--size", type=int, default=1, help="that of every other open dimension")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--least", type=int, default=10, help="runs at least")
    parser.add_argument("--warm", type=int, default=3, help="runs that do not count")
    parser.add_argument("--data", type=Path, help="an .npz file: an array for every input, by its name")
    parser.add_argument("--float32", action="store_true", help="OpenVINO takes no shorter floats by itself")
    return parser.parse_args()


def _noise(dtype: Any, shape: tuple[int, ...]) -> Any:
    """Return random inputs; integers stay small, because they may be indices."""
    rng = np.random.default_rng(0)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    numbers = rng.integers(0, 2, shape)
    return numbers.astype(str).astype(object) if np.dtype(dtype).kind == "O" else numbers.astype(dtype)


def _feeds(ports: dict[str, tuple[Any, Any]], args: argparse.Namespace) -> dict[str, Any]:
    """Return the arrays of --data, or noise; `ports`: dtype and declared shape of each input."""
    if args.data is None:
        return {name: _noise(dtype, _input_sizes(shape, args)) for name, (dtype, shape) in ports.items()}
    with np.load(args.data, allow_pickle=False) as data:
        if missing := [name for name in ports if name not in data]:
            raise SystemExit(f"{args.data}: no array '{missing[0]}'")
        return {name: data[name] for name in ports}


def _input_sizes(shape: Any, args: argparse.Namespace) -> tuple[int, ...]:
    return tuple(
        dim if isinstance(dim, int) and dim > 0 else args.size if axis else args.batch
        for axis, dim in enumerate(shape)
    )


def _intact(args: argparse.Namespace) -> Ready:
    import intact

    start = time.perf_counter()
    engine = intact.compile(args.file, threads=args.threads)
    load = time.perf_counter() - start
    feeds = _feeds({port.name: (np.dtype(port.dtype), port.shape) for port in engine.inputs}, args)
    start = time.perf_counter()
    engine.prepare({name: array.shape for name, array in feeds.items()}, feeds)
    return lambda: engine.run(feeds), load + time.perf_counter() - start


def _onnxruntime(args: argparse.Namespace) -> Ready:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
    options.log_severity_level = 4
    start = time.perf_counter()
    session = ort.InferenceSession(args.file, options, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - start
    kinds = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16",
             "tensor(string)": "object"}  # fmt: skip
    ports = {
        port.name: (
            np.dtype(kinds.get(port.type) or port.type.removeprefix("tensor(").removesuffix(")")),
            port.shape,
        )
        for port in session.get_inputs()
    }
    feeds = _feeds(ports, args)
    return lambda: session.run(None, feeds), load


def _openvino(args: argparse.Namespace) -> Ready:
    import openvino as ov

    core, start = ov.Core(), time.perf_counter()
    model = core.read_model(args.file)
    ports = {}
    for port in model.inputs:
        dims = [-1 if dim.is_dynamic else dim.get_length() for dim in port.get_partial_shape()]
        ports[port.any_name] = (port.get_element_type().to_dtype(), dims)
    load = time.perf_counter() - start
    feeds = _feeds(ports, args)
    start = time.perf_counter()
    model.reshape({name: list(array.shape) for name, array in feeds.items()})
    settings = {"INFERENCE_NUM_THREADS": args.threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
    if args.float32:
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    return lambda: request.infer(feeds), load + time.perf_counter() - start


ENGINES: dict[str, Callable[[argparse.Namespace], Ready]] = {
    "intact": _intact,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


if __name__ == "__main__":
    # The folder of this file holds modules whose names are those of others (report, check, ...).
    sys.path.pop(0)
    main()

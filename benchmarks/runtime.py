"""Measures a program that ships a model, on the C library and on the peers: cold start, run and memory.

    INTACT_SHARED=<the shared data> python benchmarks/runtime.py --peer-python PYTHON --litert-python PYTHON

One image, one thread, int8 weights and activations. Every repetition is a process, with the library
loaded and the model's file in the page cache. Cold start is the CPU time from opening the file to the first
answer, less that of a later run. Memory is what the process grew by, from before the library was loaded until
it has answered. Of INTact, the packed weights and the arena stand beside it. The plan was packed for this
machine. CPU time is what other work on the machine changes least.

The peers' interpreters have openvino and nncf, and litert-torch; without one of them its rows are left out.
LiteRT's model takes codes, which are made once; the others quantize their input in every run.
Targets: a cold start of at most 15 ms; memory of at most packed weights, arena and 3 MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine_files
import numpy as np

NETS = ("resnet50", "mobilenetv2")
MEASURES = ("cold start", "run", "memory")
Run = Callable[[], Any]
Result = dict[str, float]


def resident() -> float:
    """Megabytes of memory that the process has now."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(load: Callable[[], Callable[[], Run]]) -> Result:
    """Measure one runtime.

    Args:
        load: Loads the library, and returns what opens the model and returns a run.
    """
    before = resident()
    open_model = load()
    start = time.process_time()
    run = open_model()
    run()
    first = time.process_time() - start
    memory = resident() - before
    times = []
    for _ in range(30):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    best = min(times)
    return {"cold start": 1e3 * (first - best), "run": 1e3 * best, "memory": memory}


def c_library(path: Path, x: np.ndarray) -> Result:
    """Measure the C library, through ctypes."""
    import ctypes as c

    from intact import get_library
    from intact.engine.compare import c_interface as capi

    place, plan, session = get_library(), c.c_void_p(), c.c_void_p()
    error = capi.CErrorText(c.sizeof(capi.CErrorText))
    options = capi.COptions(c.sizeof(capi.COptions), 1, None)
    shape = capi.CShape(x.ndim, (c.c_int64 * capi.MAX_RANK)(*x.shape))
    y = np.zeros((1, 1000), np.float32)
    inputs, outputs = (c.c_void_p * 1)(x.ctypes.data), (c.c_void_p * 1)(y.ctypes.data)
    workspace: list[int] = []

    def load() -> Callable[[], Run]:
        library = capi.load_library(place)

        def call(name: str, *arguments: Any) -> None:
            if getattr(library, f"intact_{name}")(*arguments, c.byref(error)) != capi.OK:
                raise SystemExit(error.text.decode())

        def open_model() -> Run:
            call("open", str(path).encode(), c.byref(options), c.byref(plan))
            call("session_new", plan, c.byref(session))
            call("prepare", session, c.byref(shape))
            workspace.append(library.intact_workspace_bytes(session))
            return lambda: call("run", session, inputs, outputs)

        return open_model

    result = measure(load)
    return result | {"packed": packed_bytes(path) / 2**20, "arena": workspace[0] / 2**20}


def packed_bytes(path: Path) -> int:
    """Bytes of the packed weights in a plan file."""
    from intact.engine.files import container

    arrays = container.read(path)[1]
    return sum(array.nbytes for name, array in arrays.items() if name.startswith("packed/"))


def onnx_runtime(path: Path, x: np.ndarray) -> Result:
    """Measure ONNX Runtime, through its Python module."""

    def load() -> Callable[[], Run]:
        import onnxruntime as ort

        def open_model() -> Run:
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = 1, 4
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return lambda: session.run(None, {"input": x})

        return open_model

    return measure(load)


def openvino_runtime(path: Path, x: np.ndarray) -> Result:
    """Measure OpenVINO, through its Python module."""

    def load() -> Callable[[], Run]:
        import openvino as ov

        def open_model() -> Run:
            config = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
            request = ov.Core().compile_model(path, "CPU", config).create_infer_request()
            return lambda: request.infer([x])

        return open_model

    return measure(load)


def litert_runtime(path: Path, x: np.ndarray) -> Result:
    """Measure LiteRT with XNNPACK, through its Python module."""

    def load() -> Callable[[], Run]:
        from ai_edge_litert.interpreter import Interpreter

        def open_model() -> Run:
            interpreter = Interpreter(str(path), num_threads=1)
            interpreter.allocate_tensors()
            (port,) = interpreter.get_input_details()
            scale, zero_point = port["quantization"]
            codes = np.clip(np.rint(x / np.float32(scale)) + zero_point, -128, 127).astype(port["dtype"])

            def run() -> None:
                interpreter.set_tensor(port["index"], codes)
                interpreter.invoke()

            return run

        return open_model

    return measure(load)


def by_litert(net: str, path: Path) -> None:
    """Convert a network to LiteRT, and quantize it by its makers' quantizer: int8, weights per channel."""
    import litert_torch
    import torch
    from ai_edge_quantizer import quantizer, recipe

    sys.path.insert(0, str(engine_files.shared_nets()))
    import nets

    float_path = path.with_suffix(".float.tflite")
    sample = (torch.zeros(1, *engine_files.shape_of(net)),)
    litert_torch.convert(nets.make(net).eval(), sample).export(str(float_path))
    by_recipe = quantizer.Quantizer(str(float_path), recipe.static_wi8_ai8())
    signature = [{"args_0": x} for x in engine_files.noise(net, engine_files.BATCHES)]
    statistics = by_recipe.calibrate({"serving_default": signature})
    by_recipe.quantize(statistics).export_model(str(path), overwrite=True)


RUNTIMES = {
    "INTact, C library": (".plan", c_library),
    "ONNX Runtime": (".ort-qop.onnx", onnx_runtime),
    "OpenVINO": (".nncf.xml", openvino_runtime),
    "LiteRT": (".tflite", litert_runtime),
}
"""Runtimes by name: the suffix of the model, and what measures it."""


def interpreter_of(runtime: str, args: argparse.Namespace) -> str:
    """Return the interpreter that has a runtime."""
    places = {"OpenVINO": args.peer_python, "LiteRT": args.litert_python}
    return str(places.get(runtime, sys.executable))


def in_process(python: str, *words: str) -> str:
    """Run this script; returns what it printed, or nothing where it failed."""
    done = subprocess.run([python, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"left out: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}", file=sys.stderr)
        return ""
    return done.stdout.splitlines()[-1] if done.stdout else " "


def make_models(net: str, folder: Path, args: argparse.Namespace) -> None:
    """Make the files of a network that are not there yet."""
    engine_files.prepare(net, folder, args.peer_python)
    if not (folder / f"{net}.tflite").exists():
        in_process(args.litert_python, "--convert", net, "--folder", str(folder))


def report(net: str, folder: Path, args: argparse.Namespace) -> None:
    """Measure the runtimes in turn, and print the least of their figures."""
    results: dict[str, list[Result]] = {name: [] for name in RUNTIMES}
    for _ in range(args.repeat):
        for name, (suffix, _) in RUNTIMES.items():
            if not (path := folder / f"{net}{suffix}").exists():
                continue
            if printed := in_process(
                interpreter_of(name, args), "--one", name, "--net", net, str(path)
            ).strip():
                results[name].append(json.loads(printed))
    print(f"{f'{net}, batch 1, one thread':<32}{'cold start, ms':>16}{'run, ms':>10}{'memory, MB':>12}")
    for name, measured in results.items():
        if not measured:
            continue
        least = {key: min(result[key] for result in measured) for key in measured[0]}
        print(f"{name:<32}{least['cold start']:>16.1f}{least['run']:>10.2f}{least['memory']:>12.1f}")
        if "packed" in least:
            print(f"  packed weights {least['packed']:.1f} MB, arena {least['arena']:.1f} MB")


def main() -> None:
    """Measure every network, or one runtime in this process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    engine_files.add_options(parser)
    parser.set_defaults(nets=NETS)
    parser.add_argument("--litert-python", default=sys.executable, help="an interpreter with litert-torch")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--one", choices=RUNTIMES, help=argparse.SUPPRESS)
    parser.add_argument("--net", help=argparse.SUPPRESS)
    parser.add_argument("--convert", help=argparse.SUPPRESS)
    parser.add_argument("path", nargs="?", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(RUNTIMES[args.one][1](args.path, engine_files.noise(args.net, 1)[0])))
        return
    if args.convert:
        by_litert(args.convert, args.folder / f"{args.convert}.tflite")
        return
    if engine_files.shared_nets() is None and args.folder is None:
        print("benchmarks/runtime.py: INTACT_SHARED names no folder with nets.py; nothing done")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        for net in args.nets:
            make_models(net, folder, args)
            report(net, folder, args)


if __name__ == "__main__":
    main()

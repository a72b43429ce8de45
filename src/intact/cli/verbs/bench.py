"""``intact bench`` times models side by side, each in its own process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from intact.cli import time_engine
from intact.cli.printing import say, show_json, show_table, threads_in_words
from intact.cli.shared_options import COUNT, READ, AsJson, Threads, check_seconds
from intact.errors import QuantValueError
from intact.kernels import instructions

PEERS = ("onnxruntime", "openvino")


class Isa(StrEnum):
    """Names the instruction sets that engines can be restricted to (INTACT_MAX_ISA)."""

    AVX2 = "avx2"
    AVXVNNI = "avxvnni"
    AVX512 = "avx512"
    AMX = "amx"


ONEDNN_NAMES = {
    Isa.AVX2: "AVX2",
    Isa.AVXVNNI: "AVX2_VNNI",
    Isa.AVX512: "AVX512_CORE_VNNI",
    Isa.AMX: "AVX512_CORE_AMX",
}
"""The same for ONEDNN_MAX_CPU_ISA, which OpenVINO heeds. ONNX Runtime knows no limit."""


@dataclass(frozen=True)
class Case:
    """Describes one model in one engine.

    Attributes:
        engine: "intact" or one of `PEERS`.
        file: The model.
        python: The interpreter that has the engine.
        words: More arguments of `timing`.
        isa: The engine uses no instructions above these, if it can be told; None: all that the machine has.
    """

    engine: str
    file: Path
    python: str = sys.executable
    words: tuple[str, ...] = ()
    isa: Isa | None = None

    @property
    def has_limit(self) -> bool:
        """Return whether the engine heeds a limit on instruction sets and one is set."""
        return self.isa is not None and self.engine != "onnxruntime"

    def instructions(self) -> str:
        """Return the instructions that its int8 products may use."""
        if self.engine == "intact":
            return instructions("gemm", self.isa or "")
        return ONEDNN_NAMES[self.isa] if self.isa and self.has_limit else "all there are"

    def environment(self) -> dict[str, str]:
        """Return the environment of its process."""
        if self.isa is None:
            return dict(os.environ)
        return {**os.environ, "INTACT_MAX_ISA": self.isa, "ONEDNN_MAX_CPU_ISA": ONEDNN_NAMES[self.isa]}


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
        float, typer.Option(min=0.0, callback=check_seconds, help="How long one round of one case lasts.")
    ] = 2.0,
    rounds: Annotated[int, typer.Option(**COUNT, help="All cases take turns so many times.")] = 2,
    isa: Annotated[
        Isa | None,
        typer.Option(
            help="Use no instructions above these, as on an older machine; ONNX Runtime cannot be told."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time models on noise, or on the arrays of --data, and print the ratios to the first one.

    The fastest run counts, for other work on the machine only adds; the median stands beside it. Each case
    has a process of its own, and the cases take turns. Memory is the process's peak. Beside each model
    stand the instructions that its products of bytes may use.

    Examples:

    - `intact bench model.plan`
    - `intact bench model.int8.onnx model.onnx --peers --threads 1`
    - `intact bench model.plan --batch 8 --json`
    - `intact bench model.int8.onnx --peers --isa avx2`
    - `intact bench encoder.int8.onnx --data sentence.npz`
    """
    words = () if data is None else ("--data", str(data))
    cases = [Case("intact", model, words=words, isa=isa) for model in models]
    if peers:
        onnx = [model for model in models if model.suffix == ".onnx"]
        installed = [name for name in PEERS if importlib.util.find_spec(name) is not None]
        cases += [Case(name, model, words=words, isa=isa) for name in installed for model in onnx]
    count = available() if threads is None else threads
    results = measure(cases, threads=count, batch=batch, size=size, seconds=seconds, rounds=rounds)
    if as_json:
        rows = [
            {
                "engine": case.engine, "file": str(case.file), "instructions": case.instructions(), **result,
            }
            for case, result in zip(cases, results, strict=True)
        ]  # fmt: skip
        show_json({"threads": count, "batch": batch, "cases": rows})
        return
    table = [_cells(case, result, results[0]["ms"]) for case, result in zip(cases, results, strict=True)]
    figures = ("fastest, ms", "median, ms", "ratio", "load, ms", "peak MB")
    columns = ("model", "may use", *figures)
    show_table(f"batch {batch}, {threads_in_words(count)}", columns, table, figures=figures)
    if missing := [name for name in PEERS if peers and importlib.util.find_spec(name) is None]:
        say(f"not installed: {', '.join(missing)}")


def _cells(case: Case, result: dict[str, Any], first: float) -> tuple[str, ...]:
    peak = "" if result["peak_mb"] is None else f"{result['peak_mb']:.0f}"
    times = (f"{result['ms']:.2f}", f"{result['median_ms']:.2f}", f"{result['ms'] / first:.2f}")
    named = (f"{case.engine}: {case.file.name}", case.instructions())
    return *named, *times, f"{result['load_ms']:.0f}", peak


def available() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(cases: list[Case], *, rounds: int = 1, **settings: Any) -> list[dict[str, Any]]:
    """Run `time_engine` for each case; return the best of several rounds, in which the cases take turns."""
    best: list[dict[str, Any]] = [{} for _ in cases]
    for _ in range(rounds):
        for index, case in enumerate(cases):
            result = _run_case(case, settings)
            if not best[index] or result["ms"] < best[index]["ms"]:
                best[index] = result
    return best


def _run_case(case: Case, settings: dict[str, Any]) -> dict[str, Any]:
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [case.python, time_engine.__file__, case.engine, str(case.file), *words, *case.words],
        capture_output=True, text=True, check=False, env=case.environment(),
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["nothing"]
        raise QuantValueError(
            f"{case.engine}, file '{case.file}'", f"'{lines[-1]}'", "a model that runs",
            "leave it out, or give --batch and --size that it takes",
        )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result

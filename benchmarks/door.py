"""Runs packages that call onnxruntime and ship their weights, with and without `intact.ort`.

    python -m venv build/door-packages
    build/door-packages/bin/pip install . $(python benchmarks/door.py --requirements)
    python benchmarks/door.py --python build/door-packages/bin/python [--record] [NAME ...]
    python benchmarks/door.py --python build/door-packages/bin/python --tests SOURCES [NAME ...]

Each package is called through its public interface, in a process of its own, with an empty cache, on inputs
that are drawn in `door_packages/inputs.py`. Rounds by turns go through the door and to ONNX Runtime alone.
Printed for each: the time of its sessions relative to ONNX Runtime's (least times of rounds that both run by
turns, the median over `TIMED` different inputs), how much
of its results is that of float (letters of texts, words, labels, or decibels), memory, what became of its
models, runs until the engine answers, and why models stayed in float. --record stores the rows of these
packages in `results/door.json`, which docs/benchmarks.md shows. A package that cannot be installed beside the
others gets a folder of its own: `pip install --target FOLDER NAME`, and ``--path FOLDER``.

--tests runs the tests of packages' source distributions, which lie unpacked below SOURCES, with and without
the door, and prints both counts.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from door_packages import PACKAGES

HERE = Path(__file__).parent
RESULT = HERE / "results" / "door.json"
WATCHED, TIMED, COMPARED = 60, 15, 60
"""Rounds until models are quantized, rounds that are timed, all with inputs of their own, and rounds
whose results are compared."""
WATCHED_SECONDS = 30
"""Time for more rounds than `WATCHED`: of a short run there is no time to look at the inputs of each."""
LEAST_REPEATS, REPEATS, REPEAT_SECONDS = 3, 20, 1.0
"""Times that a round is timed at least, and at most where that takes no longer: the least one counts."""
WATCH_SECONDS, TIME_SECONDS, COMPARE_SECONDS, PACKAGE_SECONDS = 300, 120, 60, 900
"""After which no round begins to wait for quantizing, none to be timed, none to be compared, and the package
is given up."""


def run_package(name: str, has_door: bool) -> dict[str, Any]:
    """Run a package in this process; return its results, seconds and records."""
    import onnxruntime

    import intact.ort

    if has_door:
        intact.ort.install()
    seconds, has_turn = 0.0, has_door
    inner = onnxruntime.InferenceSession.run
    plain = getattr(inner, "__wrapped__", inner)

    def run_and_time(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal seconds
        begin = time.perf_counter()
        try:
            return (inner if has_turn else plain)(self, *args, **kwargs)
        finally:
            seconds += time.perf_counter() - begin

    onnxruntime.InferenceSession.run = run_and_time
    work = PACKAGES[name].prepare()
    _settle(work, has_door)
    results: list[list[Any]] = [[], []]
    times, begin = [], time.perf_counter()
    for seed in range(COMPARED if has_door else 3):
        elapsed = time.perf_counter() - begin
        is_timed = seed < TIMED and elapsed < TIME_SECONDS
        if not is_timed and elapsed > COMPARE_SECONDS:
            break
        least = [math.inf, math.inf]
        for repeat in range(REPEATS if is_timed else 1):
            if repeat >= LEAST_REPEATS and time.perf_counter() - begin - elapsed > REPEAT_SECONDS:
                break
            for is_door in (False, True) if repeat % 2 else (True, False):  # who is second finds warm caches
                has_turn, seconds = is_door and has_door, 0.0
                result = work(seed)
                least[is_door] = min(least[is_door], seconds)
                if not repeat:
                    results[is_door].append(result)
        if is_timed:
            times.append((least[True], least[False]))
    records = [record.__dict__ for record in intact.ort.status()] if has_door else []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    alone = median(plain for _, plain in times)
    door = alone * median(
        door / max(plain, 1e-9) for door, plain in times
    )  # a seed may be disturbed throughout
    closeness = agreement(*results) if has_door else ""
    return {"agreement": closeness, "seconds": door, "plain": alone, "records": records, "mebibytes": peak}


def _settle(work: Any, has_door: bool) -> None:
    """Run rounds until all models that run are quantized or stay in float."""
    import intact.ort

    begin, spent = time.perf_counter(), 0.0
    for seed in itertools.count(1000):
        if seed >= 1000 + WATCHED and spent > WATCHED_SECONDS:
            break
        round_begin = time.perf_counter()
        work(seed)
        spent += time.perf_counter() - round_begin
        if not has_door:
            if seed >= 1003:
                return
            continue
        left = WATCH_SECONDS - (time.perf_counter() - begin)
        active = [record for record in intact.ort.status() if record.runs]
        if left <= 0 or all(record.state not in ("watching", "trying") for record in active):
            return
        intact.ort.wait(left)
    intact.ort.wait(max(0.0, WATCH_SECONDS - (time.perf_counter() - begin)))


def agreement(plain: Sequence[Any], door: Sequence[Any]) -> str:
    """Return how much of two lists of results is equal: decibels of floats, else a share of parts."""
    if all(isinstance(result, list) and all(isinstance(v, float) for v in result) for result in plain):
        sizes = [len(result) for result in plain]
        if sizes == [len(result) for result in door]:
            left, right = (
                np.concatenate([np.asarray(r, float) for r in results]) for results in (plain, door)
            )
            finite = np.isfinite(left) & np.isfinite(right)
            signal = float(np.sum(left[finite] ** 2))
            noise = float(np.sum((left - right)[finite] ** 2)) if finite.any() else 0.0
            return "equal" if not noise else f"{10 * math.log10(max(signal, 1e-30) / noise):.1f} dB"
        plain, door = (
            [[str(round(v, 1)) for v in result] for result in results] for results in (plain, door)
        )
    parts = sum(max(len(result), 1) for result in plain)
    changes = sum(edits(left, right) for left, right in zip(plain, door, strict=True))
    unit = "letters" if isinstance(plain[0], str) else "parts"
    return f"{1 - changes / parts:.2%} of {parts:,} {unit} equal"


def edits(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return how many parts have to be changed, added or removed until two sequences are equal."""
    row = list(range(len(right) + 1))
    for i, part in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (part != other))
    return row[-1]


def start(options: argparse.Namespace, name: str, has_door: bool) -> dict[str, Any] | str:
    """Run a package in a process of its own; return why it failed, where it did."""
    with tempfile.TemporaryDirectory() as cache:
        paths = [*options.path, str(HERE), str(HERE.parent / "src")]
        environment = {**os.environ, "INTACT_ORT_CACHE": cache, "PYTHONPATH": os.pathsep.join(paths)}
        words = [options.python, __file__, "--run", name, *(["--door"] if has_door else [])]
        try:
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, check=False, timeout=PACKAGE_SECONDS
            )
        except subprocess.TimeoutExpired:
            return f"not finished within {PACKAGE_SECONDS} seconds"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return (done.stderr.strip().splitlines() or ["no result"])[-1][:200]
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def row_of(name: str, plain: dict[str, Any], door: dict[str, Any]) -> list[str]:
    """Return a package's figures as a row of the table."""
    records = [record for record in door["records"] if record["runs"]] or door["records"]
    several = len(records) > 1
    models = "; ".join(_model_words(record, several) for record in records)
    ratio = door["seconds"] / max(door["plain"], 1e-9)
    memory = f"{door['mebibytes']:.0f} ({plain['mebibytes']:.0f})"
    times = [f"{ratio:.2f}", f"{1e3 * door['plain']:.1f}"]
    return [name, PACKAGES[name].task, *times, door["agreement"], memory, models]


def _model_words(record: dict[str, Any], several: bool) -> str:
    name = f"{Path(record['file']).stem}: " if several else ""
    if record["state"] == "int8":
        return f"{name}{record['candidate']}, {record['runs_until_engine']} runs until then"
    why = re.sub(r"\s+", " ", record["why"].replace("|", "/"))
    return f"{name}{record['state']}: {why[:240]}"


def record_rows(rows: list[list[str]], options: argparse.Namespace) -> None:
    """Store rows in the place of older ones of the same packages."""
    from intact.timings import processor

    content = json.loads(RESULT.read_text(encoding="utf-8"))
    columns = [
        "package", "task", "of ONNX Runtime's time", "ms a round in ONNX Runtime", "results", "MiB (without)",
        "models",
    ]  # fmt: skip
    stored = content["rows"] if content["columns"] == columns else []
    merged = {row[0]: row for row in stored} | {row[0]: row for row in rows}
    content["rows"] = [merged[name] for name in PACKAGES if name in merged]
    times = [float(row[2]) for row in content["rows"]]
    content["columns"] = columns
    content["command"] = "python benchmarks/door.py --python build/door-packages/bin/python --record"
    content["machine"], content["date"] = processor(), datetime.date.today().isoformat()
    content["versions"] = {name: metadata.version(name) for name in ("onnxruntime", "numpy")}
    distributions = {PACKAGES[row[0]].requirements.split()[0].split("==")[0] for row in content["rows"]}
    summary = (
        f"{len(times)} uses of {len(distributions)} packages, unedited, through their public interfaces:"
        f" geometric mean of times {geometric_mean(times):.2f}, largest {max(times):.2f}."
    )
    notes = [note for note in content["notes"] if "geometric mean" not in note.lower()]
    content["notes"] = [summary, *notes]
    RESULT.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def run_tests(options: argparse.Namespace) -> None:
    """Run the tests of source distributions with and without the door, and print how many pass."""
    for folder in sorted(path for path in options.tests.iterdir() if path.is_dir()):
        if options.names and folder.name not in options.names:
            continue
        counts = []
        for way in ([], ["-m", "intact.ort"]):
            with tempfile.TemporaryDirectory() as cache:
                paths = [*options.path, str(HERE.parent / "src")]
                environment = {
                    **os.environ, "INTACT_ORT_CACHE": cache, "PYTHONPATH": os.pathsep.join(paths),
                    "INTACT_ORT_WATCH": "2", "INTACT_ORT_SPEED": "0",
                }  # fmt: skip
                words = [
                    options.python,
                    *way,
                    "-m",
                    "pytest",
                    "-q",
                    "--tb=no",
                    "-p",
                    "no:cacheprovider",
                    "-x",
                ]
                done = subprocess.run(
                    words[:-1], cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
            counts.append((done.stdout.strip().splitlines() or [done.stderr.strip()[-80:]])[-1])
        print(f"{folder.name}: {counts[0]}; through the door: {counts[1]}", flush=True)


def main() -> None:
    """Measure the packages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--path", action="append", default=[], help="folders of further packages")
    parser.add_argument("--requirements", action="store_true", help="print what pip has to install")
    parser.add_argument("--tests", type=Path, help="folder of source distributions whose tests are run")
    parser.add_argument("--record", action="store_true", help="store the rows")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--door", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_package(options.run, options.door)), flush=True)
        return
    if options.requirements:
        print(*sorted({word for entry in PACKAGES.values() for word in entry.requirements.split()}))
        return
    if options.tests:
        run_tests(options)
        return
    rows = []
    for name in options.names or PACKAGES:
        plain, door = start(options, name, False), start(options, name, True)
        if isinstance(plain, str) or isinstance(door, str):
            print(f"{name}: {plain if isinstance(plain, str) else door}", flush=True)
            continue
        if not plain["seconds"]:
            print(f"{name}: no session of onnxruntime ran", flush=True)
            continue
        rows.append(row_of(name, plain, door))
        print(" | ".join(rows[-1]), flush=True)
        if options.record:
            record_rows(rows, options)
    if rows:
        times = [float(row[2]) for row in rows]
        print(f"geometric mean {geometric_mean(times):.2f}, largest {max(times):.2f}, {len(rows)} uses")


if __name__ == "__main__":
    main()

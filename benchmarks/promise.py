"""Does the engine run what the module simulates? Module, engine, reference and file of many architectures.

    python -m pip install transformers timm onnx2torch torchvision gguf      # beside intact and torch
    INTACT_SHARED=<the shared data> python benchmarks/promise.py [--only BERT,levit_128s] [--family timm]

Each network is quantized by graph mode, exported, and compiled, in a process of its own with a time limit.
Then module, engine and file (in ONNX Runtime, optimizations off) run on inputs that calibration did not see,
and the engine's integer reference runs too (`intact.engine.compare`).

Columns: `values`: the share of the outputs' numbers that are equal bit for bit in module and engine, `dB`:
signal to noise between the two where some are not; `codes`: those that differ in module and reference, of so
many, among all that quantizers make; `top-1`: answers that differ in module and engine. `file`: decibels
between file and engine, and `fcodes`: codes that differ in file and reference. `exact`: whether the engine
equals the integer reference. `parts`: parts of the plan in ONNX Runtime, of which nothing is promised.
Below the table: the first quantizer whose codes differ, and the tensor where the file leaves the reference.
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
from math import isinf
from pathlib import Path
from typing import Any

from promise_nets import FAMILIES

Row = dict[str, Any]


def measure(name: str, family: str, folder: Path) -> Row:
    """One network, in this process."""
    import torch
    from promise_nets import networks

    import intact
    from intact import graph
    from intact.engine.compare import compare
    from intact.engine.steps import FallbackSubgraph
    from intact.torch import export
    from intact.torch.models.array_runner import Runner

    torch.set_num_threads(1)
    (chosen,) = (network for network in networks(family) if network.name == name)
    module, calls = chosen.make()
    result = intact.quantize(module, [(call,) for call in calls[:-1]], progress=False)
    file = folder / "model.onnx"
    export(result.model, calls[-1], file, verify=False, dynamic_batch=False)
    engine, model = intact.compile(file, threads=1, deterministic=True), graph.load(file)
    feeds = {port.name: x.numpy() for port, x in zip(engine.inputs, calls[-1], strict=True)}
    runner = Runner(result.model, graph.read_named_pairs(model))
    results = compare(model, engine, [feeds], module=runner)
    plan = engine.plan_for({key: x.shape for key, x in feeds.items()}, feeds)
    first = results.first("module")
    left = next((t for t in results.tensors if t.file.differing), None)
    return {
        "outputs": {
            side: {"compared": d.compared, "differing": d.differing, "dB": d.decibels}
            for side, d in results.outputs.items()
        },
        "answers": {side: (c.differing, c.compared) for side, c in results.answers.items()},
        "codes": {side: vars(results.total(side)) for side in ("engine", "file", "module", "export")},
        "exact": results.exact, "unmatched": results.unmatched,
        "parts": [step.name for step in plan.steps if isinstance(step, FallbackSubgraph)],
        "first": None if first is None else f"{first.quantizer} ({first.tensor} of {first.layer}): "
        f"{first.module.differing:,} of {first.module.compared:,} by at most {first.module.largest:.0f}",
        "leaves": None if left is None else f"{left.tensor} of {left.layer}: "
        f"{left.file.differing:,} of {left.file.compared:,} {'codes' if left.codes else 'floats'}",
    }  # fmt: skip


def without_torchvisions_library() -> None:
    """Declare the two operators that torchvision asks for when its library does not fit this PyTorch."""
    import torch

    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    except RuntimeError:  # "operator torchvision::nms does not exist"
        for name in [key for key in sys.modules if key.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)


_KEPT: list[Any] = []


def apart(name: str, family: str, seconds: float) -> Row:
    """One network in a process of its own; a process that fails or takes too long is a row as well."""
    command = [sys.executable, __file__, "--measure", name, "--family", family]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace")
        lines = done.stdout.strip().splitlines()
        if done.returncode == 0 and lines:
            row: Row = json.loads(lines[-1])
        else:
            output = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            row = {"error": output[-1][:300]}
    except subprocess.TimeoutExpired:
        row = {"error": f"more than {seconds:.0f} s"}
    return {"name": name, "family": family, "seconds": time.perf_counter() - start} | row


HEAD = (f"{'':<34}{'values':>8}{'dB':>7}{'codes':>10} of {'':<12}{'top-1':>9}{'file':>7}{'fcodes':>10}"
        f"{'exact':>6}{'parts':>6}{'s':>5}")  # fmt: skip


def line(row: Row) -> str:
    label = f"{row['family']}: {row['name']}"
    if "error" in row:
        return f"{label:<34}  {row['error']}"
    module, codes = row["outputs"]["module"], row["codes"]
    share = 1 - module["differing"] / max(1, module["compared"])
    differing, of = row["answers"].get("module", (0, 0))
    return (
        f"{label:<34}{share:>8.2%}{decibels(module['dB']):>7}{codes['module']['differing']:>10,} of "
        f"{codes['module']['compared']:<12,}{f'{differing}/{of}':>9}"
        f"{decibels(row['outputs']['file']['dB']):>7}{codes['file']['differing']:>10,}"
        f"{'yes' if row['exact'] else 'NO':>6}{len(row['parts']):>6}{row['seconds']:>5.0f}"
    )


def decibels(value: float) -> str:
    return "equal" if isinf(value) and value > 0 else f"{value:.1f}"


def is_equal(row: Row) -> bool:
    """Return whether every code and every bit of the outputs is the same in module and engine."""
    same = "error" not in row and not row["outputs"]["module"]["differing"]
    return same and not row["codes"]["module"]["differing"] and row["exact"]


def show_details(rows: list[Row]) -> None:
    for row in rows:
        label = f"{row['family']}: {row['name']}"
        if row.get("first"):
            print(f"{label}: first quantizer: {row['first']}")
        if row.get("leaves"):
            print(f"{label}: the file leaves the reference in {row['leaves']}")
        if row.get("unmatched"):
            print(f"{label}: not compared: {', '.join(row['unmatched'][:5])}, {len(row['unmatched'])} in all")
        if row.get("parts"):
            print(f"{label}: in ONNX Runtime: {', '.join(row['parts'])}")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--only", help="names, with commas between them")
    words.add_argument("--family", help=f"with commas between them: {', '.join(FAMILIES)}")
    words.add_argument("--limit", type=float, default=300.0, help="seconds for one network")
    words.add_argument("--out", type=Path, help="write each row as a line of JSON there as well")
    words.add_argument("--measure", help=argparse.SUPPRESS)
    options = words.parse_args()
    warnings.simplefilter("ignore")
    without_torchvisions_library()
    if options.measure:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.measure, options.family, Path(folder))), flush=True)
        return
    from promise_nets import networks

    rows: list[Row] = []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(HEAD, flush=True)
    for family in options.family.split(",") if options.family else FAMILIES:
        try:
            chosen = networks(family)
        except ImportError as error:
            print(f"{family}: {error}", flush=True)
            continue
        for item in chosen:
            if options.only and item.name not in options.only.split(","):
                continue
            rows.append(apart(item.name, family, options.limit))
            print(line(rows[-1]), flush=True)
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    show_details(rows)
    print(f"module and engine equal on every code and every bit: {sum(map(is_equal, rows))} of {len(rows)}")


if __name__ == "__main__":
    main()

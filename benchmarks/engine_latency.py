"""Latency of INTact's engine against ONNX Runtime and OpenVINO, int8 and float, on four networks.

    INTACT_SHARED=<the shared data> python benchmarks/engine_latency.py --peer-python <the peers'>

Every case runs in a process of its own, the cases of one network, batch size and thread count take turns,
and the fastest run counts. ONNX Runtime has the better of its two int8 formats (uint8 activations, int8
weights, per channel); OpenVINO has NNCF's model, and computes what that leaves in floats as it likes: in
bfloat16 where the machine has it. Float columns are float32. Memory is the process's peak.

--isa avx2 keeps INTact and OpenVINO to AVX2, as on machines without VNNI; ONNX Runtime knows no such limit,
stands beside them, and is no peer then.

Targets: over all networks and one and two threads, batch 1, at most 0.80 of the better int8 peer (geometric
mean), and never more than 1; ResNet-50 at least 2.2 times as fast as the better float engine, one thread; a
second core makes ResNet-50 at least 1.8 times as fast; no more memory than ONNX Runtime for its file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from math import exp, log
from pathlib import Path

import engine_files

from intact.cli.verbs.bench import Case, Isa, measure

COLUMNS = {
    "INTact": (("intact", ".plan"),),
    "ORT int8": (("onnxruntime", ".ort-qdq.onnx"), ("onnxruntime", ".ort-qop.onnx")),
    "OpenVINO int8": (("openvino", ".nncf.xml"),),
    "ORT float": (("onnxruntime", ".onnx"),),
    "OpenVINO float": (("openvino", ".onnx"),),
}
FLOAT32 = {"OpenVINO float"}
"""Columns that OpenVINO would compute in bfloat16 where the machine has it."""
FREE: set[str] = set()
"""Columns that use all instructions where others may not."""
Key = tuple[str, int, int]
Results = dict[Key, dict[str, dict]]
"""By (net, batch, threads) and column."""


def run(args: argparse.Namespace, folder: Path) -> Results:
    results: Results = {}
    for net in args.nets:
        engine_files.prepare(net, folder, args.peer_python)
        for batch in args.batch:
            for threads in args.threads:
                results[net, batch, threads] = row = one(args, folder, net, batch, threads)
                print(line(net, batch, threads, row), flush=True)
    return results


def one(args: argparse.Namespace, folder: Path, net: str, batch: int, threads: int) -> dict[str, dict]:
    """Each column's best, with the cases in turn."""
    cases, names = [], []
    for name, files in COLUMNS.items():
        for engine, suffix in files:
            file = folder / f"{net}{suffix}"
            if name in args.columns and file.exists():
                python = args.peer_python if engine == "openvino" else sys.executable
                words = ("--float32",) if name in FLOAT32 else ()
                cases.append(Case(engine, file, python, words, args.isa))
                names.append(name)
    results = measure(cases, rounds=args.rounds, threads=threads, batch=batch, seconds=args.seconds)
    row: dict[str, dict] = {}
    for name, result in zip(names, results, strict=True):
        if name not in row or result["ms"] < row[name]["ms"]:
            row[name] = result
    return row


def line(net: str, batch: int, threads: int, row: dict[str, dict]) -> str:
    cells = "".join(f"{row[name]['ms']:>15.2f}" if name in row else f"{'':>15}" for name in COLUMNS)
    ratio = f"{row['INTact']['ms'] / peer:>9.2f}" if "INTact" in row and (peer := better(row, "int8")) else ""
    return f"{net:<12} {batch:>5} {threads:>7} {cells}{ratio}"


def better(row: dict[str, dict], kind: str) -> float | None:
    """The better peer's milliseconds, of those that are held to the same instructions."""
    results = [result["ms"] for name, result in row.items() if name.endswith(kind) and name not in FREE]
    return min(results, default=None)


def summary(results: Results) -> None:
    ratios = {
        key: row["INTact"]["ms"] / peer
        for key, row in results.items()
        if key[1] == 1 and "INTact" in row and (peer := better(row, "int8"))
    }
    if ratios:
        mean = exp(sum(map(log, ratios.values())) / len(ratios))
        worst = max(ratios, key=ratios.__getitem__)
        print(
            f"\nbatch 1, INTact / better int8 peer: {mean:.3f} (at most 0.80), mean of {len(ratios)} ratios"
        )
        print(f"worst: {worst[0]}, {worst[2]} threads: {ratios[worst]:.2f} (at most 1.00)")
    single, double = results.get(("resnet50", 1, 1)), results.get(("resnet50", 1, 2))
    if single and "INTact" in single and (peer := better(single, "float")):
        print(f"ResNet-50, one thread, against float: {peer / single['INTact']['ms']:.2f}x (at least 2.2)")
    for name in COLUMNS if single and double else ():
        if name in single and name in double:
            want = " (at least 1.8)" if name == "INTact" else ""
            print(f"ResNet-50, second core, {name}: {single[name]['ms'] / double[name]['ms']:.2f}x{want}")
    print(f"\npeak memory, MB{'':<12}" + "".join(f"{name:>15}" for name in COLUMNS))
    for (net, batch, threads), row in results.items():
        cells = "".join(f"{row[name]['peak_mb']:>15.0f}" if name in row else f"{'':>15}" for name in COLUMNS)
        print(f"{net:<12} {batch:>5} {threads:>7} {cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    engine_files.add_options(parser)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=2.0, help="of one round of one case")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--out", type=Path, help="write the results as JSON too")
    parser.add_argument("--isa", type=Isa, choices=list(Isa), help="use no instructions above these")
    args = parser.parse_args()
    if args.isa:
        COLUMNS["INTact"] = (("intact", ".int8.onnx"),)  # not the plan: it was packed for this machine
        FLOAT32.add("OpenVINO int8")  # it would still choose bfloat16, and find no kernel for softmax
        FREE.update(("ORT int8", "ORT float"))
    if engine_files.shared_nets() is None and args.folder is None:
        print("benchmarks/engine_latency.py: INTACT_SHARED names no folder with nets.py; nothing done")
        return
    print(f"milliseconds, fastest run; {os.cpu_count()} processors; ratio: INTact / better int8 peer")
    print(
        f"{'net':<12} {'batch':>5} {'threads':>7} "
        + "".join(f"{name:>15}" for name in COLUMNS)
        + f"{'ratio':>9}"
    )
    with tempfile.TemporaryDirectory() as temporary:
        results = run(args, args.folder or Path(temporary))
    summary(results)
    if args.out is not None:
        rows = [
            {"net": net, "batch": batch, "threads": threads, **row}
            for (net, batch, threads), row in results.items()
        ]
        args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

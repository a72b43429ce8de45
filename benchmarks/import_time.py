"""Time of ``import intact`` in a fresh interpreter, and of `intact.ort` beside onnxruntime's alone.

    python benchmarks/import_time.py [--repeats 15]

Contenders take turns; printed are medians of the processor's time, which other work of the machine changes
little, the interpreter's own start taken off.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

HEAVY = ("torch", "onnx", "onnx_ir", "onnxruntime")
CONTENDERS = {
    "nothing": "pass", "numpy": "import numpy", "intact": "import intact",
    "onnxruntime": "import onnxruntime",
    "intact.ort": "import onnxruntime, intact.ort; intact.ort.install()",
}  # fmt: skip


def seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    rounds = [{name: seconds(code) for name, code in CONTENDERS.items()} for _ in range(repeats + 1)][1:]
    medians = {name: statistics.median(r[name] for r in rounds) for name in CONTENDERS}
    for name in ("numpy", "intact"):
        print(f"import {name:7} {medians[name] - medians['nothing']:.3f} s")
    added = medians["intact.ort"] - medians["onnxruntime"]
    print(
        f"intact.ort adds {added:.3f} s to onnxruntime's {medians['onnxruntime'] - medians['nothing']:.3f} s"
    )
    code = f"import sys, intact; print(*[name for name in {HEAVY} if name in sys.modules] or ['nothing'])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    print(f"of {', '.join(HEAVY)} it loads: {loaded.strip()}")


if __name__ == "__main__":
    main()

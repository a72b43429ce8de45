"""torch_tensorrt's own tests of its converters (dynamo), on INTact's TensorRT and without a GPU.

    git clone https://github.com/pytorch/TensorRT        # nothing of it is kept here
    python -m pip install parameterized dllist psutil expecttest   # beside intact-quant[torch] and pytest
    python benchmarks/torch_tensorrt_suite.py TensorRT [--match test_a]

What asks PyTorch for a GPU gets the CPU (stand_ins/torch_tensorrt_on_cpu.py). Each file of tests runs in a
process of its own. Prints how many pass in each, why the others do not, and the total.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
COUNT = re.compile(r"(\d+) (passed|failed|error|skipped)")
REASON = re.compile(r"^(?:E +|\S+\.py:\d+: )(\w*(?:Error|Exception|Warning)\b.*)", re.MULTILINE)
VERSION = '__version__ = "{}"\n__cuda_version__ = "13.0"\n__tensorrt_version__ = "11.1.0"\n'
SECONDS = 900  # for one file


def run(folder: Path, tests: Path) -> tuple[Counter[str], Counter[str]]:
    """Run the tests of a file; count the results, and the reasons of failures."""
    paths = [str(folder / "py"), str(HERE / "stand_ins"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    pytest = ["-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"]
    plain = ["-p", "torch_tensorrt_on_cpu", str(tests.relative_to(folder))]
    command = [sys.executable, "-W", "ignore", "-m", "intact.trt", *pytest, *plain]
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Counter({"error": 1}), Counter({f"more than {SECONDS} seconds": 1})
    summary = done.stdout.splitlines()[-1] if done.stdout else ""
    counts = Counter({word: int(number) for number, word in COUNT.findall(summary)})
    reasons = Counter(re.sub(r"\d+", "#", reason)[:110] for reason in REASON.findall(done.stdout))
    return counts or Counter({"error": 1}), reasons


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the checkout")
    parser.add_argument("--match", default="", help="only files whose names hold this")
    options = parser.parse_args()
    folder = options.folder.resolve()
    version = folder / "py" / "torch_tensorrt" / "_version.py"
    if not version.exists():  # its setup writes it
        version.write_text(VERSION.format((folder / "version.txt").read_text().strip()))
    totals, reasons = Counter[str](), Counter[str]()
    for tests in sorted((folder / "tests" / "py" / "dynamo" / "conversion").glob("test_*.py")):
        if options.match not in tests.name:
            continue
        counts, why = run(folder, tests)
        totals, reasons = totals + counts, reasons + why
        of = sum(counts.values()) - counts["skipped"]
        print(f"{tests.name:<45}{counts['passed']:>6} of {of}", flush=True)
    for reason, number in reasons.most_common(40):
        print(f"{number:>6}  {reason}")
    of = sum(totals.values()) - totals["skipped"]
    print(f"{of} tests: {totals['passed']} passed, {totals['skipped']} skipped")


if __name__ == "__main__":
    main()

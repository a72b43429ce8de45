"""torch_tensorrt's own tests of its converters (dynamo), on INTact's TensorRT and without a GPU.

    git clone https://github.com/pytorch/TensorRT        # nothing of it is kept here
    python -m pip install parameterized dllist psutil expecttest   # beside intact-quant[torch] and pytest
    python benchmarks/torch_tensorrt_suite.py TensorRT [--match test_a]

What asks PyTorch for a GPU gets the CPU (stand_ins/torch_tensorrt_on_cpu.py). There are 2,126 tests, a second
or two each. Prints what pytest prints, why tests fail, and the total.
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
REASON = re.compile(r"^(?:E +|\S+\.py:\d+: )(\w*(?:Error|Exception)\b.*)", re.MULTILINE)
VERSION = '__version__ = "{}"\n__cuda_version__ = "13.0"\n__tensorrt_version__ = "11.1.0"\n'


def run(folder: Path, files: list[Path]) -> str:
    """Run files of tests in one process, showing what it prints; return it."""
    paths = [str(folder / "py"), str(HERE / "stand_ins"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    pytest = ["-m", "pytest", "-q", "--tb=line", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist"]
    names = [str(file.relative_to(folder)) for file in files]
    command = [sys.executable, "-W", "ignore", "-m", "intact.trt", *pytest]
    process = subprocess.Popen(
        [*command, "-p", "torch_tensorrt_on_cpu", *names], cwd=folder, env=env, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    process.wait()
    return "".join(lines)


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
    files = (folder / "tests" / "py" / "dynamo" / "conversion").glob("test_*.py")
    printed = run(folder, sorted(file for file in files if options.match in file.name))
    reasons = Counter(re.sub(r"\d+", "#", reason)[:110] for reason in REASON.findall(printed))
    for reason, number in reasons.most_common(40):
        print(f"{number:>6}  {reason}")
    counts = Counter(
        {word: int(number) for number, word in COUNT.findall(printed.rstrip().rpartition("\n")[2])}
    )
    of = sum(counts.values()) - counts["skipped"]
    print(f"{of} tests: {counts['passed']} passed, {counts['skipped']} skipped")


if __name__ == "__main__":
    main()

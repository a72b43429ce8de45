"""The old toolkit's own tests, run against `intact.torch` and against the toolkit's own Python sources.

    git clone https://github.com/NVIDIA/TensorRT          # nothing of it is kept here
    python -m pip install absl-py prettytable scipy       # beside intact-quant[torch] and pytest
    python benchmarks/toolkit_suite.py TensorRT/tools/pytorch-quantization

Every call that asks for a GPU is read as asking for the CPU (stand_ins/cuda_as_cpu.py); the original's
compiled extension, which wants a CUDA compiler, is a stand-in made of PyTorch operators, without its FP8.
What fetches weights from the network fails on both sides where there is none. Each file of tests runs in a
process of its own. Prints passed, failed (with errors) and skipped per file, and what failed here.
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
COUNTED = ("passed", "failed", "error", "skipped")


def run(folder: Path, tests: Path, original: bool) -> tuple[Counter[str], list[str]]:
    """Run the tests of a file; count the results, and list the failures."""
    paths = [str(HERE / "stand_ins"), str(folder), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    env |= {"INTACT_ORIGINAL": "1"} if original else {}
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "--tb=no", "-p", "cuda_as_cpu"]
    plain = ["-p", "no:cacheprovider", "-p", "no:xdist", str(tests.relative_to(folder))]
    done = subprocess.run([*command, *plain], cwd=folder, env=env, capture_output=True, text=True)
    summary = done.stdout.splitlines()[-1] if done.stdout else ""
    counts = Counter(
        {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", summary)}
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S*/(\S+)", done.stdout, re.MULTILINE)
    return counts, failed


def show(counts: Counter[str]) -> str:
    return f"{counts['passed']:>8}{counts['failed'] + counts['error']:>8}{counts['skipped']:>9}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="tools/pytorch-quantization of the checkout")
    parser.add_argument("--only", nargs="*", default=[""], help="files whose names hold one of these")
    options = parser.parse_args()
    folder = options.folder.resolve()
    version = folder / "pytorch_quantization" / "version.py"
    if not version.exists():  # the toolkit's setup writes it
        header = (folder / "tests" / "license_test_header_py.txt").read_text()
        version.write_text(f'{header}__version__ = "{(folder / "VERSION").read_text().strip()}"\n')
    heads = f"{'passed':>8}{'failed':>8}{'skipped':>9}"
    print(f"{'':<34}{'intact':^25}{'the original':^25}\n{'':<34}{heads}{heads}")
    totals, names = [Counter[str](), Counter[str]()], []
    for tests in sorted((folder / "tests").glob("*.py")):
        if "test" not in tests.stem.split("_") or not any(part in tests.name for part in options.only):
            continue
        (ours, failed), (theirs, _) = run(folder, tests, False), run(folder, tests, True)
        totals = [totals[0] + ours, totals[1] + theirs]
        names += failed
        print(f"{tests.name:<34}{show(ours)}{show(theirs)}", flush=True)
    print(f"{'all':<34}{show(totals[0])}{show(totals[1])}\n\nfailed with intact:")
    print("\n".join(f"  {name}" for name in names) or "  nothing")


if __name__ == "__main__":
    main()

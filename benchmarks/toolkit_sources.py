"""Counts the public sources that import `pytorch_quantization` and run as they are, on `intact.torch`.

    python benchmarks/toolkit_sources.py FOLDER [--only NAME] [--path EXTRA]

FOLDER holds a checkout for each, by the name that its driver in `sources/` gives beside the repository.
Nothing of them is kept here: a driver imports a source's own functions, and calls them as its scripts do,
on the source's network (small, without trained weights) and random data: quantize, calibrate, fine-tune where
the source does, export. Calls that ask for a GPU get the CPU; packages that no computation needs are
stand-ins; layers of sparse convolutions are a few dense ones. A source has run where its file, without
optimizations in ONNX Runtime, is at least 40 dB near to its module.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 900


def run(name: str, folder: Path, paths: list[str]) -> tuple[bool, str]:
    """Run a source; return whether it ran, and its driver's output (or the last line)."""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(
            filter(None, [*paths, str(HERE), str(HERE / "stand_ins"), os.environ.get("PYTHONPATH", "")])
        )
    }
    command = [sys.executable, "-W", "ignore", "-m", "intact.torch", "-m", "sources", name]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = subprocess.run(
                [*command, str(folder)], cwd=scratch, env=env, capture_output=True, text=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False, f"longer than {SECONDS} s"
    lines = [
        line for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines() if line.strip()
    ]
    return done.returncode == 0, lines[-1] if lines else ""


def main() -> None:
    from sources import SOURCES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="with one checkout for each source")
    parser.add_argument("--only", nargs="*", default=[""], help="sources whose names hold one of these")
    parser.add_argument("--path", action="append", default=[], help="folders for PYTHONPATH")
    requested = parser.parse_args()
    outcomes = []
    for name in SOURCES:
        if any(part in name for part in requested.only):
            ok, output = run(
                name, requested.folder.resolve(), [str(Path(p).resolve()) for p in requested.path]
            )
            outcomes.append(ok)
            print(f"{name:<22} {'ran' if ok else 'FAILED':<7} {output}", flush=True)
    print(f"{len(outcomes)} sources: {sum(outcomes)} ran")


if __name__ == "__main__":
    main()

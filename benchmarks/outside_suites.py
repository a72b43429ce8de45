"""Reruns suites that others wrote, and compares with the counts that are stored.

    python benchmarks/outside_suites.py                          # lists the suites, and what each needs
    python benchmarks/outside_suites.py node_tests
    python benchmarks/outside_suites.py toolkit TensorRT/tools/pytorch-quantization
    python benchmarks/outside_suites.py cookbook trt-samples-for-hackathon-cn/cookbook [--path FOLDER]
    python benchmarks/outside_suites.py toolkit FOLDER --record  # stores the count

Nothing of the suites is kept here; SUITES says where each comes from. Exit status 1: fewer pass than stored.
Packages that a suite imports must be installed, or lie below a ``--path``. The counts are those of
`results/outside_suites.json`, which docs/benchmarks.md shows.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from intact.timings import processor

HERE = Path(__file__).parent
RESULT = HERE / "results" / "outside_suites.json"
PYTEST = "-m pytest -q --tb=no -p no:cacheprovider -p no:xdist"
PASSED = r"(?:(?P<failed>\d+) failed, )?(?P<passed>\d+) passed(?:, (?P<skipped>\d+) skipped)?"


@dataclass(frozen=True)
class Suite:
    """A suite of somebody else's.

    Attributes:
        title: What it is.
        source: Where it comes from.
        command: What runs it; {0}, {1} are the folders.
        pattern: Finds, in what is printed last, how many passed, and of how many (or failed and skipped).
        folders: What the folders are.
        within: A folder of {0} in which it runs; the folder is on the path.
    """

    title: str
    source: str
    command: str
    pattern: str
    folders: tuple[str, ...] = ()
    within: str | None = None


TENSORRT = "github.com/NVIDIA/TensorRT"
SUITES = {
    "node_tests": Suite(
        "ONNX's node tests through TensorRT's parser", "the onnx package", "onnx_node_tests.py",
        r"(?P<of>\d+) node tests: (?P<passed>\d+) passed",
    ),
    "toolkit": Suite(
        "pytorch-quantization's own tests", f"{TENSORRT}, tools/pytorch-quantization", "toolkit_suite.py {0}",
        r"^all +(?P<passed>\d+) +(?P<failed>\d+) +(?P<skipped>\d+)", ("tools/pytorch-quantization",),
    ),
    "cookbook": Suite(
        "NVIDIA's cookbook: recorded cases of layers",
        "github.com/NVIDIA/trt-samples-for-hackathon-cn, cookbook at 9a88e268",
        "public_scripts.py {0} --match 02-API/Layer/ --recorded --seconds 600",
        r"(?P<of>\d+) recorded cases: (?P<passed>\d+) as recorded", ("cookbook",),
    ),
    "samples": Suite(
        "NVIDIA's samples in Python", f"{TENSORRT}, at main and v8.6.1", "trt_samples.py {0} {1}",
        r"(?P<of>\d+) samples: (?P<passed>\d+) right", ("the checkout of main", "that of v8.6.1"),
    ),
    "model_connect": Suite(
        "TensorRT-Model-Connect's quantization formats in three types",
        "github.com/NVIDIA/TensorRT-Model-Connect", "model_connect.py {0}",
        r"(?P<of>\d+) formats and types: (?P<passed>\d+) right", ("the checkout",),
    ),
    "graphs": Suite(
        "TensorRT-Model-Connect's tests of its networks", "github.com/NVIDIA/TensorRT-Model-Connect",
        f"-m intact.trt {PYTEST} -o addopts= tests/builder -k graph", PASSED, ("the checkout",), "python",
    ),
    "polygraphy": Suite(
        "Polygraphy's tests of its TensorRT backend", f"{TENSORRT}, tools/Polygraphy",
        f"-m intact.trt {PYTEST} tests/backend/trt", PASSED, ("tools/Polygraphy",), ".",
    ),
    "onnxruntime": Suite(
        "ONNX Runtime's own Python tests that pass with it, through `intact.ort`",
        "github.com/microsoft/onnxruntime 1.23, onnxruntime/test/python", "onnxruntime_tests.py {0}",
        r"(?P<of>\d+) tests pass with onnxruntime: (?P<passed>\d+)", ("the checkout",),
    ),
    "dynamo": Suite(
        "torch_tensorrt's tests of its converters (dynamo), those from abs to attention",
        "github.com/pytorch/TensorRT, tests/py/dynamo/conversion/test_a*.py",
        "torch_tensorrt_suite.py {0} --match test_a",
        r"(?P<of>\d+) tests: (?P<passed>\d+) passed", ("the checkout",),
    ),
}  # fmt: skip


def run(suite: Suite, folders: list[Path], paths: list[str]) -> str:
    """Run a suite, showing what it prints; return it."""
    words = suite.command.format(*folders).split()
    script = HERE / words[0]
    words[0] = str(script) if script.exists() else words[0]
    if not suite.folders or suite.within is None:
        folder, own = HERE.parent, []
    else:
        folder, own = folders[0], [str(folders[0] / suite.within)]
    extra = [word for path in paths for word in ("--path", path)] if "public_scripts" in suite.command else []
    inherited = os.environ.get("PYTHONPATH", "")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [*own, *paths, inherited]))}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", *words, *extra],
        cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    process.wait()
    return "".join(lines)


def count(suite: Suite, printed: str) -> tuple[int, int]:
    """Return how many passed, and of how many."""
    matches = list(re.finditer(suite.pattern, printed, re.MULTILINE))
    if not matches:
        raise SystemExit("the suite printed no count: is everything there that it imports?")
    numbers = {name: int(number or 0) for name, number in matches[-1].groupdict().items()}
    return numbers["passed"], numbers.get("of", sum(numbers.values()))


def read_counts() -> dict[str, list[str]]:
    """Return the rows that are stored, by suite."""
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    return {row[0].strip("`"): row for row in rows}


def record(name: str, passed: int, of: int) -> None:
    """Store a count."""
    content = json.loads(RESULT.read_text(encoding="utf-8"))
    today = datetime.date.today().isoformat()
    row = [f"`{name}`", SUITES[name].title, SUITES[name].source, str(of), str(passed), today]
    rows = {row[0]: row for row in content["rows"]} | {row[0]: row}
    content["rows"] = [rows[key] for key in sorted(rows)]
    content |= {"date": today, "machine": processor()}
    content["versions"] = {p: metadata.version(p) for p in ("numpy", "onnx", "onnxruntime", "torch")}
    RESULT.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=SUITES)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--path", action="append", default=[], help="folders of packages that it imports")
    parser.add_argument("--record", action="store_true", help="store the count")
    options = parser.parse_args()
    if options.name is None:
        for name, suite in SUITES.items():
            print(
                f"{name:12}{suite.title}, from {suite.source}: {' and '.join(suite.folders) or 'no folder'}"
            )
        return
    suite = SUITES[options.name]
    if len(options.folders) != len(suite.folders):
        raise SystemExit(f"{options.name} needs {' and '.join(suite.folders) or 'no folder'}")
    folders = [folder.resolve() for folder in options.folders]
    passed, of = count(suite, run(suite, folders, options.path))
    before = read_counts().get(options.name)
    counts = f"{before[4]} of {before[3]}" if before else "none"
    print(f"{options.name}: {passed} of {of} pass; stored: {counts}")
    if options.record:
        record(options.name, passed, of)
    elif before is not None and passed < int(before[4]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

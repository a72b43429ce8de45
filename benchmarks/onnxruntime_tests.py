"""Runs ONNX Runtime's own Python tests with onnxruntime and through `intact.ort`, and compares each test.

    python benchmarks/onnxruntime_tests.py CHECKOUT [FILE ...]

CHECKOUT has `onnxruntime/test/python` and `onnxruntime/test/testdata` of ONNX Runtime's sources. A FILE is a
path below `onnxruntime/test/python`; by default those of FILES and of the folder `quantization` run. Through
the door, models are quantized after 2 different inputs, whatever their speed, so that the tests meet the
engine. Tests that pass with onnxruntime and not through the door are listed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

FILES = [
    "onnxruntime_test_python.py", "onnxruntime_test_python_iobinding.py",
    "onnxruntime_test_python_backend.py", "onnxruntime_test_python_mlops.py",
    "onnxruntime_test_python_backend_mlops.py",
    "onnxruntime_test_python_nested_control_flow_op.py", "onnxruntime_test_python_sparse_matmul.py",
    "onnxruntime_test_python_global_threadpool.py", "onnxruntime_test_scatternd.py",
    "onnxruntime_test_python_keras.py", "onnxruntime_test_python_symbolic_shape_infer.py",
]  # fmt: skip
DOOR = {"INTACT_ORT_WATCH": "2", "INTACT_ORT_SPEED": "0", "INTACT_ORT_ISOLATE": "no"}
SECONDS = 900


def outcomes(folder: Path, file: str, has_door: bool) -> dict[str, str]:
    """Return "passed", "failed" or "skipped" of each test of a file."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        words = [
            "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist",
            f"--junitxml={report}", "-o", "python_files=*.py", file,
        ]  # fmt: skip
        way = ["-m", "intact.ort"] if has_door else []
        own = [str(folder), str(Path(file).parent)]  # tests of folders import modules beside them
        path = os.pathsep.join(filter(None, [*own, os.environ.get("PYTHONPATH", "")]))
        environment = os.environ | DOOR | {"INTACT_ORT_CACHE": scratch, "PYTHONPATH": path}
        try:
            subprocess.run(
                [sys.executable, *way, *words], cwd=folder.parent, env=environment, timeout=SECONDS,
                capture_output=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {f"{file}::": f"not finished within {SECONDS} seconds"}
        if not report.exists():
            return {f"{file}::": "ended without a report"}
        cases = ElementTree.parse(report).getroot().iter("testcase")
        return {f"{case.get('classname')}::{case.get('name')}": _outcome(case) for case in cases}


def _outcome(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def main() -> None:
    """Run the files, and print what differs and the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    folder = (options.checkout / "onnxruntime" / "test" / "python").resolve()
    own = [str(path.relative_to(folder)) for path in sorted(folder.glob("quantization/test_*.py"))]
    total = passed = failed = skipped = 0
    for file in options.files or [*FILES, *own]:
        absolute = str(folder / file)
        plain, door = (outcomes(folder, absolute, has_door) for has_door in (False, True))
        alone = [name for name, outcome in plain.items() if outcome == "passed"]
        lost = [name for name in alone if door.get(name) != "passed"]
        words = list(plain.values())
        total, passed = total + len(alone), passed + len(alone) - len(lost)
        failed, skipped = failed + words.count("failed"), skipped + words.count("skipped")
        print(
            f"{file}: {len(alone)} of {len(plain)} pass; {len(alone) - len(lost)} of these here", flush=True
        )
        for name in lost:
            print(f"    {name}: {door.get(name, 'missing')}", flush=True)
    print(f"with onnxruntime alone, {failed} fail and {skipped} are skipped")
    print(f"{total} tests pass with onnxruntime: {passed} of them pass through the door")


if __name__ == "__main__":
    main()

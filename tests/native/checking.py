"""The Python module under a sanitizer, and every run of an engine a checked one: ``make check-native``.

    python tests/native/checking.py address|thread [pytest's arguments]

Builds the module with -DINTACT_CHECK=ON in build/check-<sanitizer>, beside a copy of src/intact, and runs
tests of engines and kernels with it. Linux and GCC alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/engine/test_bind_images.py", "tests/engine/test_bind_float_steps.py",
    "tests/engine/test_bind_gemm.py", "tests/engine/test_empty_images.py", "tests/engine/test_exact_grids.py",
    "tests/engine/test_exact_random.py", "tests/kernels/test_kinds.py", "tests/kernels/test_layer_edges.py",
    "tests/kernels/test_packed_weights.py",
)  # fmt: skip
"""Tests under the address sanitizer: every kernel of this machine, at every edge."""
THREADED = ("tests/engine/test_engine_threads.py", "tests/kernels/test_kernel_threads.py", "-k", "not fork")
"""Tests under the thread sanitizer: engines and kernels that run at once; it cannot follow a fork."""
OPTIONS = {
    "address": {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"},
    # Its runs are not checked: what threads do at once is to be as it is.
    "thread": {
        "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0:ignore_noninstrumented_modules=1",
        "INTACT_CHECK": "0",
    },
}


def build(sanitizer: str, into: Path) -> Path:
    """Build the module; the folder to put on the path."""
    bin_ = Path(sys.executable).parent
    cmake = shutil.which("cmake", path=str(bin_)) or shutil.which("cmake") or "cmake"
    completed = subprocess.run(
        [sys.executable, "-m", "nanobind", "--cmake_dir"], check=True, capture_output=True, text=True
    )
    flags = {
        "CMAKE_BUILD_TYPE": "Release", "INTACT_CHECK": "ON", "INTACT_SANITIZE": sanitizer,
        "Python_EXECUTABLE": sys.executable, "nanobind_DIR": completed.stdout.strip(),
    }  # fmt: skip
    if ninja := shutil.which("ninja", path=str(bin_)) or shutil.which("ninja"):
        flags["CMAKE_MAKE_PROGRAM"] = ninja
    generator = ["-G", "Ninja"] if ninja else []
    definitions = [f"-D{name}={value}" for name, value in flags.items()]
    subprocess.run([cmake, "-S", str(ROOT), "-B", str(into), *generator, *definitions], check=True)
    subprocess.run([cmake, "--build", str(into), "--parallel"], check=True)
    package = into / "python" / "intact"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "src" / "intact", package, ignore=shutil.ignore_patterns("_native*.so", "__pycache__")
    )
    subprocess.run([cmake, "--install", str(into), "--prefix", str(package.parent)], check=True)
    return package.parent


def environment(sanitizer: str, path: Path) -> dict[str, str]:
    """The sanitizer's library has to come first in a process that was not built with it, and before what
    throws the C++ library that it intercepts."""
    names = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer], "libstdc++.so.6"
    library = " ".join(_library(name) for name in names)
    # One thread for NumPy: its own library was not built with the sanitizer.
    more = {"LD_PRELOAD": library, "PYTHONPATH": str(path), "OMP_NUM_THREADS": "1", "CI": "1"}
    return os.environ | OPTIONS[sanitizer] | more


def _library(name: str) -> str:
    command = [os.environ.get("CXX", "c++"), f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(sanitizer: str, arguments: list[str]) -> int:
    path = build(sanitizer, ROOT / "build" / f"check-{sanitizer}")
    tests = arguments or (TESTS if sanitizer == "address" else THREADED)
    # A hook that replaces intact on the path (an editable install) must not win over the build.
    here = "import intact.kernels._native as n, sys; sys.exit(0 if n.CHECKED else 'not the checked module')"
    subprocess.run([sys.executable, "-c", here], env=environment(sanitizer, path), check=True)
    # What a sanitizer says goes to the process's standard error, which pytest must not hold back.
    switches = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=sys"]
    run = [sys.executable, "-m", "pytest", *switches, *tests]
    return subprocess.run(run, cwd=ROOT, env=environment(sanitizer, path), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

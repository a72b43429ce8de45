"""Fuzz what reads, binds and runs plans in C++, guided by coverage (libFuzzer of Clang): ``make fuzz-plans``.

    python -m tests.capi.guided_plans --seconds 600

Builds the C library with the sanitizers of addresses and of undefined behaviour in build/fuzz-plans. Seeds
are sound plans of every kind of step; `fuzz_plans.cc` mutates their JSON and their arrays. Inputs that reach
something new are kept in build/fuzz-plans/corpus for the next run. A fault stops the run, and its plan is
written beside it as crash-*, timeout-* or leak-*. Once mended, that file goes to tests/loaders/corpus/plan.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.capi.test_c_picks import GRAPHS
from tests.engine.conftest import Qdq
from tests.fuzz.graphs import make
from tests.loaders import seeds

from intact.engine.engine import Engine
from intact.engine.lower import lower

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "fuzz-plans"
RANDOM_GRAPHS = 300
COMPILERS = ("clang++", *(f"clang++-{version}" for version in range(21, 13, -1)))


def find_compiler() -> str | None:
    """Return the first Clang that has libFuzzer; None where there is none. CXX names another one."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.cc"
        source.write_text('extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n')
        for name in filter(shutil.which, (os.environ.get("CXX", ""), *COMPILERS)):
            command = [name, "-fsanitize=fuzzer,address", str(source), "-o", f"{folder}/empty"]
            if subprocess.run(command, capture_output=True).returncode == 0:
                return name
    return None


def build(compiler: str) -> Path:
    """Build the fuzzer; returns its path."""
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake") or "cmake"
    options = [f"-DCMAKE_CXX_COMPILER={compiler}", "-DINTACT_SANITIZE=fuzzer"]
    subprocess.run([cmake, "-S", str(ROOT), "-B", str(PLACE / "build"), *options], check=True)
    jobs = str(os.cpu_count() or 1)
    words = ["--build", str(PLACE / "build"), "--parallel", jobs, "--target", "native_fuzz_plans"]
    subprocess.run([cmake, *words], check=True)
    return PLACE / "build" / "native_fuzz_plans"


def sound_plans(graphs: int) -> Iterator[bytes]:
    """Yield small plans of random graphs and of kinds that these lack, half of them with their self-test."""
    models = [make(number).proto for number in range(graphs)]
    for graph in GRAPHS.values():
        net = Qdq()
        models.append(net.proto(*graph(net)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan"
        for number, model in enumerate(models):
            engine = Engine(lower(model), threads=1)
            if number % 2 == 0:
                engine.add_selftest()
            engine.save(path)
            yield path.read_bytes()


def write_seeds(folder: Path) -> None:
    """Write the seeds once."""
    if folder.is_dir():
        return
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for number, plan in enumerate((*seeds.good("plan"), *sound_plans(RANDOM_GRAPHS))):
        (fresh / f"{number}.plan").write_bytes(plan)
    fresh.rename(folder)


def main() -> int:
    """Fuzz until the time is over, or a fault is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    inputs = parser.parse_args()
    compiler = find_compiler()
    if compiler is None:
        print("no Clang with libFuzzer: install it, on Debian by apt-get install clang libclang-rt-dev")
        return 2
    program = build(compiler)
    write_seeds(PLACE / "seeds")
    (PLACE / "corpus").mkdir(exist_ok=True)
    limits = ["-timeout=20", "-rss_limit_mb=4096", "-max_len=65536", f"-max_total_time={inputs.seconds}"]
    # Processes that tell one another through the corpus; what they say is written to fuzz-<number>.log.
    processes = [f"-jobs={inputs.jobs}", f"-workers={inputs.jobs}", "-print_final_stats=1"]
    words = [str(program), *processes, *limits, f"-artifact_prefix={PLACE}/"]
    # What asks for more memory than there is gets an error, as without the sanitizer.
    sanitizer = {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1"}
    folders = [str(PLACE / "corpus"), str(PLACE / "seeds")]
    return subprocess.run([*words, *folders], cwd=PLACE, env=os.environ | sanitizer).returncode


if __name__ == "__main__":
    sys.exit(main())

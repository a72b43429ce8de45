"""Programs in C on the library: no allocation in a run, hostile plans, exported names."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.capi.library import CError, CPlan
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq
from tests.fuzz.graphs import make
from tests.loaders import seeds

from intact.engine.lower import lower

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "include"
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="a C compiler is needed, and Linux"
)


def compile_program(source: Path, library: Path, into: Path, *options: str) -> Path:
    """A program of one file that is linked with the library."""
    program = into / source.stem
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{INCLUDE}", *options]
    linked = [str(library), f"-Wl,-rpath,{library.parent}", "-pthread"]
    done = subprocess.run(
        [str(COMPILER), *flags, str(source), *linked, "-o", str(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return program


CPP = """
#include <cstdio>
#include "intact.hpp"
int main(int, char** argv) {
  const intact::Plan plan(argv[1], 1);
  intact::Session session(plan);
  session.prepare({{2, 6}});
  std::vector<float> x(12, 0.5f), y(session.output_size(0));
  session.run({x.data()}, {y.data()});
  std::printf("%s %zu %.6f\\n", plan.output(0).name, y.size(), static_cast<double>(y[7]));
  const std::vector<double> seconds = session.profile({x.data()}, {y.data()});
  std::printf("%s\\n", session.step(seconds.size() - 1).name);
  try {
    plan.selftest();
  } catch (const intact::Error& error) {
    std::printf("%d\\n", static_cast<int>(error.status()));
  }
  try {
    session.set_input_type(0, INTACT_INT8);
  } catch (const intact::Error& error) {
    std::printf("%d\\n", static_cast<int>(error.status()));
  }
  session.cancel();
  int pieces = 0;
  intact::Plan moved = intact::Plan(argv[2], 3, [&](intact::Piece piece, int count) {
    for (int i = count - 1; i >= 0; --i, ++pieces) piece(i);
  });
  const intact::Plan hosted = std::move(moved);
  intact::Session large(hosted);
  large.prepare({{300, 64}});
  std::vector<float> rows(300 * 64, 0.5f), sums(large.output_size(0));
  large.run({rows.data()}, {sums.data()});
  std::printf("%d %.6f\\n", pieces > 1, static_cast<double>(sums.back()));
  try {
    session.prepare({{2, 7}});
  } catch (const intact::Error& error) {
    std::printf("%d\\n", static_cast<int>(error.status()));
  }
}
"""


@needs_compiler
def test_the_header_for_cpp_frees_and_throws(c_library, tmp_path):
    net = Qdq()
    x = net.pair(net.input("x", ("n", 6)))
    engine = save_plan(
        lower(net.proto(net.node("MatMul", x, net.weight(6, 5, axis=None), name="y"))), tmp_path / "plan"
    )
    net = Qdq()
    x = net.pair(net.input("x", ("n", 64)))
    large = save_plan(
        lower(net.proto(net.node("MatMul", x, net.weight(64, 48, axis=None)))), tmp_path / "large"
    )
    (tmp_path / "program.cc").write_text(CPP)
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("a C++ compiler is needed")
    flags = ["-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
    linked = [str(c_library), f"-Wl,-rpath,{c_library.parent}", "-o", str(tmp_path / "program")]
    built = subprocess.run(
        [compiler, *flags, str(tmp_path / "program.cc"), *linked], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    words = [str(tmp_path / name) for name in ("program", "plan", "large")]
    ran = subprocess.run(words, capture_output=True, text=True)
    (y,) = engine.run({"x": np.full((2, 6), 0.5, np.float32)}).values()
    (sums,) = large.run({"x": np.full((300, 64), 0.5, np.float32)}).values()
    hosted = f"1 {sums.reshape(-1)[-1]:.6f}"
    assert ran.stdout.splitlines() == [f"y 10 {y.reshape(-1)[7]:.6f}", "y", "4", "1", hosted, "5"], ran.stderr


@needs_compiler
def test_a_prepared_session_runs_without_an_allocation(c_library, tmp_path):
    program = compile_program(ROOT / "tests" / "capi" / "allocations.c", c_library, tmp_path)
    tried = 0
    for seed in range(12):
        save_plan(lower(make(seed).proto), tmp_path / "model.plan")
        ran = count_allocations(program, tmp_path / "model.plan", 80, 20, *["hosted"] * (seed % 2))
        if ran.returncode != 2:  # sizes of 2 that do not fit it, or parts in ONNX Runtime
            assert ran.returncode == 0 and ran.stdout.startswith("0 0 0\n0 "), (seed, ran.stdout, ran.stderr)
            tried += 1
    assert tried > 5


@needs_compiler
@pytest.mark.slow
def test_a_million_runs_and_ten_thousand_openings_hold_no_more_memory(c_library, tmp_path):
    program = compile_program(ROOT / "tests" / "capi" / "allocations.c", c_library, tmp_path)
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, 12, 12)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 8, strides=[2, 2])))
    y = net.pair(net.node("Relu", net.node("Add", net.conv(y, 8, 8), y)))
    rows = net.node("Flatten", net.pair(net.node("GlobalAveragePool", y)))
    logits = net.node("MatMul", rows, net.weight(8, 5, axis=None))
    save_plan(lower(net.proto(net.node("Softmax", logits))), tmp_path / "model.plan")
    ran = count_allocations(program, tmp_path / "model.plan", 1_000_000, 10_000)
    assert ran.returncode == 0, ran.stderr
    runs, openings = ran.stdout.splitlines()
    assert runs == "0 0 0"
    blocks, kilobytes = map(int, openings.split())
    assert blocks == 0 and kilobytes <= 256  # what the heap leaves free may move by pages


def count_allocations(
    program: Path, plan: Path, runs: int, opens: int, *more: str
) -> subprocess.CompletedProcess[str]:
    """Runs on 4 threads at once, and opens and closes the plan; `allocations.c` says what it prints."""
    words = [str(program), str(plan), str(runs), "4", str(opens), *more]
    return subprocess.run(words, capture_output=True, text=True, timeout=3000)


@needs_compiler
def test_the_library_exports_its_interface_alone(c_library):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is needed")
    listed = subprocess.run([nm, "-D", "--defined-only", str(c_library)], capture_output=True, text=True)
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert names and all(name.startswith("intact_") for name in names), sorted(names)[:20]


def test_mutated_plans_end_in_errors(c_library, tmp_path):
    """In a process of its own: a crash is a finding. `hostile.cc` does the same under sanitizers."""
    for number in range(150):
        (tmp_path / f"{number}.plan").write_bytes(seeds.make("plan", number))
    code = (
        "import sys; from pathlib import Path; from tests.capi.test_c_programs import open_all;"
        "open_all(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    ran = subprocess.run(
        [sys.executable, "-c", code, str(c_library), str(tmp_path)],
        capture_output=True, text=True, timeout=600, env=environment,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


def open_all(library: Path, folder: Path) -> None:
    """Open and prepare every plan of a folder; errors of the library are what is expected."""
    for path in sorted(folder.glob("*.plan")):
        try:
            plan = CPlan(library, path)
            plan.close()
        except CError as error:
            assert error.status != 9, f"{path.name}: {error}"


def test_every_shortened_plan_is_refused(c_library, tmp_path):
    save_plan(lower(make(3).proto), tmp_path / "plan")
    data, dice = (tmp_path / "plan").read_bytes(), random.Random(0)
    assert CPlan(c_library, data).inputs
    for length in [0, 1, 7, 8, 9, 63, 64, *dice.sample(range(64, len(data)), 40)]:
        with pytest.raises(CError):
            CPlan(c_library, data[:length])

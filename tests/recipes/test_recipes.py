"""The recipes of CONTRIBUTING.md do what they say, on a copy of the sources."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from intact.kernels import cpu_features

from .conftest import RECIPES, ROOT, apply

IN_PYTHON = [name for name in RECIPES if name != "a kernel"]
MOST_FILES = {"a calibration method": 3, "an operator": 8, "a rewrite": 3, "a step": 5}
"""Most files that a recipe may touch: more means that something is written twice."""


def test_there_is_a_recipe_for_what_is_added_most_often() -> None:
    assert {
        "a placement rule",
        "an elementwise function",
        "a rewrite",
        "a calibration method",
        "a kernel",
        "a step",
        "a backend",
    } <= set(RECIPES)
    assert all(RECIPES.values())


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_touches_few_files_once_each(name: str) -> None:
    paths = [block.path for block in RECIPES[name]]
    assert len(set(paths)) == len(paths) <= MOST_FILES.get(name, 4)


@pytest.mark.parametrize("name", IN_PYTHON)
def test_the_example_works(name: str, tree: Path) -> None:
    tests = [block.path for block in RECIPES[name] if block.path.startswith("tests/")]
    assert tests
    apply(RECIPES[name], tree)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tree), "-p",
               "no:cacheprovider", "--import-mode=importlib", *tests]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(tree / "src")
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(tree) in _where(tree, environment), "the copy is what was tried"


def _where(tree: Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", "import intact; print(intact.__file__)"]
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=True
    ).stdout


RUFF = Path(sys.executable).with_name("ruff")


@pytest.mark.skipif(not RUFF.exists(), reason="no ruff in this environment: it has the lowest versions alone")
@pytest.mark.parametrize("name", IN_PYTHON)
def test_the_example_is_written_as_our_code_is(name: str, tree: Path) -> None:
    apply(RECIPES[name], tree)
    shutil.copy(ROOT / "pyproject.toml", tree)
    touched = [block.path for block in RECIPES[name] if block.path.endswith(".py")]
    for verb in (["check"], ["format", "--check"]):
        command = [str(RUFF), *verb, "--no-cache", *touched]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_home_of_the_step_compiles(tree: Path) -> None:
    """Its bits are tried where the library is built with it: the example's own tests run every backend."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None or sys.platform == "win32":
        pytest.skip("needs a compiler")
    apply(RECIPES["a step"], tree)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{tree / 'csrc'}",
               f"-I{ROOT / 'include'}", str(tree / "csrc/engine/kinds/reverse.cc")]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "INTACT_KIND(reverse)" in (tree / "csrc/engine/kinds.inc").read_text("utf-8")


def test_the_function_has_the_bits_of_its_meaning(tree: Path) -> None:
    """Compiled alone with its family, and looked up by its name."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None or sys.platform == "win32":
        pytest.skip("needs a compiler")
    apply(RECIPES["an elementwise function"], tree)
    program = str(tree / "driver")
    sources = [tree / "csrc/kernels/float_steps/reference.cc", Path(__file__).with_name("function.cc")]
    command = [compiler, "-std=c++20", "-O1", "-ffp-contract=off", f"-I{tree / 'csrc'}", *map(str, sources)]
    built = subprocess.run([*command, "-o", program], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    x = np.arange(-100, 101, dtype=np.float32) / np.float32(16)
    want = np.clip(x * np.float32(0.2) + np.float32(0.5), np.float32(0), np.float32(1))
    done = subprocess.run([program, "keras_hard_sigmoid"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert [float.fromhex(line) for line in done.stdout.split()] == want.tolist()


def test_the_kernel_gives_the_bits_of_the_others(tree: Path) -> None:
    """Compiled alone with its family, and driven by a list that follows from the family's own."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None or platform.machine() not in ("x86_64", "AMD64") or sys.platform == "win32":
        pytest.skip("needs a compiler for x86")
    (tree / "CMakeLists.txt").write_text((ROOT / "CMakeLists.txt").read_text("utf-8"), "utf-8")
    apply(RECIPES["a kernel"], tree)
    family, driver = tree / "csrc/kernels/transpose", Path(__file__).with_name("transpose.cc")
    flags = _flags((tree / "CMakeLists.txt").read_text("utf-8"))
    objects = []
    for source in (*sorted(family.glob("*.cc")), driver):
        objects.append(str(tree / f"{source.stem}.o"))
        options = [
            "-std=c++20",
            "-O1",
            "-ffp-contract=off",
            f"-I{tree / 'csrc'}",
            *flags.get(source.stem, []),
        ]
        command = [compiler, *options, "-c", str(source), "-o", objects[-1]]
        built = subprocess.run(command, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
    program = str(tree / "driver")
    subprocess.run([compiler, *objects, "-o", program], check=True)
    features = [name for name, is_present in cpu_features().items() if is_present]
    done = subprocess.run([program, *features], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "transpose_avx2: 0 differ" in done.stdout or "avx2" not in features
    assert "transpose_avx512: 0 differ" in done.stdout or "avx512" not in features


def _flags(cmake: str) -> dict[str, list[str]]:
    """Return the compiler flags of the files of an instruction set, by name."""
    result = {}
    for isa in ("AVX2", "AVX512"):
        flags = re.search(rf"set\({isa}_FLAGS (-[^)]*)\)", cmake)
        assert flags
        result[f"x86_{isa.lower()}"] = flags[1].split()
    return result

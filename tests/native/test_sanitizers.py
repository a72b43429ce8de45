"""The native runtime and the native steps under sanitizers, in programs of their own.

The module is `checking.py`'s, which `make check-native` runs: it takes many minutes to compile.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.capi.guided_plans import sound_plans
from tests.loaders import seeds

ROOT = Path(__file__).parents[2]
CMAKE = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
COMPILER = shutil.which("c++")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CMAKE is None, reason="no CMake"),
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are those of Linux"),
]


def write_mutated_plans(folder: Path) -> list[str]:
    """Write plan files that no engine wrote; the C library must refuse or run each."""
    paths = [folder / f"{number}.plan" for number in range(1000)]
    for number, path in enumerate(paths):
        path.write_bytes(seeds.make("plan", number))
    return [str(path) for path in (*paths, *sorted((seeds.CORPUS / "plan").iterdir()))]


def write_sound_plans(folder: Path) -> list[str]:
    """Write the plans that mutations in C++ begin with."""
    paths = []
    for number, plan in enumerate(sound_plans(graphs=40)):
        paths.append(folder / f"{number}.sound")
        paths[-1].write_bytes(plan)
    return [str(path) for path in paths]


def hostile_arguments(folder: Path) -> list[list[str]]:
    """Return the arguments of two runs of the program that opens plans."""
    return [write_mutated_plans(folder), ["--mutate", "3000", *write_sound_plans(folder)]]


@pytest.mark.parametrize(
    ("sanitizer", "programs"),
    [
        ("thread", ("executor", "checked")),
        ("address", ("executor", "checked", "program")),
        ("address", ("steps", "families", "hostile")),  # which share the kernels: these are compiled once
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_sanitized(sanitizer: str, programs: tuple[str, ...], tmp_path: Path) -> None:
    targets = [f"native_{program}" for program in programs]
    for step in (
        ["-S", str(ROOT), "-B", str(tmp_path), f"-DINTACT_SANITIZE={sanitizer}"],
        ["--build", str(tmp_path), "--parallel", "2", "--target", *targets],
    ):
        built = subprocess.run([str(CMAKE), *step], capture_output=True, text=True)
        assert built.returncode == 0, built.stdout + built.stderr
    for program, target in zip(programs, targets, strict=True):
        for words in hostile_arguments(tmp_path) if program == "hostile" else [[]]:
            ran = subprocess.run(
                [str(tmp_path / target), *words], capture_output=True, text=True, timeout=900
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
    if sanitizer == "address" and "checked" in programs:
        read = subprocess.run([str(tmp_path / "native_checked"), "outside"], capture_output=True, text=True)
        assert read.returncode != 0 and "use-after-poison" in read.stderr, read.stderr

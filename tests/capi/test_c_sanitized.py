"""The C library under the address and the undefined-behavior sanitizer, on mutated plans."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.loaders import seeds

ROOT = Path(__file__).parents[2]
CMAKE = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CMAKE is None, reason="no CMake"),
    pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are those of Linux"),
]


def test_mutated_plans_harm_nothing(tmp_path):
    for step in (
        ["-S", str(ROOT), "-B", str(tmp_path / "build"), "-DINTACT_SANITIZE=address"],
        ["--build", str(tmp_path / "build"), "--parallel", "2", "--target", "native_hostile"],
    ):
        built = subprocess.run([str(CMAKE), *step], capture_output=True, text=True)
        assert built.returncode == 0, built.stdout + built.stderr
    for number in range(1000):
        (tmp_path / f"{number}.plan").write_bytes(seeds.make("plan", number))
    paths = sorted(map(str, tmp_path.glob("*.plan")))
    ran = subprocess.run(
        [str(tmp_path / "build" / "native_hostile"), *paths], capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

"""A C library for a few models: what CMake leaves out, for a list of kinds and a level of instructions."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CMAKE = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(
    CMAKE is None or shutil.which("c++") is None or sys.platform != "linux", reason="CMake and a compiler"
)


def configure(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [
        str(CMAKE), "-S", str(ROOT), "-B", str(folder / "build"), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        *options,
    ]  # fmt: skip
    return subprocess.run(words, capture_output=True, text=True, timeout=600)


@pytest.fixture
def kinds(tmp_path) -> Path:
    (tmp_path / "model.kinds").write_text("# of a model\nconv\npool\n# of another\nconv\nquantize\n")
    return tmp_path / "model.kinds"


def commands(folder: Path) -> dict[str, str]:
    entries = json.loads((folder / "build" / "compile_commands.json").read_text())
    sources = {Path(entry["file"]): entry["command"] for entry in entries}
    ours = {path: command for path, command in sources.items() if path.is_relative_to(ROOT)}
    assert all("cmake_pch" in path.name for path in sources.keys() - ours), "what CMake writes itself"
    return {str(path.relative_to(ROOT)): command for path, command in ours.items()}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86")
def test_a_list_and_a_level_leave_out_all_else(tmp_path, kinds):
    done = configure(tmp_path, "-DINTACT_PYTHON=OFF", f"-DINTACT_KINDS={kinds}", "-DINTACT_ISA=avx2")
    assert done.returncode == 0, done.stderr
    chosen = (tmp_path / "build" / "chosen_kinds.inc").read_text()
    assert re.findall(r"INTACT_KIND\((\w+)\)", chosen) == ["conv", "pool", "quantize"]
    by_file = commands(tmp_path)
    assert "chosen_kinds.inc" in by_file["csrc/engine/kinds.cc"]
    registry = by_file["csrc/kernels/registry.cc"]
    assert "isa::avx2" in registry and "isa::avx512" not in registry
    (built,) = re.findall(r'INTACT_BUILT_FAMILIES=\\"([\w,]+)\\"', registry)
    assert {"gemm", "pool", "quantize", "transpose"} <= set(built.split(","))
    assert not {"depthwise", "elementwise", "float_gemm"} & set(built.split(","))
    assert "csrc/kernels/gemm/x86_avx2.cc" in by_file and "csrc/kernels/depthwise/reference.cc" in by_file
    assert not [name for name in by_file if "avx512" in name or "depthwise/x86" in name]


def test_groups_want_their_kernels(tmp_path, kinds):
    kinds.write_text(kinds.read_text() + "depthwise\n")
    done = configure(tmp_path, "-DINTACT_PYTHON=OFF", f"-DINTACT_KINDS={kinds}")
    assert done.returncode == 0, done.stderr
    fast = ("csrc/kernels/depthwise/x86", "csrc/kernels/depthwise/neon")
    assert any(name.startswith(fast) for name in commands(tmp_path))
    assert "depthwise" in commands(tmp_path)["csrc/kernels/registry.cc"].split("INTACT_BUILT_FAMILIES")[1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-DINTACT_PYTHON=OFF", "-DINTACT_ISA=sse"], "sse is none of"),
        (["-DINTACT_PYTHON=ON", "-DINTACT_ISA=avx2"], "for the C library alone"),
        (["-DINTACT_PYTHON=OFF", "-DINTACT_KINDS={kinds}"], "onnx is no kind of step"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, kinds, options, text):
    kinds.write_text("conv\nonnx\n")
    done = configure(tmp_path, *(option.format(kinds=kinds) for option in options))
    assert done.returncode != 0 and text in " ".join(done.stderr.split())


def test_the_whole_library_has_every_family(tmp_path):
    done = configure(tmp_path, "-DINTACT_PYTHON=OFF")
    assert done.returncode == 0, done.stderr
    assert "INTACT_BUILT" not in commands(tmp_path)["csrc/kernels/registry.cc"]

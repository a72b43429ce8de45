"""Kernels of instruction sets that this machine lacks: emulated, or through instructions that do the same."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from intact.kernels import cpu_features, kernel_list

ROOT = Path(__file__).parents[2]
GEMM = ROOT / "csrc/kernels/gemm"
MATMUL = ROOT / "csrc/kernels/matmul"
COMMON = {
    GEMM: [
        *(GEMM / f"{name}.cc" for name in ("cells", "pack", "groups")),
        ROOT / "csrc/base/cpu.cc",
        ROOT / "csrc/runtime/balance.cc",
        ROOT / "csrc/runtime/step.cc",
        ROOT / "csrc/steps/conv.cc",
        ROOT / "csrc/steps/conv/conv_tiles.cc",
    ],
    MATMUL: [ROOT / "csrc/steps/matmul.cc", ROOT / "csrc/runtime/step.cc"],
}
OPTIONS = ["-std=c++20", "-O2", "-ffp-contract=off", "-w", f"-I{ROOT / 'csrc'}"]
AVX512 = [
    "-mavx2", "-mf16c", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni",
]  # fmt: skip
WATCHED = ["-fsanitize=address", "--param=asan-instrumentation-with-call-threshold=0"]
"""Calls that check each access: in line they take twice as long to compile."""
ARM = ["-march=armv8.2-a+dotprod", "-DINTACT_NEON_DOT", "-static"]
ARM_COMPILER = shutil.which("aarch64-linux-gnu-g++")
ARM_EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
X86 = platform.machine() in ("x86_64", "AMD64")

pytestmark = pytest.mark.slow


def compile_and_run(command: list[str], *run: str) -> str:
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([*run], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def sources_of(family: Path, *kernels: str) -> list[str]:
    """The driver of a family, what it needs, and the files of its kernels."""
    files = [family / f"{name}.cc" for name in ("reference", *kernels)]
    return [str(path) for path in (*COMMON[family], *files, ROOT / f"tests/native/{family.name}.cc")]


on_arm = pytest.mark.skipif(
    ARM_COMPILER is None or ARM_EMULATOR is None, reason="no compiler for Arm, or no emulator of it"
)


def compile_and_run_on_arm(driver: Path, sources: list[str]) -> str:
    command = [str(ARM_COMPILER), *OPTIONS, *ARM, *sources, "-o", str(driver)]
    return compile_and_run(command, str(ARM_EMULATOR), "-cpu", "max", str(driver))


@on_arm
@pytest.mark.parametrize("family", [GEMM, MATMUL], ids=lambda family: family.name)
def test_arm(tmp_path, family):
    printed = compile_and_run_on_arm(tmp_path / "driver", sources_of(family, "neon_dot"))
    assert f"{family.name}_neondot: 0 of" in printed


@on_arm
def test_every_family_has_a_kernel_for_arm_that_gives_the_bits_of_the_plain_one(tmp_path):
    kernels = ("csrc/kernels/*/*.cc", "csrc/kernels/registry.cc", "csrc/base/cpu.cc")
    checks = ("tests/native/families.cc", "tests/native/families/*.cc")
    sources = [str(path) for pattern in (*kernels, *checks) for path in ROOT.glob(pattern)]
    printed = compile_and_run_on_arm(tmp_path / "driver", sources)
    same = set(re.findall(r"^(\w+): 0 of \d+ differ$", printed, re.MULTILINE))
    families = {name.removesuffix("_ref") for name in same if name.endswith("_ref")}
    assert families == {kernel.family for kernel in kernel_list()}
    assert all(same & {f"{family}_neon", f"{family}_neondot"} for family in families)


@pytest.mark.parametrize("family", [GEMM, MATMUL], ids=lambda family: family.name)
@pytest.mark.skipif(not X86 or shutil.which("g++") is None, reason="no compiler for x86")
def test_avx_vnni_through_avx512(tmp_path, cpu_vnni, family):
    driver, kernel = str(tmp_path / "driver"), f"{family.name}_avxvnni"
    sources = sources_of(family, "x86_avxvnni", "x86_avx2", "x86_avx512")
    command = ["g++", *OPTIONS, *AVX512, "-DINTACT_AVXVNNI", *sources, "-o", driver]
    assert f"{kernel}: 0 of" in compile_and_run(command, driver, kernel)


@pytest.mark.skipif(
    not X86 or sys.platform != "linux", reason="the emulator of tiles is one for Linux on x86"
)
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler for x86")
def test_gemm_of_amx_instruction_by_instruction(tmp_path, cpu_vnni):
    """Machine code for AMX, under an emulator whose reads and writes a sanitizer watches.

    On a machine that has the tiles it runs there."""
    amx = [*AVX512, "-mamx-tile", "-mamx-int8", "-DINTACT_AMX"]
    source = tmp_path / "knows.cc"
    source.write_text("#include <immintrin.h>\nint main() { _tile_dpbusd(0, 1, 2); }\n")
    if subprocess.run(["g++", *amx, "-c", str(source), "-o", os.devnull], capture_output=True).returncode:
        pytest.skip("this compiler does not know the tiles")
    driver = str(tmp_path / "driver")
    sources = sources_of(GEMM, "x86_amx", "x86_avx2", "x86_avx512")
    printed = compile_and_run(["g++", *OPTIONS, *amx, *WATCHED, *sources, "-o", driver], driver, "gemm_amx")
    assert "gemm_amx: 0 of" in printed
    emulated = int(printed.splitlines()[-1].removesuffix(" products of tiles were emulated"))
    assert emulated > 1000 or cpu_features()["amx"]


@pytest.fixture
def cpu_vnni():
    if not cpu_features()["vnni"]:
        pytest.skip("this machine has no vpdpbusd")

"""Plans that were built here have the same codes in the C library on other instruction sets, Arm included."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.capi.classification import classification
from tests.capi.generation import generation
from tests.capi.guided_plans import sound_plans
from tests.capi.test_c_programs import INCLUDE, ROOT, compile_program, needs_compiler
from tests.capi.test_small_library import CMAKE
from tests.loaders.seeds import plan_parts
from tests.native.test_other_machines import ARM_COMPILER, ARM_EMULATOR, on_arm

from intact.numerics import CACHE_DTYPES

SELFTESTS = ROOT / "tests" / "capi" / "selftests.c"
ARM_C_COMPILER = shutil.which("aarch64-linux-gnu-gcc")
X86_LEVELS = ["none", "avx2", "avxvnni", "avx512", "amx"]
LEVELS = X86_LEVELS if platform.machine() in ("x86_64", "AMD64") else ["none", "neon"]


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> list[str]:
    """Small plans with a self-test, of many kinds of steps, none of which needs ONNX Runtime."""
    folder, paths = tmp_path_factory.mktemp("plans"), []
    for number, plan in enumerate(sound_plans(graphs=60)):
        content = _content(plan)
        if content.get("selftest") and not {"onnx", "custom"} & {step["kind"] for step in content["steps"]}:
            paths.append(folder / f"{number}.plan")
            paths[-1].write_bytes(plan)
    assert len(paths) > 25
    return [str(path) for path in paths]


def _content(plan: bytes) -> dict:
    try:
        return plan_parts(plan)[0]
    except (ValueError, KeyError):
        return {}  # a damaged file of the corpus


def lines_of(*words: object) -> list[str]:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=1800)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


@needs_compiler
@pytest.mark.parametrize("max_isa", LEVELS)
def test_every_level_of_instructions_passes_the_selftests(max_isa, c_library, plans, tmp_path):
    program = compile_program(SELFTESTS, c_library, tmp_path)
    for threads in (1, 2):
        assert lines_of(program, max_isa, threads, *plans) == ["0 "] * len(plans)


@needs_compiler
@pytest.mark.parametrize("max_isa", LEVELS)
def test_every_level_of_instructions_generates_these_tokens(max_isa, c_library, tmp_path, monkeypatch):
    program = compile_program(ROOT / "examples" / "c" / "generate.c", c_library, tmp_path)
    tasks = [generation(tmp_path / cache, "llama", cache=cache) for cache in CACHE_DTYPES]
    monkeypatch.setenv("INTACT_MAX_ISA", max_isa)
    assert [lines_of(program, *task.words) for task in tasks] == [[task.line] for task in tasks]


@pytest.fixture(scope="module")
def arm_library(tmp_path_factory) -> Path:
    """The static library for Arm, built by CMake as without Python."""
    folder = tmp_path_factory.mktemp("arm")
    words = [
        "-S", ROOT, "-B", folder, "-DINTACT_PYTHON=OFF", "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={ARM_COMPILER}",
    ]  # fmt: skip
    lines_of(CMAKE, *words)
    lines_of(CMAKE, "--build", folder, "--parallel", 2, "--target", "intact_static")
    return folder / "libintact.a"


def compile_for_arm(source: Path, library: Path, into: Path) -> Path:
    program = into / source.stem
    flags = ["-std=c99", "-O1", "-DINTACT_STATIC", f"-I{INCLUDE}", "-static"]
    linked = [library, "-lstdc++", "-lpthread", "-lm"]
    lines_of(ARM_C_COMPILER, *flags, source, *linked, "-o", program)
    return program


@on_arm
@pytest.mark.slow
@pytest.mark.skipif(CMAKE is None or ARM_C_COMPILER is None, reason="no CMake, or no C compiler for Arm")
def test_the_library_for_arm_has_the_codes_of_this_machine(arm_library, plans, tmp_path, rng):
    task = classification(tmp_path, rng)
    example = compile_for_arm(ROOT / "examples" / "c" / "classify.c", arm_library, tmp_path)
    assert lines_of(ARM_EMULATOR, "-cpu", "max", example, task.plan, task.image) == task.lines
    text = generation(tmp_path, "llama")
    generate = compile_for_arm(ROOT / "examples" / "c" / "generate.c", arm_library, tmp_path)
    assert lines_of(ARM_EMULATOR, "-cpu", "max", generate, *text.words) == [text.line]
    program = compile_for_arm(SELFTESTS, arm_library, tmp_path)
    for processor, max_isa in (("max", "neon"), ("cortex-a53", "neon"), ("max", "none")):
        words = (ARM_EMULATOR, "-cpu", processor, program, max_isa, 1, *plans)
        assert lines_of(*words) == ["0 "] * len(plans), (processor, max_isa)

"""The example programs in C, Python with ctypes, and Rust print what the engine says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.capi.classification import classification
from tests.capi.generation import generation
from tests.capi.test_c_programs import ROOT, compile_program, needs_compiler

EXAMPLES = ROOT / "examples"
RUSTC = shutil.which("rustc") or next(
    (str(path) for path in [Path.home() / ".cargo/bin/rustc"] if path.is_file()), None
)


def lines_of(*words):
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture(params=[False, True], ids=["floats", "codes"])
def task(request, tmp_path, rng):
    return classification(tmp_path, rng, request.param)


@needs_compiler
def test_c_classifies_as_the_engine_does(c_library, tmp_path, task):
    program = compile_program(EXAMPLES / "c" / "classify.c", c_library, tmp_path)
    assert lines_of(program, task.plan, task.image) == task.lines


@needs_compiler
@pytest.mark.parametrize(
    ("family", "cache"), [("llama", "float32"), ("llama", "float16"), ("gemma3", "int8")]
)
def test_c_generates_as_the_engine_does(c_library, tmp_path, family, cache):
    program = compile_program(EXAMPLES / "c" / "generate.c", c_library, tmp_path)
    task = generation(tmp_path, family, cache=cache)
    assert lines_of(program, *task.words) == [task.line]


def test_ctypes_classifies_as_the_engine_does(c_library, task):
    program = EXAMPLES / "ctypes" / "classify.py"
    assert lines_of(sys.executable, program, c_library, task.plan, task.image) == task.lines


@pytest.fixture(scope="module")
def rust_program(c_library, tmp_path_factory):
    if RUSTC is None or sys.platform != "linux":
        pytest.skip("rustc is needed, such as Debian's, and Linux")
    folder = tmp_path_factory.mktemp("rust")
    (folder / "libintact.so").symlink_to(c_library)
    built = subprocess.run(
        [
            RUSTC, "--edition", "2021", "-D", "warnings", "-O", str(EXAMPLES / "rust" / "classify.rs"),
            "-L", f"native={folder}", "-l", "dylib=intact", "-C", f"link-arg=-Wl,-rpath,{c_library.parent}",
            "-o", str(folder / "classify"),
        ],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder / "classify"


def test_rust_classifies_as_the_engine_does(rust_program, task):
    assert lines_of(rust_program, task.plan, task.image) == task.lines


def test_rust_reports_what_the_library_says(rust_program, tmp_path):
    (tmp_path / "model.plan").write_bytes(b"no plan")
    (tmp_path / "image.ppm").write_bytes(b"P6\n1 1\n255\n")
    ran = subprocess.run(
        [str(rust_program), str(tmp_path / "model.plan"), str(tmp_path / "image.ppm")],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert ran.returncode == 1 and str(tmp_path / "model.plan") in ran.stderr

"""The flags that `intact-config` prints build and run a program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.capi.test_c_programs import COMPILER, needs_compiler

import intact
from intact._installation import config

PROGRAM = """
#include <intact.h>
int main(void) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  intact_plan* plan = 0;
  return intact_open("no such file", 0, &plan, &error) == INTACT_OK;
}
"""


@needs_compiler
def test_a_program_is_built_by_its_flags(
    c_library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config(["--cflags", "--libs"]) == 0
    flags = capsys.readouterr().out.split()
    (tmp_path / "a.c").write_text(PROGRAM)
    assert COMPILER is not None
    subprocess.run([COMPILER, tmp_path / "a.c", *flags, "-o", tmp_path / "a"], check=True, timeout=600)
    assert subprocess.run([tmp_path / "a"], timeout=600).returncode == 0


def test_paths_are_those_of_the_package(c_library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config(["--library", "--includedir"]) == 0
    assert capsys.readouterr().out == f"{intact.get_library()} {intact.get_include()}\n"


def test_the_library_for_onnx_runtime_is_apart(
    c_library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / c_library.name).touch()
    assert config(["--library"], tmp_path) == 0
    assert config(["--onnxruntime"], tmp_path) == 1
    (tmp_path / "lib" / "libintact_onnxruntime.so").touch()
    capsys.readouterr()
    assert config(["--onnxruntime"], tmp_path) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'lib' / 'libintact_onnxruntime.so'}\n"


def test_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config([]) == config(["--version"]) == 2
    assert "usage" in capsys.readouterr().err
    assert config(["--libs"], tmp_path) == 1
    assert "without the C library" in capsys.readouterr().err

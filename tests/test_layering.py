"""Imports point down, and the light rooms load without the heavy frameworks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BLOCKED_IMPORT = """
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked here")

sys.meta_path.insert(0, Blocked())
importlib.import_module({module!r})
"""


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_layers_contract_holds() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "module",
    [
        "intact",
        "intact.numerics",
        "intact.kernels",
        "intact.calib",
        "intact.engine",
        "intact.report",
        "intact.cli",
    ],
)
def test_a_light_room_loads_where_the_frameworks_are_blocked(module: str) -> None:
    blocked = ("torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript")
    done = run_python(BLOCKED_IMPORT.format(module=module, blocked=blocked))
    assert done.returncode == 0, done.stderr


def test_the_graph_loads_where_torch_is_blocked() -> None:
    done = run_python(BLOCKED_IMPORT.format(module="intact.graph", blocked=("torch",)))
    assert done.returncode == 0, done.stderr


def test_the_block_of_these_tests_blocks() -> None:
    done = run_python(BLOCKED_IMPORT.format(module="torch", blocked=("torch",)))
    assert done.returncode != 0 and "torch is blocked here" in done.stderr


def test_import_intact_loads_nothing_heavy() -> None:
    done = run_python("import sys, intact; print(*sorted(sys.modules))")
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    heavy = {"torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "safetensors", "typer", "rich",
             "jinja2", "plotly", "yaml", "importlib_metadata"}  # fmt: skip
    assert "intact" in loaded
    assert loaded & heavy == set()

"""onnx_ir comes without SymPy, and gets it when it needs it (docs/decisions/0014)."""

from __future__ import annotations

import subprocess
import sys

import pytest

WAITS = """
import sys
import intact.graph
import onnx_ir
assert "sympy" not in sys.modules, "imported early"
"""
COMPUTES = """
import onnx_ir
sum = onnx_ir.SymbolicDim("N") + 3
assert "N" in str(sum) and "3" in str(sum), sum
assert type(sys.modules["sympy"]).__name__ == "module"
"""
CASES = {
    "never asked for": WAITS,
    "asked for later": WAITS + COMPUTES,
    "there before": "import sys, sympy\nimport intact.graph\n" + COMPUTES,
    "another thread runs": "import sys, threading\nstop = threading.Event()\n"
    "threading.Thread(target=stop.wait, daemon=True).start()\n"
    "import intact.graph\nassert 'sympy' in sys.modules\n" + COMPUTES,
}


@pytest.mark.parametrize("case", CASES)
def test_sympy_waits(case: str) -> None:
    command = [sys.executable, "-c", CASES[case]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr

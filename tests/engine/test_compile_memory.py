"""`intact.compile` takes little memory beside the weights, and gives it back."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from intact.engine.lower import lower, stages
from intact.free_memory import tidying
from intact.graph import load

PEAK = """
import sys
from pathlib import Path
import intact
import intact.engine.lower
import numpy as np

def peak():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024

intact.compile(sys.argv[1], threads=1)(np.zeros((1, 16, 4, 4), np.float32))
before = peak()
engine = intact.compile(sys.argv[2], threads=1)
engine.prepare({"x": (1, 512, 4, 4)})
print(peak() - before, sum(array.nbytes for array in engine.plan.constants.values()) / 2**20)
"""

LIGHT = """
import sys
import intact.graph
assert "sympy" not in sys.modules
import onnx_ir
from onnx_ir import SymbolicDim
assert SymbolicDim("n").value == "n" and "sympy" not in sys.modules
assert (SymbolicDim("n") + 1).evaluate({"n": 3}) == 4
assert SymbolicDim("max(n, 4)").evaluate({"n": 2}) == 4
import sympy
assert isinstance(sympy.Symbol("n") + 1, sympy.Expr) and sympy.__version__
assert SymbolicDim(sympy.Symbol("n") * 2).evaluate({"n": 3}) == 6
try:
    SymbolicDim(2.5)
except TypeError:
    print("right")
"""


def run(code: str, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def chain(qdq, channels: int, layers: int) -> bytes:
    net = qdq()
    x = net.pair(net.input("x", (1, channels, 4, 4)))
    for _ in range(layers):
        x = net.pair(net.node("Relu", net.conv(x, channels, channels)))
    return net.proto(x).SerializeToString()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_weights_are_held_three_times_at_most(qdq, tmp_path: Path) -> None:
    """As the file's bytes and a message, then as constants and packed; large sums are formed in pieces."""
    for name, channels, layers in (("small", 16, 1), ("large", 512, 5)):
        (tmp_path / f"{name}.onnx").write_bytes(chain(qdq, channels, layers))
    peak, weights = map(float, run(PEAK, tmp_path / "small.onnx", tmp_path / "large.onnx").split())
    assert weights > 11 and peak < 3 * weights + 4


def test_sizes_that_are_names_are_computed_with_when_somebody_does() -> None:
    assert run(LIGHT) == "right"


def test_sympy_that_is_there_already_stays() -> None:
    code = "import sys, sympy; import intact.graph, onnx_ir; print(onnx_ir._core.sympy is sympy)"
    assert run(code) == "True"


def test_another_thread_never_meets_half_a_module() -> None:
    code = (
        "import sys, threading; stop = threading.Event(); t = threading.Thread(target=stop.wait); t.start()\n"
        "import intact.graph; print('sympy' in sys.modules); stop.set()"
    )
    assert run(code) == "True"


class Ring:
    """Holds itself."""

    alive = 0

    def __init__(self) -> None:
        Ring.alive += 1
        self.me = self

    def __del__(self) -> None:
        Ring.alive -= 1


def test_what_holds_itself_is_freed_and_older_things_are_left_alone() -> None:
    gc.disable()
    try:
        Ring()  # older, and another's garbage
        with tidying():
            Ring()
            assert Ring.alive == 2
        assert Ring.alive == 1 and gc.get_freeze_count() == 0
    finally:
        gc.enable()
        gc.collect()


def test_the_graph_is_freed_when_lower_returns(qdq, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = list[weakref.ref]()

    def load_and_watch(source):
        model = load(source)
        loaded.append(weakref.ref(model.graph))
        return model

    monkeypatch.setattr(stages, "load", load_and_watch)
    lower(chain(qdq, 16, 2))
    assert len(loaded) == 1 and loaded[0]() is None


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with tidying():
            pass
        assert gc.get_freeze_count() > before // 2 > 0  # some are freed, by those who hold them
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("shared", [True, False], ids=["a file's bytes", "an array that may change"])
def test_a_weight_that_may_change_is_copied(qdq, shared: bool) -> None:
    """The plan holds a matrix where the model does, but not where its owner could write to it."""
    net = qdq()
    net.node("Gemm", net.pair(net.input("x", (1, 8))), net.weight(8, 8), transB=1, name="y")
    model = load(net.proto("y").SerializeToString())
    (codes,) = (v for v in model.graph.initializers.values() if v.shape == (8, 8))
    array = codes.const_value.numpy().copy()
    array.flags.writeable = not shared
    codes.const_value = ir.Tensor(array, dtype=codes.dtype, name=codes.name)
    plan = lower(model)
    assert np.shares_memory(plan.constants["y.weight"], array) == shared
    assert np.array_equal(plan.constants["y.weight"], array)

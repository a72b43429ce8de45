"""Calls of the system that fail on demand, and everything in INTact that writes a file.

`Faults` counts the calls that `intact.atomic` makes of the system, and lets the n-th of them fail: opening,
writing, syncing, naming, asking. Nothing else in INTact writes: `test_faults_places.py` sees to that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from intact import atomic
from intact.calib import Calibration, TrtCache

CALLS = ("open", "stat", "link", "replace", "fsync", "fchmod", "fchown", "fstat", "lseek", "dup")
"""Of `os`. `unlink` is not among them: what cannot be removed stays."""
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N,4] x) => (float[N,300] y) <float s = {0.1}, int8 z = {0}> {
  q = QuantizeLinear(x, s, z)
  d = DequantizeLinear(q, s, z)
  w = DequantizeLinear(codes, s, z)
  y = MatMul(d, w)
}"""


class Faults:
    """Counts calls; call number `at` raises `error`.

    Attributes:
        calls: The names of the calls so far.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at, self.calls = -1, list[str]()
        self.error: BaseException | None = None
        for name in CALLS:
            if hasattr(os, name):
                patch.setattr(os, name, self._failing(name, getattr(os, name)))
        faults = self  # of the class below

        class Failing(FileIO):
            def write(self, data: Any) -> int:
                faults.note_call("write")
                return super().write(data)

        # In the order of resolution `Failing` stands between `_Raw` and the system.
        patch.setattr(atomic, "_Raw", type("_Raw", (atomic._Raw, Failing), {}))

    def arm(self, at: int, error: BaseException | None = None) -> None:
        """Let call number `at`, from 0, raise `error`; -1: none."""
        self.at, self.error, self.calls = at, error, []

    def note_call(self, name: str) -> None:
        """One call."""
        self.calls.append(name)
        if len(self.calls) - 1 == self.at and self.error is not None:
            raise self.error

    def _failing(self, name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def call(*inputs: Any, **named: Any) -> Any:
            frame = sys._getframe(1)
            near = [frame, frame.f_back, frame.f_back and frame.f_back.f_back]
            if any(f is not None and f.f_globals.get("__name__") == "intact.atomic" for f in near):
                self.note_call(name)
            return do(*inputs, **named)

        return call


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Armed with nothing."""
    return Faults(monkeypatch)


def model(value: float) -> onnx.ModelProto:
    """A Q/DQ model whose weights follow from `value`, and are worth a file of their own."""
    proto = onnx.parser.parse_model(MODEL)
    codes = np.full((4, 300), round(100 * value), np.int8)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(codes, "codes"))
    return proto


def _engine(path: Path, value: float) -> None:
    import intact

    intact.compile(model(value), threads=1).save(path)


def _onnx(path: Path, value: float) -> None:
    from intact.graph import load, save

    save(load(model(value)), path)


def _pair(path: Path, value: float) -> None:
    from intact.graph import load, save

    save(load(model(value)), path, external=True)


def _bytes(path: Path, value: float) -> None:
    from intact.graph import write_model

    write_model(model(value).SerializeToString(), path)


def _calib(path: Path, value: float) -> None:
    calibration = Calibration()
    calibration.collect("x", np.full(8, value, np.float32))
    calibration.save(path)


def _cache(path: Path, value: float) -> None:
    TrtCache({"x": np.float32(value)}).save(path)


def _page(path: Path, value: float) -> None:
    from intact.report.html_page import Page, write_page

    write_page(Page(str(value)), path)


def _npz(path: Path, value: float) -> None:
    from intact.cli.verbs.run import _write_npz

    _write_npz(path, {"y": np.full(9, value, np.float32), "file": np.zeros(3)})


def _json(path: Path, value: float) -> None:
    from intact.cli.trtexec_run import _write_json

    _write_json(path, [{"latencyMs": value}])


def _checkpoint(path: Path, value: float) -> None:
    torch = pytest.importorskip("torch")

    from intact.torch import save_checkpoint

    module = torch.nn.Linear(4, 4)
    torch.nn.init.constant_(module.weight, value)
    torch.nn.init.constant_(module.bias, value)
    save_checkpoint(module, path)


def _state(path: Path, value: float) -> None:
    torch = pytest.importorskip("torch")

    from intact.torch.training.training_checkpoint import write_state

    torch.manual_seed(0)
    module = torch.nn.Linear(200, 300)
    torch.nn.init.constant_(module.weight, value)
    write_state(path, module, torch.optim.SGD(module.parameters(), lr=0.1), {}, {})


def _strip(path: Path, value: float) -> None:
    from intact.cli.verbs.strip import run

    source = path.parent.parent / "source.onnx"
    source.write_bytes(model(value).SerializeToString())
    run(source, path, path.with_name("model.calib"))


WRITERS: dict[str, Callable[[Path, float], None]] = {
    "Engine.save": _engine,
    "graph.save": _onnx,
    "graph.save, external": _pair,
    "graph.write_model": _bytes,
    "Calibration.save": _calib,
    "TrtCache.save": _cache,
    "write_page": _page,
    "run -o": _npz,
    "trtexec --export": _json,
    "save_checkpoint": _checkpoint,
    "finetune": _state,
    "strip --calib": _strip,
}
"""Everything that writes: what it writes follows from a number."""


@pytest.fixture(params=["nameless", "by name"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """New files without a name, as Linux has them, and with one."""
    if request.param == "by name":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.fixture(params=WRITERS)
def writer(
    request: pytest.FixtureRequest, way: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SimpleNamespace:
    """One of `WRITERS`, a folder of its own, and what is in the folder before and after it has written."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # it is counted, and need not be slow
    folder = tmp_path / "folder"
    folder.mkdir()
    save = WRITERS[request.param]

    def content() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def reset(files: dict[str, bytes]) -> None:
        for path in folder.iterdir():
            path.unlink()
        for name, data in files.items():
            (folder / name).write_bytes(data)

    save(folder / "model", 0.5)
    new = content()
    save(folder / "model", 0.25)
    old = content()
    assert old.keys() == new.keys() and any(old[name] != new[name] for name in old)
    return SimpleNamespace(
        write=lambda: save(folder / "model", 0.5), content=content, reset=reset, old=old, new=new
    )

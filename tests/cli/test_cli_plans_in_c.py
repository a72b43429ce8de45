"""build and verify for plans that a program in C runs: self-tests, no fallback, the C library itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from tests.capi.library import library_path
from tests.engine.conftest import Qdq

from intact.engine.files import plan_files as files

needs_library = pytest.mark.skipif(library_path() is None, reason="the C library is not built")


@pytest.fixture
def plan(run, int8: Path, tmp_path: Path) -> Path:
    status, shown, _ = run("build", int8, "-o", tmp_path / "net.plan", "--threads", 1, "--json")
    assert status == 0 and json.loads(shown)["selftest"] is True
    return tmp_path / "net.plan"


@pytest.mark.parametrize("c", [(), pytest.param(("--c",), marks=needs_library)], ids=["engine", "c"])
def test_a_plan_by_itself_runs_its_selftest(run, plan: Path, c) -> None:
    status, shown, _ = run("verify", plan, *c)
    assert status == 0 and "self-test: 1 outputs equal" in shown
    stored = files.load(plan).plan
    files.save(plan, replace(stored, selftest=replace(stored.selftest, checksums=(7,))))
    status, shown, _ = run("verify", plan, *c)
    assert status == 1 and "differs from the machine that built it: prob" in shown
    assert ("the C library's" in shown) == bool(c)
    status, shown, _ = run("verify", plan, "--json")
    assert status == 1 and json.loads(shown) == {"file": str(plan), "exact": False, "differing": ["prob"]}


def test_a_plan_without_a_selftest_is_refused(run, plan: Path) -> None:
    files.save(plan, replace(files.load(plan).plan, selftest=None))
    status, _, output = run("verify", plan)
    assert status == 2 and "without a self-test" in output


@pytest.mark.parametrize("external", [(), ("--external-plan",)], ids=["embedded", "external"])
def test_a_model_for_onnx_runtime_holds_or_names_its_plan(run, int8: Path, tmp_path: Path, external) -> None:
    out = tmp_path / "net_ctx.onnx"
    status, shown, _ = run("build", int8, "--ep-context", *external, "-o", out, "--threads", 1, "--json")
    written = sorted(tmp_path.glob("net_ctx.onnx*"))
    assert status == 0 and len(written) == 1 + len(external)
    assert json.loads(shown)["bytes"]["after"] == sum(path.stat().st_size for path in written)
    (node,) = onnx.load(out).graph.node
    attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    assert attributes["embed_mode"] == 1 - len(external)
    if external:
        assert attributes["ep_cache_context"] == b"net_ctx.onnx.plan"
        assert files.load(written[1]).plan.selftest is not None


def test_a_plan_beside_nothing_is_refused(run, int8: Path, tmp_path: Path) -> None:
    status, _, output = run("build", int8, "--external-plan", "-o", tmp_path / "net.plan")
    assert status == 2 and "add --ep-context" in output and not list(tmp_path.glob("net.plan*"))


@needs_library
def test_the_c_library_runs_beside_the_engine(run, int8: Path, samples: Path) -> None:
    status, shown, _ = run("verify", int8, "--data", samples, "--c")
    assert status == 0 and "outputs, C library against engine: 0 of " in shown
    status, shown, _ = run("verify", int8, "--data", samples, "--c", "--json")
    counts = json.loads(shown)["c"]
    assert status == 0 and counts["compared"] > 0 and counts["differing"] == {}


@needs_library
def test_a_library_that_computes_something_else_is_found(run, int8: Path, samples: Path, monkeypatch) -> None:
    from intact.engine.compare import CLibrary

    right = CLibrary.run

    def wrong(self, inputs):
        outputs = right(self, inputs)
        outputs["prob"][0, 0] *= -1
        return outputs

    monkeypatch.setattr(CLibrary, "run", wrong)
    status, shown, _ = run("verify", int8, "--data", samples, "--c")
    assert status == 1 and "differ, first in 'prob'" in shown


def test_parts_in_onnxruntime_are_refused_by_name(run, int8: Path, tmp_path: Path) -> None:
    net = Qdq()
    y = net.node("LpNormalization", net.input("x", (1, 4)), name="angle")
    onnx.save(net.proto(y), tmp_path / "angle.onnx")
    status, _, output = run("build", tmp_path / "angle.onnx", "-o", tmp_path / "angle.plan", "--no-fallback")
    assert status == 2 and "angle" in output and "(onnx)" in output and "--no-fallback" in output
    assert not (tmp_path / "angle.plan").exists()
    status, shown, _ = run("build", tmp_path / "angle.onnx", "-o", tmp_path / "angle.plan", "--json")
    assert status == 0 and json.loads(shown)["selftest"] is False
    assert run("build", int8, "-o", tmp_path / "net.plan", "--no-fallback")[0] == 0


def test_kinds_of_steps_are_listed_for_a_small_library(run, int8: Path, tmp_path: Path) -> None:
    words = ("-o", tmp_path / "net.plan", "--emit-config", tmp_path / "net.kinds")
    assert run("build", int8, *words)[0] == 0
    first, *names = (tmp_path / "net.kinds").read_text().splitlines()
    steps = files.load(tmp_path / "net.plan").plan.steps
    assert first.startswith("#") and names == sorted({step.kind for step in steps})
    net = Qdq()
    y = net.conv(net.pair(net.input("x", (1, 8, 6, 6))), 8, 8, group=8)
    onnx.save(net.proto(net.pair(y)), tmp_path / "groups.onnx")
    assert run("build", tmp_path / "groups.onnx", *words)[0] == 0
    assert "depthwise" in (tmp_path / "net.kinds").read_text().splitlines()
    onnx.save(net.proto(net.node("LpNormalization", net.input("y", (1, 4)))), tmp_path / "angle.onnx")
    status, _, output = run("build", tmp_path / "angle.onnx", *words)
    assert status == 2 and "--emit-config" in output

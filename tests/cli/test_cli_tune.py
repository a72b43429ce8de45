"""``intact tune``: scripts of the user's, what is written, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

QUICK = ("--method", "max", "--bias-correction", "off", "--equalization", "off", "--no-progress")
EVALUATE = """
calls = []

def evaluate(engine):
    calls.append(1)
    return 10.0 if len(calls) == 1 else {score}
"""
LATENCY = """
import onnx

def latency(path):
    return 1e-3 + 1e-4 * sum(node.op_type == "QuantizeLinear" for node in onnx.load(path).graph.node)
"""


@pytest.fixture
def files(tmp_path: Path, net_proto: onnx.ModelProto) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    paths = {name: tmp_path / name for name in ("net.onnx", "x.npy", "eval.py", "bench.py", "out.onnx")}
    onnx.save(net_proto, paths["net.onnx"])
    np.save(paths["x.npy"], rng.standard_normal((16, 3, 16, 16)).astype(np.float32))
    paths["bench.py"].write_text(LATENCY)
    return paths


def words(files: dict[str, Path], *more: object) -> list[object]:
    named = ("--data", files["x.npy"], "-o", files["out.onnx"], "--benchmark", files["bench.py"])
    return ["tune", files["net.onnx"], *named, *QUICK, *more]


def test_the_answer_is_written_with_its_page_and_figures(run, files, tmp_path: Path) -> None:
    more = ("--record", tmp_path / "r.json", "--html", tmp_path / "p.html")
    status, out, err = run(*words(files, "--max-drop", 50, *more))
    assert (status, err) == (0, "")
    assert "what was verified" in out
    status, out, _ = run(*words(files, "--max-drop", 50, "--json"))
    messages = json.loads(out)
    assert messages["met"]
    assert messages["best"]["seconds"] == pytest.approx(
        1e-3 + 1e-4 * sum(n.op_type == "QuantizeLinear" for n in onnx.load(files["out.onnx"]).graph.node)
    )
    page = (tmp_path / "p.html").read_text()
    assert "<circle" in page
    assert "/conv1" in page
    (machine,) = json.loads((tmp_path / "r.json").read_text())["latencies"]
    assert machine.startswith("bench.py ")


def test_the_engine_is_timed_where_no_clock_is_given(run, files) -> None:
    inputs = ("--data", files["x.npy"], "-o", files["out.onnx"], "--json", "--trials", 2, "--budget", 2)
    status, out, err = run("tune", files["net.onnx"], *inputs, *QUICK, "--max-drop", 100, "--threads", 1)
    assert status == 0, err
    messages = json.loads(out)
    assert messages["best"]["seconds"] > 0
    assert "threads 1" in messages["settings"]["times measured on"]


def test_a_metric_that_nothing_keeps_is_status_1(run, files) -> None:
    files["eval.py"].write_text(EVALUATE.format(score=1.0))
    inputs = ("--evaluate", files["eval.py"], "--max-drop", 0.5, "--trials", 2)
    status, out, _ = run(*words(files, *inputs))
    assert status == 1
    assert "no choice keeps the metric" in out
    assert files["out.onnx"].is_file()


def test_what_a_script_does_wrong_is_said_as_its_own(run, files) -> None:
    for text, output in (
        ("", "no function evaluate"),
        ("def evaluate(engine):\n    return 'good'", "finite number"),
        ("def evaluate(engine):\n    raise KeyError('labels')", "line 2"),
    ):
        files["eval.py"].write_text(text)
        status, _, err = run(*words(files, "--evaluate", files["eval.py"]))
        assert status == 2
        assert output in err
        assert not files["out.onnx"].exists()

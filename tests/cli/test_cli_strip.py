"""``intact strip``: the float model of a quantized one, and its ranges."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx

from intact.calib import Calibration
from intact.graph import Session, load, quantization_of
from intact.numerics import scale_from_amax
from intact.spec import QuantSpec


def scales(file: Path) -> dict[str, np.ndarray]:
    graph = load(file).graph
    quantizations = [q for node in graph for value in node.outputs if (q := quantization_of(value))]
    return {
        q.source.name: q.scale for q in quantizations if q.source is not None and q.source.name is not None
    }


def test_no_pair_is_left_and_the_outputs_stay_close(
    run, net: Path, int8: Path, samples: Path, tmp_path: Path
) -> None:
    out = tmp_path / "float.onnx"
    status, shown, err = run("strip", int8, "-o", out)
    assert (status, err) == (0, "") and f"wrote {out}: " in shown
    ops = [node.op_type for node in onnx.load(out).graph.node]
    assert ops == [node.op_type for node in onnx.load(net).graph.node]
    feeds = {"x": np.load(samples)}
    before, after = (Session(f.read_bytes()).run(feeds)["prob"] for f in (net, out))
    np.testing.assert_allclose(after, before, atol=0.05)


def test_the_ranges_give_the_scales_again(run, int8: Path, tmp_path: Path) -> None:
    out, calib = tmp_path / "float.onnx", tmp_path / "ranges.calib"
    status, shown, _ = run("strip", int8, "-o", out, "--calib", calib, "--json")
    assert status == 0
    output = json.loads(shown)
    assert output["out"] == str(out) and output["calib"] == str(calib)
    remaining, spec = Calibration.load(calib), QuantSpec("int8")
    assert list(remaining) == list(scales(int8)) == ["x", "r1", "r2", "pooled"]
    assert set(output["tensors"]) > set(remaining), "weights were float again, too"
    assert remaining.provenance[0]["source"] == f"the Q/DQ pairs of {int8.name}"
    for name, scale in scales(int8).items():
        np.testing.assert_array_max_ulp(scale_from_amax(remaining.amax(spec)[name], spec), scale, maxulp=1)


def test_stripped_and_quantized_again_is_the_same_file(run, int8: Path, tmp_path: Path) -> None:
    out, calib, again = tmp_path / "float.onnx", tmp_path / "ranges.calib", tmp_path / "again.onnx"
    run("strip", int8, "-o", out, "--calib", calib)
    words = ("--method", "max", "--activations", "int8")
    assert run("quantize", out, "--calib", calib, *words, "-o", again)[0] == 0
    first, second = scales(int8), scales(again)
    assert list(first) == list(second)
    for name in first:
        np.testing.assert_array_max_ulp(first[name], second[name], maxulp=1)
    rows = [json.loads(run("explain", file, "--json")[1])["layers"] for file in (int8, again)]
    assert rows[0] == rows[1]


def test_a_zero_point_is_kept_in_the_range(run, net: Path, samples: Path, tmp_path: Path) -> None:
    int8, out, calib = tmp_path / "affine.onnx", tmp_path / "float.onnx", tmp_path / "ranges.calib"
    words = (
        "--method",
        "max",
        "--bias-correction",
        "off",
        "--equalization",
        "off",
        "--asymmetric",
        "--no-progress",
    )
    run("quantize", net, "--data", samples, "-o", int8, *words)
    assert run("strip", int8, "-o", out, "--calib", calib)[0] == 0
    model = Calibration.load(calib)
    assert float(model["r1"].min) == 0 < float(model["r1"].max)
    assert float(model["x"].min) < 0 < float(model["x"].max)


def test_a_float_file_is_copied(run, net: Path, tmp_path: Path) -> None:
    status, shown, _ = run("strip", net, "-o", tmp_path / "float.onnx")
    assert status == 0 and "0 tensors" in shown


def test_a_mistake_is_one_line_and_status_2(run, int8: Path, tmp_path: Path) -> None:
    status, _, err = run("strip", int8, "-o", tmp_path / "nowhere" / "float.onnx")
    assert status == 2
    assert err.startswith(f"intact: '{tmp_path / 'nowhere' / 'float.onnx'}': got no folder ")
    assert err.count("\n") == 1

"""JSON of ``intact trtexec``: the forms of NVIDIA's trtexec, which trex and Polygraphy read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_models import onnx_model

TENSOR = {"Name", "Dimensions", "Format/Datatype"}
LAYER = {"Name", "LayerType", "Inputs", "Outputs", "ParameterType", "TacticName", "TacticValue", "Metadata"}
TIMES = {
    "startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs", "startD2hMs",
    "endD2hMs", "h2dMs", "computeMs", "d2hMs", "latencyMs",
}  # fmt: skip
"""Fields that exportJSONTrace of samples/common/sampleReporting.cpp writes."""


@pytest.fixture
def files(run, net_and_cache: tuple[Path, Path], tmp_path: Path) -> dict[str, Any]:
    """All exports of one run, and what was printed."""
    model, cache = net_and_cache
    names = {"LayerInfo": "graph", "Profile": "profile", "Times": "times", "Output": "output"}
    exports = [f"--export{option}={tmp_path / name}.json" for option, name in names.items()]
    status, shown, err = run(
        "trtexec", f"--onnx={model}", "--int8", f"--calib={cache}", "--builderOptimizationLevel=0", *exports,
        "--dumpProfile", "--iterations=4", "--duration=0", "--warmUp=0",
    )  # fmt: skip
    assert status == 0, err
    content = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in names.values()}
    return content | {"shown": shown, "folder": tmp_path}


@pytest.fixture
def net_and_cache(tmp_path: Path) -> tuple[Path, Path]:
    """A convolution with Relu behind a cache that has all its scales."""
    from intact.calib import TrtCache

    rng, make = np.random.default_rng(0), onnx.helper.make_node
    weight = onnx.numpy_helper.from_array(rng.standard_normal((8, 4, 3, 3)).astype(np.float32), "w")
    nodes = [
        make("Conv", ["x", "w"], ["c"], name="conv", strides=[2, 1], pads=[1, 0, 1, 0]),
        make("Relu", ["c"], ["y"], name="relu"),
    ]
    shapes = {"x": [2, 4, 8, 8], "y": [2, 8, 4, 6]}
    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
    onnx.save(onnx_model(nodes, values[:1], values[1:], [weight]), tmp_path / "net.onnx")
    TrtCache({"x": np.float32(0.03), "c": np.float32(0.1), "y": np.float32(0.1)}).save(tmp_path / "cache")
    return tmp_path / "net.onnx", tmp_path / "cache"


def test_layers_have_tensors_parameters_and_weights(files: dict[str, Any]) -> None:
    layers = {layer["Name"]: layer for layer in files["graph"]["Layers"]}
    assert files["graph"]["Bindings"] == ["x", "y"]
    assert all(layer.keys() >= LAYER for layer in layers.values())
    conv = layers["conv"]
    assert conv["ParameterType"] == "Convolution" and conv["Precision"] == "INT8"
    assert (conv["Kernel"], conv["Stride"], conv["OutMaps"], conv["Groups"]) == ([3, 3], [2, 1], 8, 1)
    assert (conv["PrePadding"], conv["PostPadding"], conv["HasReLU"]) == ([1, 0], [1, 0], 1)
    assert conv["Weights"] == {"Type": "Int8", "Count": 288}
    (x,), (y,) = conv["Inputs"], conv["Outputs"]
    assert x.keys() == TENSOR and x["Format/Datatype"] == "Row major Int8 format"
    assert y == {"Name": "y", "Dimensions": [2, 8, 4, 6], "Format/Datatype": "Row major linear FP32"}
    assert conv["Metadata"] == "[ONNX Layer: conv]\x1e[ONNX Layer: relu]"


def test_the_profile_has_a_row_for_each_layer_and_sums_to_100(files: dict[str, Any]) -> None:
    count, *rows = files["profile"]
    assert count == {"count": 10}
    assert [row["name"] for row in rows] == [layer["Name"] for layer in files["graph"]["Layers"]]
    assert all(row.keys() == {"name", "timeMs", "averageMs", "medianMs", "percentage"} for row in rows)
    assert sum(row["percentage"] for row in rows) == pytest.approx(100)
    assert all(row["timeMs"] == pytest.approx(10 * row["averageMs"]) for row in rows)
    assert "=== Profile (10 iterations ) ===" in files["shown"] and "   Total" in files["shown"]


def test_times_and_outputs_have_the_fields_of_trtexec(files: dict[str, Any]) -> None:
    assert len(files["times"]) == 4 and all(row.keys() == TIMES for row in files["times"])
    assert all(row["latencyMs"] == row["computeMs"] > 0 for row in files["times"])
    starts = [row["startComputeMs"] for row in files["times"]]
    assert starts == sorted(starts)
    (output,) = files["output"]
    assert (output["name"], output["dimensions"], len(output["values"])) == ("y", "2x8x4x6", 2 * 8 * 4 * 6)
    line = next(line for line in files["shown"].splitlines() if line.startswith("Latency: min = "))
    latencies = sorted(row["latencyMs"] for row in files["times"])
    assert float(line.split("max = ")[1].split(" ms")[0]) == pytest.approx(latencies[-1], rel=1e-5)


def test_an_existing_export_is_written_in_place(
    run, net_and_cache: tuple[Path, Path], tmp_path: Path
) -> None:
    """Whoever holds the file open, as Polygraphy's runner does, reads the outputs."""
    path = tmp_path / "o.json"
    path.write_text("")
    quick = ("--iterations=1", "--duration=0", "--warmUp=0")
    with path.open() as before:
        status, _, err = run("trtexec", f"--onnx={net_and_cache[0]}", f"--exportOutput={path}", *quick)
        assert status == 0, err
        assert json.load(before)[0]["name"] == "y"


def test_names_of_inputs_may_be_quoted_and_a_half_has_two_bytes(run, tmp_path: Path) -> None:
    half = onnx.TensorProto.FLOAT16
    values = [onnx.helper.make_tensor_value_info(name, half, [2, 3]) for name in ("a:0", "y")]
    node = onnx.helper.make_node("Relu", ["a:0"], ["y"])
    onnx.save(onnx_model([node], values[:1], values[1:]), tmp_path / "m.onnx")
    x = np.arange(-3, 3, dtype=np.float16)
    x.tofile(tmp_path / "x.bin")
    words = (f"--loadInputs='a:0':{tmp_path / 'x.bin'}", f"--exportOutput={tmp_path / 'o'}", "--iterations=1")
    status, _, err = run("trtexec", f"--onnx={tmp_path / 'm.onnx'}", *words, "--duration=0", "--warmUp=0")
    assert status == 0, err
    assert json.loads((tmp_path / "o").read_text())[0]["values"] == [0, 0, 0, 0, 1, 2]


def test_trex_reads_layers_profile_and_times(files: dict[str, Any]) -> None:
    pytest.importorskip("pandas")
    plans = pytest.importorskip("trex.engine_plan", reason="NVIDIA's trt-engine-explorer is not on the path")
    folder = files["folder"]
    plan = plans.EnginePlan(str(folder / "graph.json"), str(folder / "profile.json"))
    assert list(plan.df["Name"]) == [layer["Name"] for layer in files["graph"]["Layers"]]
    assert plan.total_weights_size == 288 and plan.find("conv").precision == "INT8"
    assert plan.total_runtime == pytest.approx(sum(row["averageMs"] for row in files["profile"][1:]))
    assert list(plan.get_layers_by_type("Convolution")["attr.macs"]) == [2 * 8 * 4 * 6 * 4 * 9]
    times = [row["latencyMs"] for row in files["times"]]
    assert plans.read_timing_file(str(folder / "times.json")) == times


def test_polygraphys_runner_runs_it(net_and_cache: tuple[Path, Path], tmp_path: Path) -> None:
    runner = pytest.importorskip(
        "polygraphy_trtexec.backend.runner", reason="NVIDIA's extension is not there"
    )
    command = tmp_path / "trtexec"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m intact trtexec "$@" --duration=0 --warmUp=0\n')
    command.chmod(0o755)
    x = np.random.default_rng(1).standard_normal((2, 4, 8, 8)).astype(np.float32)
    with runner.TrtexecRunner(
        str(net_and_cache[0]), model_type="onnx", trtexec_path=str(command)
    ) as polygraphy:
        (y,) = polygraphy.infer({"x": x}).values()
        assert polygraphy.last_inference_time_stats()["median"] > 0
    assert y.shape == (2, 8, 4, 6) and y.max() > 0

"""``intact trtexec``: builds, loads, times, tells; its options have trtexec's names."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from intact import trt
from intact.calib import TrtCache
from intact.cli import trtexec_run
from intact.cli.trtexec_options import ACCEPTED, FLAGS, REFUSED
from intact.cli.verbs import trtexec
from intact.trt.building import implicit_quantization

QUICK = ("--duration=0", "--warmUp=0", "--iterations=2")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    kernel = onnx.numpy_helper.from_array(rng.standard_normal((32, 16, 3, 3)).astype(np.float32), "w")
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[N, 16, 8, 8] x) => (float[N, 32, 8, 8] y) {
          [conv] h = Conv <pads: ints = [1, 1, 1, 1]> (x, w)
          [relu] y = Relu(h)
        }"""
    )
    model.graph.initializer.append(kernel)
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    path = tmp_path / "calibration.cache"
    TrtCache({"x": np.float32(0.03)}).save(path)
    return path


@pytest.fixture
def int8_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Implicit mode takes int8 for faster than float, whatever the machine is busy with."""
    monkeypatch.setattr(
        implicit_quantization._Times,
        "of",
        lambda self, names, measure: {n: 1.0 + ("int8" not in n) for n in names},
    )


@pytest.mark.usefixtures("int8_faster")
def test_builds_with_a_cache_saves_and_loads(run, net: Path, cache: Path, tmp_path: Path) -> None:
    plan, layers, times = tmp_path / "net.plan", tmp_path / "layers.json", tmp_path / "times.json"
    status, shown, err = run(
        "trtexec", f"--onnx={net}", "--int8", f"--calib={cache}", f"--saveEngine={plan}",
        "--shapes=x:2x16x8x8", f"--exportLayerInfo={layers}", *QUICK,
    )  # fmt: skip
    assert status == 0, err
    assert "built in" in shown and plan.stat().st_size > 0
    (conv,) = (entry for entry in json.loads(layers.read_text())["Layers"] if entry["Name"] == "conv")
    assert (conv["Precision"], conv["Int8Ms"], conv["FloatMs"]) == ("INT8", 1000, 2000)
    status, shown, err = run(
        "trtexec",
        f"--loadEngine={plan}",
        f"--exportTimes={times}",
        "--dumpProfile",
        "--dumpLayerInfo",
        *QUICK,
    )
    assert status == 0, err
    assert len(json.loads(times.read_text())) == 2
    assert "conv Conv" in shown


def test_inputs_and_outputs_are_files(run, net: Path, tmp_path: Path) -> None:
    x = np.ones((1, 16, 8, 8), np.float32)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    status, _, err = run(
        "trtexec", f"--onnx={net}", f"--loadInputs=x:{tmp_path / 'x.bin'}",
        f"--exportOutput={tmp_path / 'y.json'}", *QUICK,
    )  # fmt: skip
    assert status == 0, err
    (output,) = json.loads((tmp_path / "y.json").read_text())
    assert output["name"] == "y"
    y = np.array(output["values"]).reshape([int(size) for size in output["dimensions"].split("x")])
    assert y.shape == (1, 32, 8, 8) and y.max() > 0


def test_a_pin_that_cannot_be_obeyed_fails(run, net: Path) -> None:
    words = ("--layerPrecisions=conv:int8", "--precisionConstraints=obey", "--buildOnly")
    status, _, err = run("trtexec", f"--onnx={net}", *words)
    assert status == 2
    assert "layer 'conv' is pinned to INT8 and runs in float" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--onnx={net}", "--loadEngine={net}"), "neither or both of --onnx and --loadEngine"),
        (("--loadEngine={net}",), "no engine"),
        (("--onnx={net}", "--shapes=x"), "input:1x3x224x224"),
        (("--onnx={net}", "--shapes=image:1x16x8x8"), "input 'image'"),
        (("--onnx={net}", "--layerPrecisions=nothing:int8"), "a layer of the network"),
        (("--onnx={net}", "--itrations=3"), "--iterations"),
    ],
    ids=["both", "no-engine", "shape", "input", "layer", "nearest-option"],
)
def test_mistakes_are_told(run, net: Path, words: tuple[str, ...], message: str) -> None:
    status, shown, err = run("trtexec", *(word.format(net=net) for word in words))
    assert status == 2
    assert message in shown + err


def test_options_of_a_gpu_are_accepted_and_named(run, net: Path) -> None:
    words = ("--noTF32", "--device=0", "--sparsity=enable", "--threads", "--inputIOFormats=fp32:chw", "--fp8")
    status, shown, err = run("trtexec", f"--onnx={net}", *QUICK, *words)
    assert (status, err) == (0, "")
    for word in ("--noTF32 (floats are float32)", "--device=0 (no GPU", "--sparsity=enable", "--threads"):
        assert word in shown.replace("\n", " ")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("--uff=model.uff", "convert the model to ONNX"), ("--sparsity=force", "change the weights"),
        ("--plugins=libmine.so", "intact.trt.plugin"), ("--layerOutputTypes=*:fp16", "are float32"),
        ("--inputIOFormats=fp16:chw", "as the file"), ("--outputIOFormats=fp32:hwc8", "as the"),
        ("--inputIOFormats=fp32:chw,fp32:chw", "one for each tensor"),
        ("--stripWeights", "holds its weights"),
    ],
)  # fmt: skip
def test_what_a_cpu_cannot_do_is_refused_by_name(run, net: Path, word: str, why: str) -> None:
    status, shown, err = run("trtexec", f"--onnx={net}", *QUICK, word)
    assert status == 2
    assert why in shown + err
    assert word.partition("=")[0] in shown + err


def test_percentages_and_pauses_are_those_that_are_asked_for(
    run, net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(trtexec_run, "sleep", pauses.append)
    words = ("--percentile=0,50,99.5", "--idleTime=2", "--sleepTime=30", "--duration=0", "--warmUp=0")
    status, shown, _ = run("trtexec", f"--onnx={net}", "--iterations=3", *words)
    assert status == 0 and pauses == [0.03, 0.002, 0.002]
    (line,) = (line for line in shown.splitlines() if line.startswith("Latency:"))
    assert re.findall(r"percentile\((.*?)%\)", line) == ["0", "50", "99.5"]
    for text in ("101", "-1", "p", ""):
        status, _, errors = run("trtexec", f"--onnx={net}", f"--percentile={text}", *QUICK)
        assert status == 2 and "numbers from 0 to 100" in errors


def test_every_option_of_trtexec_has_one_meaning() -> None:
    own = {name.removeprefix("--") for name in re.findall(r'"(--\w+)"', inspect.getsource(trtexec))}
    assert not own & (FLAGS.keys() | ACCEPTED.keys() | REFUSED.keys())
    assert not ACCEPTED.keys() & (FLAGS.keys() | REFUSED.keys()) and not FLAGS.keys() & REFUSED.keys()
    assert {trt.BuilderFlag[name] for name in FLAGS.values()}

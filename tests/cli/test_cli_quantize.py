"""``intact quantize``: files in and out, what is printed, and what a user can get wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from intact.graph import Session, load, quantization_of

CHEAP = ("--method", "max", "--bias-correction", "off", "--equalization", "off", "--no-progress")


def outputs(file: Path, data: np.ndarray) -> np.ndarray:
    return Session(file.read_bytes()).run({"x": data})["prob"]


def test_an_int8_file_and_a_table(run, net: Path, samples: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    status, shown, err = run("quantize", net, "--data", samples, "-o", out, "--no-progress")
    assert (status, err) == (0, "")
    cells = {
        c[1].strip(): c[2].strip() for c in (line.split("│") for line in shown.splitlines()) if len(c) > 2
    }
    assert cells["layers in int8"] == "6" and cells["layers in float"] == "1"
    assert (
        cells["bytes before"] == f"{net.stat().st_size:,}"
        and cells["bytes after"] == f"{out.stat().st_size:,}"
    )
    assert float(cells["SQNR of prob"].removesuffix(" dB")) > 30
    assert 0 < float(cells["error of prob"].removesuffix("% of its size")) < 3.2
    same, _, of, _ = cells["same largest score in prob"].split()
    assert 0.9 * int(of) <= int(same) <= int(of) and int(of) > 1
    assert cells["biases corrected"] in ("yes", "no") and cells["channels equalized"] == "no"
    assert f"intact explain {out} --profile intact --precision float" in shown
    flat = " ".join(shown.split())
    assert re.search(r"engine = integer reference on all [\d,]{4,} codes and 40 outputs of 4 samples", flat)
    assert "file in ONNX Runtime" in flat and "in other runtimes 1 float step (Softmax x 1)" in flat
    data = np.load(samples)
    assert (outputs(net, data).argmax(1) == outputs(out, data).argmax(1)).mean() >= 0.9


def test_json_and_nothing_else(run, net: Path, samples: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    status, shown, err = run("quantize", net, "--data", samples, "-o", out, *CHEAP, "--json")
    output = json.loads(shown)
    assert (status, err) == (0, "")
    assert output["out"] == str(out) and output["layers"] == {"int8": 6, "float": 1}
    assert output["bytes"] == {"before": net.stat().st_size, "after": out.stat().st_size}
    assert output["sqnr_db"].keys() == {"prob"} and output["warnings"] == []
    assert 0 < output["top1"]["prob"]["same"] <= output["top1"]["prob"]["of"]
    assert 0.5 < output["top1"]["prob"]["expected"] <= 1
    assert output["methods"] == dict.fromkeys(["x", "r1", "r2", "pooled"], "max")
    reference, file = output["comparison"]["reference"], output["comparison"]["file"]
    assert reference["equal"] and reference["samples"] == 4 and reference["codes"] > 1000
    assert file["codes"] == reference["codes"] and not file["skipped"]
    assert output["agreement"].startswith("engine = integer reference on all ")
    assert output["ranges"].keys() == output["methods"].keys() and output["ranges"]["x"][0] < -3
    assert output["chosen"] == "least expected error" and list(output["relative_errors"]) == [
        output["chosen"]
    ]
    assert (output["bias_corrected"], output["equalized"]) == (False, False)


def test_json_says_which_steps_were_kept(run, net: Path, samples: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    steps = ("--bias-correction", "on", "--equalization", "on", "--no-progress", "--json")
    output = json.loads(run("quantize", net, "--data", samples, "-o", out, *steps)[1])
    assert (output["bias_corrected"], output["equalized"], output["not_equalized"]) == (True, False, None)
    assert (
        output["chosen"] in output["relative_errors"]
        and "without corrected biases" in output["relative_errors"]
    )
    graph = load(out).graph
    scale = next(n for n in graph if n.op_type == "QuantizeLinear" and n.inputs[0].name == "x").inputs[1]
    low, high = output["ranges"]["x"]
    assert low < 0 < high
    assert (high - low) / 255 == pytest.approx(float(scale.const_value.numpy()), rel=1e-6)
    run("calibrate", net, "--data", samples, "-o", tmp_path / "net.calib", "--no-progress")
    output = json.loads(run("quantize", net, "--calib", tmp_path / "net.calib", "-o", out, "--json")[1])
    assert output["chosen"] is None and output["relative_errors"] == output["sqnr_db"] == output["top1"] == {}


def test_equal_commands_give_equal_files(run, net: Path, samples: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.onnx", "b.onnx")]
    for file in files:
        assert run("quantize", net, "--data", samples, "-o", file, "--no-progress")[0] == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_statistics_instead_of_data(run, net: Path, samples: Path, tmp_path: Path) -> None:
    direct, later = tmp_path / "direct.onnx", tmp_path / "later.onnx"
    run("calibrate", net, "--data", samples, "-o", tmp_path / "net.calib", "--no-progress")
    run("quantize", net, "--data", samples, "-o", direct, *CHEAP[2:], "--method", "mse", "--no-rounding")
    status, *_ = run("quantize", net, "--calib", tmp_path / "net.calib", "-o", later, "--method", "mse")
    assert status == 0
    assert later.read_bytes() == direct.read_bytes()


def test_options_reach_the_file(run, net: Path, samples: Path, tmp_path: Path) -> None:
    overrides, out = tmp_path / "overrides.yaml", tmp_path / "out.onnx"
    overrides.write_text('"/conv1": {activations: int16}\n')
    words = ("--asymmetric", "--per-tensor", "--opset", 21, "--profile", "tensorrt", "--overrides", overrides)
    assert run("quantize", net, "--data", samples, "-o", out, *CHEAP, *words)[0] == 0
    model = load(out)
    assert model.opset_imports[""] == 21
    quantized = [q for node in model.graph for value in node.outputs if (q := quantization_of(value))]
    specs = {str(q.spec) for q in quantized if not q.constant}
    assert specs == {"int8 per-tensor asymmetric", "int16 per-tensor asymmetric"}
    assert {q.spec.axis for q in quantized if q.constant} == {None}


def test_excluded_layers_stay_in_float(run, net: Path, samples: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    words = ("--exclude", "/fc", "--exclude", "Global*")
    assert run("quantize", net, "--data", samples, "-o", out, *CHEAP, *words)[0] == 0
    output = json.loads(run("explain", out, "--json")[1])
    in_float = {row["layer"] for row in output["layers"] if row["precision"] == "float"}
    assert {"/fc", "/gap"} <= in_float and "/conv1" not in in_float


def test_a_folder_of_images_as_the_options_describe_it(run, net: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for index in range(3):
        pixels = rng.integers(0, 256, (20, 24, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{index}.png")
    calib = tmp_path / "photos.calib"
    words = ("--size", "16x16", "--mean", "0", "--std", "2,2,2", "--fit", "stretch", "--batch-size", 2)
    status, shown, _ = run(
        "calibrate", net, "--data", tmp_path / "photos", *words, "-o", calib, "--no-progress", "--json"
    )
    assert status == 0
    low, high = json.loads(shown)["ranges"]["x"]["max"]
    assert high <= 0.5 and -low == high, "[0, 255] / 255, less mean 0, by std 2"


def test_how_images_are_prepared_is_said_in_every_verb_and_kept(run, net: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.fromarray(np.zeros((20, 24, 3), np.uint8) + 9).save(tmp_path / "photos" / "a.png")
    calib, out = tmp_path / "photos.calib", tmp_path / "out.onnx"
    words = ("--data", tmp_path / "photos", "--preset", "inception")
    line = (
        "images: 16x16 (the centre of 18x18), RGB, (pixel / 255 - 0.5) / 0.5 = -1..1, NCHW; as in training?"
    )
    for verb in (("calibrate", net, *words, "-o", calib, "--no-progress"),
                 ("quantize", net, "--calib", calib, "-o", out, *CHEAP), ("run", out, *words)):  # fmt: skip
        status, shown, err = run(*verb)
        assert (status, err) == (0, "") and line in shown
    assert line.split("images: ")[1][:20] in json.loads(run("run", out, *words, "--json")[1])["images"]


def test_open_sizes_ask_for_the_option(run, net_proto: onnx.ModelProto, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.fromarray(np.zeros((20, 24, 3), np.uint8)).save(tmp_path / "photos" / "a.png")
    proto = onnx.ModelProto.FromString(net_proto.SerializeToString())
    for dim in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = "side"
    onnx.save(proto, tmp_path / "open.onnx")
    words = ("quantize", tmp_path / "open.onnx", "--data", tmp_path / "photos", "-o", tmp_path / "o.onnx")
    assert "want a fixed height and width. Fix: give the size in pixels" in run(*words)[2]
    assert "--size 224" in run(*words)[2] and run(*words, "--size", 16, *CHEAP)[0] == 0


def test_a_script_that_loads_data(run, net: Path, tmp_path: Path) -> None:
    script, out = tmp_path / "load.py", tmp_path / "out.onnx"
    script.write_text(
        "import numpy as np\ndef load_data():\n    return np.ones((4, 3, 16, 16), np.float32)\n"
    )
    assert run("quantize", net, "--data", script, "-o", out, *CHEAP)[0] == 0
    assert out.exists()


def test_a_tensor_of_zeros_is_named_once(run, net: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "zeros.npy", np.zeros((2, 3, 16, 16), np.float32))
    status, shown, err = run(
        "quantize", net, "--data", tmp_path / "zeros.npy", "-o", tmp_path / "out.onnx", *CHEAP
    )
    assert (status, err) == (0, "")
    assert shown.count("warning: tensor 'x': every value is zero or almost; its scale is 1") == 1


def test_the_weights_beside_a_file_count(run, net: Path, samples: Path, tmp_path: Path) -> None:
    model = onnx.load(net)
    beside = tmp_path / "big.onnx"
    onnx.save(model, beside, save_as_external_data=True, location="weights.bin", size_threshold=0)
    words = ("--data", samples, "-o", tmp_path / "out.onnx", *CHEAP, "--json")
    status, shown, err = run("quantize", beside, *words)
    assert (status, err) == (0, "")
    output = json.loads(shown)
    assert output["bytes"]["before"] == beside.stat().st_size + (tmp_path / "weights.bin").stat().st_size


def test_stored_ranges_beside_data(run, net: Path, samples: Path, tmp_path: Path) -> None:
    from intact.calib import Calibration, Range

    stored, out = Calibration(), tmp_path / "out.onnx"
    stored["x"] = Range()
    stored["x"].collect(np.float32([-1.0, 1.55]))
    stored.save(tmp_path / "x.calib")
    words = ("--data", samples, "--calib", tmp_path / "x.calib", "--no-progress", "-o", out)
    assert run("quantize", net, *words)[0] == 0
    scales = {item.name: onnx.numpy_helper.to_array(item) for item in onnx.load(out).graph.initializer}
    assert scales["x.scale"] == np.float32(0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "intact: --data, --calib: got neither, want one of the two"),
        (("--data", "{samples}", "--method", "best"), "intact: method: got 'best'"),
        (("--data", "{samples}", "--profile", "tpu"), "intact: profile: got 'tpu'"),
        (("--data", "{samples}", "--activations", "int99"), "intact: format: got 'int99'"),
        (("--data", "{samples}", "--size", "16"), "intact: --size: got the option for"),
        (("--data", "{folder}", "--size", "16by9"), "intact: --size: got '16by9', want one size or two"),
        (("--data", "{folder}", "--mean", "a,b"), "intact: --mean: got 'a,b', want numbers between commas"),
        (("--data", "{samples}", "--overrides", "{text}"), "intact: file '{text}': got"),
        (("--data", "{samples}", "--overrides", "{list}"), "intact: file '{list}': got [1, 2]"),
        (("--data", "{samples}", "--overrides", "{nowhere}"), "intact: overrides: 'nowhere/*': got no node"),
        (("--data", "{text}"), "intact: data '{text}': got a file that ends in '.yaml'"),
        (("--calib", "{samples}"), "intact: file '{samples}': got"),
        (("--calib", "{calib}"), "intact: tensor 'x': got"),
    ],
    ids=[
        "no-data", "method", "profile", "format", "size-of-arrays", "size", "mean", "no-yaml",
        "yaml-list", "pattern", "data", "no-calib", "other-calib",
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_status_2_and_no_file(
    run, net: Path, samples: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    from intact.calib import Calibration

    files = {
        "samples": samples, "folder": tmp_path, "calib": tmp_path / "other.calib",
        "text": tmp_path / "text.yaml", "list": tmp_path / "list.yaml", "nowhere": tmp_path / "nowhere.yaml",
    }  # fmt: skip
    Calibration().save(files["calib"])
    files["text"].write_text("{a: [}")
    files["list"].write_text("[1, 2]")
    files["nowhere"].write_text("nowhere/*: {format: float}")
    out = tmp_path / "out.onnx"
    status, _, err = run("quantize", net, "-o", out, "--no-progress", *(w.format(**files) for w in words))
    assert status == 2
    assert err.startswith(message.format(**files)) and err.count("\n") == 1
    assert not out.exists()


def test_a_missing_folder_is_told_before_the_work(run, net: Path, tmp_path: Path) -> None:
    script, out = tmp_path / "load.py", tmp_path / "nowhere" / "out.onnx"
    script.write_text("def load_data():\n    raise AssertionError('the data were asked for')\n")
    for verb in ("quantize", "calibrate"):
        status, _, err = run(verb, net, "--data", script, "-o", out)
        assert (status, err.count("\n")) == (2, 1)
        assert err.startswith(f"intact: '{out}': got no folder '{out.parent}'")


def test_a_damaged_model_is_one_line_and_status_2(run, net: Path, samples: Path, tmp_path: Path) -> None:
    net.write_bytes(net.read_bytes()[:-100])
    status, _, err = run("quantize", net, "--data", samples, "-o", tmp_path / "out.onnx")
    assert status == 2
    assert err.startswith(f"intact: {net}: got ") and err.count("\n") == 1


STOPS = """
import os, signal
def load_data():
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_signal_while_the_users_code_runs_is_no_error_of_that_code(net: Path, tmp_path: Path) -> None:
    script = tmp_path / "stops.py"
    script.write_text(STOPS)
    words = ["quantize", net, "--data", script, "-o", tmp_path / "int8.onnx"]
    done = subprocess.run([sys.executable, "-m", "intact", *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")

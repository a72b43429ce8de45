"""intact convert, and intact verify across two weight files."""

from __future__ import annotations

import json

import numpy as np
import onnx
from onnx import helper
from tests.formats.model_cases import int4, write_folder, write_gguf_file
from tests.onnx_models import onnx_model

from intact.formats import open_weights
from intact.numerics import dequantize_blocks


def test_a_file_is_converted_and_verified(run, tmp_path, rng):
    path = write_gguf_file(tmp_path / "in.gguf", {"a": int4(rng)}, {"norm": np.ones(7, np.float32)})
    status, out, _ = run("convert", path, tmp_path / "out", "--to", "compressed-tensors")
    assert status == 0 and "int4 in blocks of 32" in out and "model.safetensors" in out
    assert open_weights(tmp_path / "out").names == ("a.weight", "norm")
    status, out, _ = run("verify", path, "--against", tmp_path / "out")
    assert status == 0 and out == "2 of 2 tensors have equal floats\n"


def test_json_names_files_and_grids(run, tmp_path, rng):
    path = write_folder(tmp_path / "in", "awq", {"a": int4(rng)}, {})
    status, out, _ = run("convert", path, tmp_path / "out.gguf", "--to", "gguf", "--json")
    record = json.loads(out)
    assert status == 0 and record["files"] == [str(tmp_path / "out.gguf")] and record["tensors"] == 1
    status, out, _ = run("verify", path, "--against", tmp_path / "out.gguf", "--json", "--all")
    record = json.loads(out)
    assert record["equal"] and [t["name"] for t in record["tensors"]] == ["a.weight"]


def test_differences_are_listed_and_give_status_1(run, tmp_path, rng):
    first = write_folder(tmp_path / "a", "awq", {"a": int4(rng), "b": int4(rng)}, {})
    second = write_folder(tmp_path / "b", "awq", {"a": int4(rng)}, {})
    status, out, _ = run("verify", first, "--against", second)
    assert status == 1 and "a.weight" in out and "second" in out and "0 of 2 tensors" in out


def test_what_cannot_be_written_is_an_error_in_one_line(run, tmp_path, rng):
    path = write_folder(tmp_path / "in", "awq", {"a": int4(rng, block=128)}, {})
    assert run("convert", path, tmp_path / "out.gguf", "--to", "gguf")[0] == 0
    path = write_folder(tmp_path / "wide", "compressed-tensors", {"a": int4(rng, k=96, block=24)}, {})
    status, _, err = run("convert", path, tmp_path / "bad.gguf", "--to", "gguf")
    assert status == 2 and "tensor 'a.weight'" in err and "compressed-tensors" in err
    status, _, err = run("convert", path, tmp_path / "bad", "--to", "tflite")
    assert status == 2 and "tflite" in err and not (tmp_path / "bad").exists()


def test_codes_go_into_a_float_onnx_model(run, tmp_path, rng):
    weights = int4(rng)
    path = write_folder(
        tmp_path / "in", "awq", {"layers.0.up": weights}, {"norm.weight": np.ones(3, np.float32)}
    )
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "/model/layers.0/up/MatMul")]
    model = onnx_model(nodes, {"x": [2, 128]}, {"y": [2, 64]}, {"w": dequantize_blocks(weights).T.copy()})
    onnx.save(model, tmp_path / "float.onnx")
    target = tmp_path / "int4.onnx"
    arguments = ("convert", path, target, "--to", "onnx")
    assert run(*arguments)[0] == 2
    arguments = (*arguments, "--model", tmp_path / "float.onnx")
    status, out, _ = run(*arguments)
    assert status == 0 and "left out 'norm.weight'" in out and "wrote" in out
    status, out, _ = run(
        *arguments, "--model", tmp_path / "float.onnx", "--operator", "MatMulNBits", "--json"
    )
    assert json.loads(out)["layers"] == {"/model/layers.0/up/MatMul": "layers.0.up.weight"}
    (tmp_path / "names.json").write_text('{"layers.0.up.weight": "w"}')
    assert run(*arguments, "--names", tmp_path / "names.json")[0] == 0
    (tmp_path / "names.json").write_text("[1]")
    status, _, err = run(*arguments, "--names", tmp_path / "names.json")
    assert status == 2 and "names.json" in err
    status, _, err = run("convert", path, tmp_path / "out", "--to", "gptq", "--operator", "MatMulNBits")
    assert status == 2 and "--operator" in err


def test_an_onnx_file_is_still_what_verify_wants(run, tmp_path):
    status, _, err = run("verify", tmp_path)
    assert status == 2 and "folder" in err

"""intact convert, and intact verify across two weight files."""

from __future__ import annotations

import json

import numpy as np
from tests.formats.model_cases import int4, write_folder, write_gguf_file

from intact.formats import open_weights


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


def test_an_onnx_file_is_still_what_verify_wants(run, tmp_path):
    status, _, err = run("verify", tmp_path)
    assert status == 2 and "folder" in err

"""Files: checked, whole or not at all, the same bytes for the same model, parsed defensively."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from intact.errors import FileAccessError, FileFormatError, QuantValueError, UnsupportedError
from intact.graph import (
    QUANTIZER_KEY,
    Session,
    lift_constants,
    load,
    read_model,
    save,
    tidy,
    to_bytes,
    write_model,
)

TEXT = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def model(text: str = TEXT) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


def test_a_written_model_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write_model(to_bytes(model()), path)
    assert to_bytes(read_model(path)) == path.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_a_written_file_has_the_users_permissions(tmp_path: Path) -> None:
    path, plain = tmp_path / "model.onnx", tmp_path / "plain"
    plain.touch()
    write_model(b"x", path)
    assert path.stat().st_mode == plain.stat().st_mode


def test_tidy_drops_the_exporters_notes_and_what_nobody_reads() -> None:
    noisy = model(TEXT.replace("{ y", "{ z = Sigmoid(x) y"))
    node = next(n for n in noisy.graph if n.op_type == "Relu")
    node.metadata_props.update({"pkg.torch.onnx.stack_trace": "File /home/user", QUANTIZER_KEY: "fc"})
    node.doc_string = "a note"
    tidy(noisy)
    assert [n.op_type for n in noisy.graph] == ["Relu"]
    assert b"/home/user" not in to_bytes(noisy) and b"a note" not in to_bytes(noisy)
    assert node.metadata_props == {QUANTIZER_KEY: "fc"}


def test_the_checker_refuses_an_invalid_model() -> None:
    with pytest.raises(QuantValueError, match=r"model: got what ONNX's checker refuses: .*No Op registered"):
        to_bytes(model(TEXT.replace("Relu", "Reluu")))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "model.onnx"
    with pytest.raises(
        FileAccessError, match=r"missing/model\.onnx': got 'No such file or directory' when it was written"
    ):
        write_model(b"x", path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileAccessError, match="No space left on device"):
        write_model(b"new", path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_a_directory_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").mkdir()
    with pytest.raises(FileAccessError, match="a folder"):
        write_model(b"x", tmp_path / "model.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize(
    "data", [b"", b"not a model", b"\x08\x08", b"\xff" * 100], ids=["empty", "text", "bare", "noise"]
)
def test_a_damaged_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"bad\.onnx: got .*want an ONNX model"):
        read_model(path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(to_bytes(model())[:-9])
    with pytest.raises(FileFormatError, match=r"cut\.onnx"):
        read_model(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"none\.onnx': got .*No such file"):
        read_model(tmp_path / "none.onnx")


def test_a_model_that_onnxruntime_cannot_run_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"onnxruntime: got '.*INVALID_PROTOBUF"):
        Session(b"nonsense")


def test_the_caller_says_what_to_do_about_it() -> None:
    with pytest.raises(UnsupportedError, match=r"\. Fix: leave the verification out$"):
        Session(b"nonsense", fix="leave the verification out")


def test_a_lifted_constant_is_written_under_its_values_name(tmp_path: Path) -> None:
    """A tensor that was a node's attribute may have another name, and large ones are written apart."""
    weight = numpy_helper.from_array(np.arange(4096, dtype=np.float32).reshape(64, 64), "in the node")
    node = onnx.helper.make_node("Constant", [], ["w"], value=weight)
    proto = onnx.parser.parse_model(
        TEXT.replace("float[2]", "float[1, 64]").replace("Relu(x)", "MatMul(x, x)")
    )
    proto.graph.node[0].input[1] = "w"
    proto.graph.node.insert(0, node)
    net = load(proto)
    lift_constants(net)
    save(net, tmp_path / "net.onnx")
    (written,) = onnx.load(tmp_path / "net.onnx").graph.initializer
    assert written.name == "w"
    np.testing.assert_array_equal(numpy_helper.to_array(written), numpy_helper.to_array(weight))

"""External data: read where they lie, refused where they could do harm, written beside the model."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from intact.errors import FileAccessError, FileFormatError
from intact.graph import Session, data_files, load, save, to_proto

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,1.0,2.0,3.0}> {
  y = MatMul(x, w)
}"""


def _external(proto: onnx.ModelProto, location: str, **entries: Any) -> None:
    tensor = proto.graph.initializer[0]
    for field in ("raw_data", "float_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))


def write_external(folder: Path, location: str = "data.bin", size: int = 48, **entries: Any) -> Path:
    proto = onnx.parser.parse_model(TEXT)
    _external(proto, location, **entries)
    if size:
        (folder / "data.bin").write_bytes(np.arange(size // 4, dtype=np.float32).tobytes())
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def test_external_data_are_read_where_they_lie(tmp_path: Path) -> None:
    path = write_external(tmp_path, size=64, offset=16, length=48)
    weight = load(path).graph.initializers["w"].const_value
    assert weight is not None
    np.testing.assert_array_equal(weight.numpy().ravel(), np.arange(4, 16, dtype=np.float32))
    again = load(path.read_bytes(), folder=tmp_path).graph.initializers["w"].const_value
    assert again is not None
    np.testing.assert_array_equal(again.numpy(), weight.numpy())


_OUTSIDE = (
    "outside the model's folder, want a file in that folder. Fix: do not load this model unless you trust "
    "its origin; if you do, copy the data file beside it"
)
_COPY = "Fix: copy the data file beside the model, or export the model again"
EXTERNAL = {
    "absolute": ({"location": "/etc/passwd"}, f"external data in '/etc/passwd', {_OUTSIDE}"),
    "upwards": ({"location": "../data.bin"}, f"external data in '../data.bin', {_OUTSIDE}"),
    "windows-drive": ({"location": "C:\\data.bin"}, f"external data in 'C:\\data.bin', {_OUTSIDE}"),
    "windows-upwards": ({"location": "..\\data.bin"}, f"external data in '..\\data.bin', {_OUTSIDE}"),
    "missing": (
        {"location": "none.bin"},
        f"'No such file or directory' for its external data 'none.bin', want a readable file. {_COPY}",
    ),
    "folder": (
        {"location": "."}, f"external data in '.', no regular file, want a file. {_COPY}"
    ),
    "nameless": ({"location": ""}, f"external data in '', want the name of a file. {_COPY}"),
    "short-file": (
        {"size": 40}, f"external data at 0..48 of 'data.bin', want a place within its 40 bytes. {_COPY}"
    ),
    "offset-beyond": (
        {"offset": 2**40},
        "external data at 1099511627776..1099511627824 of 'data.bin', want a place within its 48 bytes. "
        f"{_COPY}",
    ),
    "negative-offset": ({"offset": -8}, f"external data with offset '-8', want a count of bytes. {_COPY}"),
    "absurd-length": (
        {"length": 2**50},
        f"external data of 1125899906842624 bytes, want 48, for its shape and type. {_COPY}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("arguments, message", EXTERNAL.values(), ids=EXTERNAL)
def test_hostile_external_data_are_refused(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_external(tmp_path, **arguments)
    with pytest.raises(FileFormatError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: initializer 'w': got {message}"


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"x" * 48)
    (folder / "link.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(
        FileFormatError,
        match=r"in 'link\.bin', a link to a file outside .* put a copy in the place of",
    ):
        load(write_external(folder, location="link.bin"))


def make_hub_cache(
    folder: Path, blobs: str = "blobs", snapshots: str = "snapshots", data: str = "blobs/22"
) -> Path:
    """A model as Hugging Face's cache keeps it; `data` is what the link to the weights points to."""
    snapshot = folder / snapshots / "1f"
    snapshot.mkdir(parents=True)
    (folder / blobs).mkdir(exist_ok=True)
    model = write_external(folder)
    model.rename(folder / blobs / "11")
    (folder / "data.bin").rename(folder / data)
    (snapshot / "m.onnx").symlink_to(folder / blobs / "11")
    (snapshot / "data.bin").symlink_to(folder / data)
    return snapshot / "m.onnx"


def test_a_cache_of_links_is_read(tmp_path: Path) -> None:
    path = make_hub_cache(tmp_path)
    weight = load(path).graph.initializers["w"].const_value
    assert weight is not None
    np.testing.assert_array_equal(weight.numpy().ravel(), np.arange(12, dtype=np.float32))
    assert [file.stat().st_size for file in data_files(path)] == [48]


@pytest.mark.parametrize(
    "layout",
    [{"data": "secret"}, {"blobs": "other", "data": "other/22"}, {"snapshots": "other"}],
    ids=["data-elsewhere", "no-blobs", "no-snapshots"],
)
def test_links_are_followed_in_a_cache_alone(layout: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"'data\.bin', a link to a file outside the model's folder"):
        load(make_hub_cache(tmp_path, **layout))


def test_a_blob_that_is_a_link_itself_is_refused(tmp_path: Path) -> None:
    path = make_hub_cache(tmp_path)
    (tmp_path / "blobs" / "22").rename(tmp_path / "secret")
    (tmp_path / "blobs" / "22").symlink_to(tmp_path / "secret")
    with pytest.raises(FileFormatError, match="a link to a file outside the model's folder"):
        load(path)


def test_a_model_that_is_no_link_gets_no_blobs(tmp_path: Path) -> None:
    path = make_hub_cache(tmp_path)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="a link to a file outside the model's folder"):
        load(path)


def wide(weights: np.ndarray) -> onnx.ModelProto:
    """The model with weights that are worth a file of their own."""
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = weights.shape[1]
    return proto


def test_saving_with_external_data(tmp_path: Path) -> None:
    model, x = load(wide(np.ones((4, 300), np.float32))), np.ones((1, 4), np.float32)
    save(model, tmp_path / "m.onnx", external=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert (tmp_path / "m.onnx").stat().st_size < 400
    again = load(tmp_path / "m.onnx")
    assert model.graph.initializers["w"].const_value is not None
    expected = Session(to_proto(model).SerializeToString()).run({"x": x})["y"]
    save(again, tmp_path / "whole.onnx")
    np.testing.assert_array_equal(
        Session((tmp_path / "whole.onnx").read_bytes()).run({"x": x})["y"], expected
    )


@pytest.mark.parametrize("there", [False, True], ids=["new", "over an old pair"])
@pytest.mark.parametrize("call", range(3))
def test_a_failed_save_with_external_data_leaves_the_old_pair(
    call: int, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New data beside an old model would be weights of another model: both files are new, or none."""
    model = load(wide(np.ones((4, 300), np.float32)))
    if there:
        save(model, tmp_path / "m.onnx", external=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    files_written, link, replace = 0, os.link, Path.replace

    def full(do: Any, *args: Any, **named: Any) -> Any:
        nonlocal files_written
        files_written += not args[-1].name.startswith(".intact")
        if files_written > call:
            files_written = -10
            raise OSError(28, os.strerror(28))
        return do(*args, **named)

    monkeypatch.setattr(os, "link", partial(full, link))
    monkeypatch.setattr(Path, "replace", lambda self, target: full(replace, self, target))
    other = load(wide(np.zeros((4, 300), np.float32)))
    if call < 2:
        with pytest.raises(FileAccessError, match="No space left on device"):
            save(other, tmp_path / "m.onnx", external=True)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    else:
        save(other, tmp_path / "m.onnx", external=True)
        assert not np.frombuffer((tmp_path / "m.onnx.data").read_bytes(), np.float32).any()


def test_a_pair_is_written_behind_a_link(tmp_path: Path) -> None:
    """Data lie where the model is, which looks for them there."""
    (tmp_path / "models").mkdir()
    (tmp_path / "m.onnx").symlink_to("models/real.onnx")
    save(load(wide(np.ones((4, 300), np.float32))), tmp_path / "m.onnx", external=True)
    assert sorted(p.name for p in (tmp_path / "models").iterdir()) == ["real.onnx", "real.onnx.data"]
    load(tmp_path / "models" / "real.onnx")


def test_a_file_with_other_hard_links_is_refused(tmp_path: Path) -> None:
    path = write_external(tmp_path)
    os.link(tmp_path / "data.bin", tmp_path / "other.bin")
    with pytest.raises(FileFormatError, match=r"external data in 'data\.bin', a file with other hard links"):
        load(path)


def test_external_data_of_an_attribute_are_read_at_once(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(TEXT)
    _external(proto, "data.bin")
    tensor = proto.graph.initializer.pop()
    node = onnx.helper.make_node("Constant", [], ["w"], value=tensor)
    proto.graph.node.insert(0, node)
    (tmp_path / "data.bin").write_bytes(np.ones(12, np.float32).tobytes())
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    model = load(tmp_path / "m.onnx")
    (tmp_path / "data.bin").unlink()
    x = np.ones((1, 4), np.float32)
    got = Session(to_proto(model).SerializeToString()).run({"x": x})["y"]
    np.testing.assert_array_equal(got, [[4, 4, 4]])

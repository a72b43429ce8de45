"""Safetensors files: those of the package, every dtype, and damaged ones."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.formats.safetensors_file import SafetensorsFile, StoredTensor, write_safetensors

ARRAYS = {
    "f": np.arange(6, dtype=np.float32).reshape(2, 3), "h": np.arange(3, dtype=np.float16),
    "i": np.arange(4, dtype=np.int32), "b": np.array([True, False]), "none": np.zeros((0, 3), np.int8),
    "scalar": np.array(5, np.int64),
}  # fmt: skip


def write(path, arrays, metadata=None):
    tensors = {name: StoredTensor(array.dtype, array.shape) for name, array in arrays.items()}
    write_safetensors(path, tensors, arrays.__getitem__, metadata)


def test_files_of_the_package_are_read(tmp_path):
    save_file(ARRAYS, tmp_path / "a.safetensors", {"format": "pt"})
    file = SafetensorsFile(tmp_path / "a.safetensors")
    assert file.metadata == {"format": "pt"} and file.tensors.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert file.read(name).dtype == array.dtype
        np.testing.assert_array_equal(file.read(name), array)


def test_the_package_reads_what_is_written(tmp_path):
    write(tmp_path / "a.safetensors", ARRAYS, {"format": "pt"})
    for name, array in load_file(tmp_path / "a.safetensors").items():
        np.testing.assert_array_equal(array, ARRAYS[name])


@pytest.mark.parametrize(
    "dtype",
    [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu],
)
def test_dtypes_that_numpy_lacks_come_back(tmp_path, rng, dtype):
    array = np.exp2(rng.integers(-5, 5, (3, 4))).astype(dtype)
    write(tmp_path / "a.safetensors", {"x": array})
    read = SafetensorsFile(tmp_path / "a.safetensors").read("x")
    assert read.dtype == array.dtype and (read.view(np.uint8) == array.view(np.uint8)).all()


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="complex"):
        write(tmp_path / "a.safetensors", {"x": np.zeros(3, np.complex64)})
    with pytest.raises(QuantValueError, match="announce"):
        write_safetensors(
            tmp_path / "a.safetensors",
            {"x": StoredTensor(np.dtype("f4"), (2,))},
            lambda name: np.zeros(3, np.float32),
        )
    assert list(tmp_path.iterdir()) == []


def file_of(header: object, data: bytes = bytes(16)) -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: object = "F32", shape: object = (4,), offsets: object = (0, 16)) -> dict:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"1234567", struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 0), file_of(b"{"), file_of([1]),
        file_of(b"[" * 100000), file_of({"__metadata__": {"a": 1}}), file_of({"x": 3}), file_of(entry("F3")),
        file_of(entry(["F32"])), file_of(entry(None)), file_of(entry(shape=(2**62, 2**62))),
        file_of(entry(shape=(-4,))), file_of(entry(shape=(5,))), file_of(entry(shape=4)),
        file_of(entry(shape=(True,) * 4)), file_of(entry(offsets=(0, 17))), file_of(entry(offsets=(16, 0))),
        file_of(entry(offsets=(-16, 0))), file_of(entry(offsets=(0,))), file_of(entry(offsets=("0", "16"))),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(tmp_path, data):
    (tmp_path / "bad.safetensors").write_bytes(data)
    with pytest.raises(FileFormatError):
        SafetensorsFile(tmp_path / "bad.safetensors")


def test_a_name_that_is_not_there_is_named(tmp_path):
    write(tmp_path / "a.safetensors", ARRAYS)
    with pytest.raises(QuantValueError, match="'w'"):
        SafetensorsFile(tmp_path / "a.safetensors").read("w")

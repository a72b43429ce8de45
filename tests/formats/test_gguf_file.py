"""GGUF files: what the package `gguf` writes is read as it reads it, and written with the same bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from intact.errors import FileAccessError, FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.formats import GGML_TYPES, GgufField, GgufFile, GgufTensor, write_gguf
from intact.numerics import BlockWeights, dequantize_blocks

gguf = pytest.importorskip("gguf")
from tests.formats import gguf_cases  # noqa: E402


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gguf_cases.write(tmp_path_factory.mktemp("gguf") / "small.gguf")


def test_tensors_are_those_that_the_package_reads(path):
    theirs = gguf.GGUFReader(path)
    with GgufFile(path) as file:
        assert list(file.tensors) == [tensor.name for tensor in theirs.tensors]
        for tensor in theirs.tensors:
            ours, floats = (
                file.read(tensor.name),
                gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                if tensor.tensor_type.name != "I32"
                else tensor.data,
            )
            values = dequantize_blocks(ours) if isinstance(ours, BlockWeights) else ours.astype(floats.dtype)
            assert file.tensors[tensor.name].kind.name == tensor.tensor_type.name
            assert values.shape == tuple(tensor.shape[::-1].tolist())
            np.testing.assert_array_equal(values, floats.reshape(values.shape))


def test_metadata_is_what_the_package_reads(path):
    theirs = gguf.GGUFReader(path)
    with GgufFile(path) as file:
        assert file.version == 3 and file.alignment == 32
        ours = {name: field.value for name, field in file.metadata.items()}
    assert ours == {
        name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")
    }


def test_a_file_is_written_back_byte_for_byte(path, tmp_path):
    with GgufFile(path) as file:
        write_gguf(tmp_path / "same.gguf", file.metadata, file.tensors, file.read)
        write_gguf(tmp_path / "raw.gguf", file.metadata, file.tensors, file.raw, version=file.version)
    assert (tmp_path / "same.gguf").read_bytes() == path.read_bytes()
    assert (tmp_path / "raw.gguf").read_bytes() == path.read_bytes()


def test_another_alignment_and_values_built_here_are_read_by_the_package(tmp_path):
    metadata = {
        "general.architecture": GgufField.of("string", "llama"),
        "general.alignment": GgufField.of("uint32", 64),
        "tokens": GgufField.of("string", ["x", "yz"]),
        "scores": GgufField.of("float32", [0.5, 2]),
        "flag": GgufField.of("bool", False),
    }
    tensors = {name: GgufTensor(GGML_TYPES["F32"], (3, 5)) for name in ("a", "b")}
    arrays = {name: np.full((3, 5), index, np.float32) for index, name in enumerate(tensors)}
    write_gguf(tmp_path / "new.gguf", metadata, tensors, arrays.__getitem__)
    theirs = gguf.GGUFReader(tmp_path / "new.gguf")
    assert theirs.alignment == 64 and [t.data_offset % 64 for t in theirs.tensors] == [0, 0]
    assert all((t.data == arrays[t.name]).all() for t in theirs.tensors)
    assert {name: theirs.fields[name].contents() for name in metadata} == {
        name: field.value for name, field in metadata.items()
    }


def test_nothing_half_written_stays(tmp_path):
    target = tmp_path / "new.gguf"
    target.write_bytes(b"old")

    def load(name: str) -> np.ndarray:
        if name == "b":
            raise KeyError(name)
        return np.zeros(4, np.float32)

    with pytest.raises(KeyError):
        write_gguf(target, {}, {n: GgufTensor(GGML_TYPES["F32"], (4,)) for n in "ab"}, load)
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("target", "array"),
    [
        (GgufTensor(GGML_TYPES["F32"], (4,)), np.zeros(4)),
        (GgufTensor(GGML_TYPES["F32"], (4,)), np.zeros(5, np.float32)),
        (GgufTensor(GGML_TYPES["Q4_0"], (2, 48)), np.zeros(54, np.uint8)),
        (GgufTensor(GGML_TYPES["Q4_0"], (64,)), np.zeros(35, np.uint8)),
        (GgufTensor(GGML_TYPES["F32"], (1,) * 5), np.zeros((1,) * 5, np.float32)),
        (GgufTensor(GGML_TYPES["F32"], ()), np.zeros((), np.float32)),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path, target, array):
    with pytest.raises(QuantValueError, match="tensor 'w'"):
        write_gguf(tmp_path / "new.gguf", {}, {"w": target}, lambda name: array)
    assert list(tmp_path.iterdir()) == []


def test_names_and_types_that_cannot_be_read_are_named(tmp_path):
    raw = np.zeros(66, np.uint8)
    target = {"w": GgufTensor(GGML_TYPES["IQ2_XXS"], (256,))}
    write_gguf(tmp_path / "new.gguf", {}, target, lambda name: raw)
    with GgufFile(tmp_path / "new.gguf") as file:
        assert (file.raw("w") == 0).all()
        with pytest.raises(UnsupportedError, match="IQ2_XXS"):
            file.read("w")
        with pytest.raises(QuantValueError, match="'v'"):
            file.read("v")
    with pytest.raises(FileAccessError, match=r"no\.gguf"):
        GgufFile(tmp_path / "no.gguf")


@pytest.mark.parametrize(
    ("kind", "value"), [("int8", 300), ("uint8", -1), ("bool", 2), ("string", 1), ("x", 1)]
)
def test_values_that_a_kind_does_not_hold_are_refused(kind, value):
    for inputs in (value, [value]):
        with pytest.raises(QuantValueError, match=kind):
            GgufField.of(kind, inputs)


# -- files from strangers


def header(version: int = 3, tensors: int = 0, entries: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def tensor(shape=(32,), number=0, offset=0, name=b"w") -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)


HOSTILE = {
    "empty": (b"", "24 bytes"),
    "magic": (b"GGML" + header()[4:], "GGUF"),
    "version 1": (header(1), "version 1"),
    "big-endian": (header(3 << 24), "big-endian"),
    "many tensors": (header(tensors=2**60), "as the file has room"),
    "many entries": (header(entries=2**60), "as the file has room"),
    "long key": (header(entries=1) + struct.pack("<Q", 2**63) + b"x" * 20, "beyond the end"),
    "no text": (header(entries=1) + text(b"\xff") + struct.pack("<I", 0) + b"x", "UTF-8"),
    "kind": (header(entries=1) + text(b"k") + struct.pack("<I", 13) + b"x", "kind 13"),
    "bool": (header(entries=1) + text(b"k") + struct.pack("<IB", 7, 2), "bool"),
    "array of arrays": (header(entries=1) + text(b"k") + struct.pack("<IIQ", 9, 9, 1), "array of kind 9"),
    "long array": (
        header(entries=1) + text(b"k") + struct.pack("<IIQ", 9, 12, 2**61),
        "as the file has room",
    ),
    "many strings": (
        header(entries=1) + text(b"k") + struct.pack("<IIQ", 9, 8, 2**61),
        "as the file has room",
    ),
    "key twice": (header(entries=2) + (text(b"k") + struct.pack("<IB", 0, 2)) * 2, "every key once"),
    "alignment": (header(entries=1) + text(b"general.alignment") + struct.pack("<II", 4, 48), "power of 2"),
    "alignment 0": (header(entries=1) + text(b"general.alignment") + struct.pack("<II", 4, 0), "power of 2"),
    "axes": (header(tensors=1) + tensor((1,) * 5), "5 axes"),
    "no axes": (header(tensors=1) + tensor(()), "0 axes"),
    "elements": (header(tensors=1) + tensor((2**32, 2**32)), "elements"),
    "elements and 0": (header(tensors=1) + tensor((2**62, 2**62, 0)), "elements"),
    "type": (header(tensors=1) + tensor(number=4), "type 4"),
    "columns": (header(tensors=1) + tensor((33,), 2), "multiple of 32"),
    "short": (header(tensors=1) + tensor() + bytes(100), "beyond the end"),
    "offset": (header(tensors=1) + tensor(offset=64) + bytes(1000), "behind the one before"),
    "overlap": (header(tensors=2) + tensor() + tensor(name=b"v") + bytes(1000), "behind the one before"),
    "name twice": (header(tensors=2) + tensor() + tensor(offset=128) + bytes(1000), "every name once"),
}


@pytest.mark.parametrize(("data", "words"), HOSTILE.values(), ids=HOSTILE)
def test_damaged_files_are_refused(tmp_path, data, words):
    (tmp_path / "bad.gguf").write_bytes(data)
    with pytest.raises(FileFormatError, match=words):
        GgufFile(tmp_path / "bad.gguf")


def test_a_file_cut_anywhere_is_refused(path, tmp_path):
    whole = path.read_bytes()
    for size in [*range(0, 900, 7), *range(900, len(whole) - 32, 997)]:
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(IntactError):
            GgufFile(tmp_path / "cut.gguf")

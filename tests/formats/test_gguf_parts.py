"""A GGUF model in several files is read as one, or refused with what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intact import formats
from intact.errors import FileFormatError
from intact.formats.gguf_parts import open_gguf

TENSORS = {f"t{i}": np.arange(i, i + 32, dtype=np.float32) for i in range(5)}
CUTS = (0, 2, 4, 5)


def field(value: Any) -> formats.GgufField:
    return formats.GgufField.of("string" if isinstance(value, str) else "int32", value)


def write(path: Path, keys: dict[str, Any], names: list[str]) -> None:
    kinds = {name: formats.GgufTensor(formats.GGML_TYPES["F32"], (32,)) for name in names}
    formats.write_gguf(path, {key: field(value) for key, value in keys.items()}, kinds, TENSORS.__getitem__)


def write_parts(folder: Path, changes: dict[int, dict[str, Any]] | None = None, **cuts: Any) -> Path:
    """Write three parts, with changed keys by part (None: without the key) and other tensors by part."""
    for number in range(3):
        keys: dict[str, Any] = {"split.no": number, "split.count": 3, "split.tensors.count": 5}
        if number == 0:
            keys = {"general.architecture": "llama", "llama.block_count": 2, **keys}
        keys |= (changes or {}).get(number, {})
        names = cuts.get(f"part{number}", list(TENSORS)[CUTS[number] : CUTS[number + 1]])
        path = folder / f"m-{number + 1:05}-of-00003.gguf"
        write(path, {key: value for key, value in keys.items() if value is not None}, names)
    return folder / "m-00001-of-00003.gguf"


def test_parts_are_read_as_one_by_the_first_file_or_the_folder(tmp_path):
    first = write_parts(tmp_path)
    for weights in (formats.open_weights(first), formats.open_weights(tmp_path)):
        assert weights.names == tuple(TENSORS)
        assert all(np.array_equal(weights.read(name), TENSORS[name]) for name in TENSORS)


def test_converting_parts_writes_one_whole_file(tmp_path):
    formats.convert(write_parts(tmp_path), tmp_path / "whole.gguf", to="gguf")
    whole = formats.GgufFile(tmp_path / "whole.gguf")
    assert set(whole.metadata) == {"general.architecture", "llama.block_count"}
    assert list(whole.tensors) == list(TENSORS)


@pytest.mark.parametrize(
    ("changes", "cuts", "message"),
    [
        ({1: {"split.no": 2}}, {}, "split.no = 2, but part 2 of 3 has 1"),
        ({2: {"split.count": 4}}, {}, "split.count = 4"),
        ({1: {"split.count": None}}, {}, "split.count = nothing"),
        ({1: {"split.tensors.count": 7}}, {}, "split.tensors.count = 7"),
        ({1: {"general.architecture": "gemma"}}, {}, "general.architecture = 'gemma', but .* has 'llama'"),
        ({1: {"llama.context_length": 7}}, {}, "llama.context_length = 7, but .* no such key"),
        ({}, {"part1": ["t1", "t2"]}, "the tensor 't1', which .*00001-of-00003.* has, too"),
        ({}, {"part2": []}, "split.tensors.count = 5, but 4 tensors in 3 files"),
        ({0: {"split.count": 1}}, {}, "a name of part 1 of 3, but no split.count"),
        ({0: {"split.no": 1}}, {}, "split.no = 1 and split.count = 3, but the name"),
        ({0: {"split.count": -1}}, {}, "split.count"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, changes, cuts, message):
    first = write_parts(tmp_path, changes, **cuts)
    with pytest.raises(FileFormatError, match=message):
        open_gguf(first)


def test_a_missing_part_is_named(tmp_path):
    first = write_parts(tmp_path)
    (tmp_path / "m-00003-of-00003.gguf").unlink()
    with pytest.raises(FileFormatError, match=r"no 'm-00003-of-00003.gguf'"):
        open_gguf(first)
    with pytest.raises(FileFormatError, match=r"part 2 of 3.*give 'm-00001-of-00003.gguf'"):
        open_gguf(tmp_path / "m-00002-of-00003.gguf")
    with pytest.raises(FileFormatError, match=r"the name 'other.gguf'"):
        open_gguf(first.rename(tmp_path / "other.gguf"))


def test_of_several_models_in_a_folder_none_is_chosen(tmp_path):
    write_parts(tmp_path)
    write(tmp_path / "a.gguf", {"general.architecture": "llama"}, ["t0"])
    with pytest.raises(FileFormatError, match=r"2 GGUF models: a.gguf, m-00001-of-00003.gguf"):
        formats.open_weights(tmp_path)

"""Codes that are kept while a quantization runs: the same bits, no work twice, nothing wrong read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.ptq.blocks.test_quantize_weights import batches, network

from intact import graph
from intact.errors import FileAccessError, FileFormatError
from intact.ptq.blocks import group_store, quantize_weights, round_group
from intact.ptq.blocks.block_format import BlockFormat
from intact.ptq.blocks.round_group import Recipe


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


@pytest.mark.parametrize("weights", ["int4", "uint4"])
def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str) -> None:
    calls = []

    def stop_at_third(*args: object) -> object:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return round_group(*args)  # type: ignore[arg-type]

    options = {"weights": weights, "state": tmp_path / "state", "progress": False}
    monkeypatch.setattr(group_store, "round_group", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        quantize_weights(network(), batches(), **options)
    assert len(files(tmp_path / "state")) == 2
    resumed = quantize_weights(network(), batches(), **options)
    assert len(calls) == 4 and len(files(tmp_path / "state")) == 3
    again = quantize_weights(network(), batches(), **options)
    assert len(calls) == 4
    whole = quantize_weights(network(), batches(), weights=weights, progress=False)
    bytes_of = [graph.to_bytes(result.model) for result in (resumed, again, whole)]
    assert bytes_of[0] == bytes_of[1] == bytes_of[2]
    assert [layer.error for layer in resumed.layers] == [layer.error for layer in whole.layers]


def test_other_settings_and_data_have_files_of_their_own(tmp_path: Path) -> None:
    for options in ({}, {"method": "gptq"}, {"block": 16}, {"num_batches": 3}):
        before = len(files(tmp_path))
        quantize_weights(network(), batches(), state=tmp_path, progress=False, **options)  # type: ignore[arg-type]
        assert len(files(tmp_path)) == before + 3


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    quantize_weights(network(), state=tmp_path, progress=False)
    path = files(tmp_path)[0]
    path.write_bytes(files(tmp_path)[1].read_bytes())
    with pytest.raises(FileFormatError, match=path.name):
        quantize_weights(network(), state=tmp_path, progress=False)
    path.write_bytes(b"12345678")
    with pytest.raises(FileFormatError, match=path.name):
        quantize_weights(network(), state=tmp_path, progress=False)
    with pytest.raises(FileAccessError):
        quantize_weights(network(), state=path, progress=False)


def test_nothing_is_kept_without_a_folder() -> None:
    store = group_store.GroupStore(None)
    weight = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    rounded = store.round(weight, None, group_store.BlockFormat("int4", 32), group_store.Recipe())
    assert rounded.weights.shape == (4, 32)


def test_a_flipped_bit_is_refused_by_name_wherever_it_is(tmp_path: Path) -> None:
    grid, weight = BlockFormat("int4", 8), np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    store = group_store.GroupStore(tmp_path)
    rounded = store.round(weight, None, grid, Recipe())
    (path,) = files(tmp_path)
    data = path.read_bytes()
    assert np.array_equal(store.round(weight, None, grid, Recipe()).weights.codes, rounded.weights.codes)
    for at in range(0, 8 * len(data), 5):
        path.write_bytes(data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :])
        with pytest.raises(FileFormatError, match=path.name):
            store.round(weight, None, grid, Recipe())


def test_a_file_under_the_name_of_another_one_is_refused(tmp_path: Path) -> None:
    grid, rng = BlockFormat("int4", 8), np.random.default_rng(0)
    store, weights = group_store.GroupStore(tmp_path), rng.normal(size=(2, 4, 16)).astype(np.float32)
    for weight in weights:
        store.round(weight, None, grid, Recipe())
    first, second = files(tmp_path)
    first.write_bytes(second.read_bytes())
    with pytest.raises(FileFormatError, match=first.name):
        for weight in weights:
            store.round(weight, None, grid, Recipe())

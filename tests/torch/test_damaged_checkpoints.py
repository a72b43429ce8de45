"""Checkpoints, states of reconstruction and of fine-tuning are refused where a bit of them flipped."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tests.bit_flips import bit_flips
from torch import nn

import intact
from intact.errors import FileFormatError, QuantValueError
from intact.torch import load_checkpoint, replace_modules, save_checkpoint
from intact.torch.nn import TensorQuantizer
from intact.torch.reconstruction.reconstruction_checkpoint import FinishedBlocks
from intact.torch.sealed_tensors import digest_of_state, read_sealed, write_sealed
from intact.torch.training.training_checkpoint import read_state, write_state

FLIPS = 400
Read = Callable[[Path], Any]


def float_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def quantized_net() -> nn.Module:
    model = float_net()
    replace_modules(model)
    for module in model.modules():
        if isinstance(module, TensorQuantizer):
            module.amax = 1.5
    return model


def checkpoint(path: Path) -> Read:
    save_checkpoint(quantized_net(), path)

    def read(path: Path) -> Any:
        model = load_checkpoint(float_net(), path)
        ranges = {n: repr(m) for n, m in model.named_modules() if isinstance(m, TensorQuantizer)}
        return ranges, dict(model.state_dict())

    return read


def reconstruction(path: Path) -> Read:
    settings = {"steps": 2, "seed": 0}
    tensors = {"0.weight": torch.rand(4, 4), "2.weight": torch.rand(2, 4).bfloat16()}
    write_sealed(path, "intact.reconstruction", {"version": 1, "settings": settings, "reports": []}, tensors)

    def read(path: Path) -> Any:
        finished = FinishedBlocks(path, settings)
        finished.resume(float_net(), [], path)
        return finished.reports, finished._tensors

    return read


def finetuning(path: Path) -> Read:
    model = float_net()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(3, 4)).sum().backward()
    optimizer.step()
    write_state(path, model, optimizer, {"step": 3, "losses": [0.5, 0.25]}, {"lr": 0.1})
    return lambda path: read_state(path, {"lr": 0.1})


@pytest.mark.parametrize("write", [checkpoint, reconstruction, finetuning])
def test_a_flipped_bit_is_refused_or_changes_nothing(write: Callable[[Path], Read], tmp_path: Path) -> None:
    path = tmp_path / "state.file"
    read = write(path)
    data, wanted = path.read_bytes(), digest_of_state({"content": read(path)})
    refused = 0
    for changed in bit_flips(data, FLIPS):
        path.write_bytes(changed)
        try:
            content = read(path)
        except (FileFormatError, QuantValueError):
            refused += 1
        else:
            assert digest_of_state({"content": content}) == wanted
    # Of a torch.save file, headers and padding that nobody reads are a good part.
    assert refused > (FLIPS // 3 if write is finetuning else 0.9 * FLIPS)


def test_tensors_and_document_of_a_checkpoint_are_sealed(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    read = checkpoint(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
    changed = copy.deepcopy(tensors)
    changed["0.weight"][0, 0] += 1
    save_file(changed, path, metadata)
    with pytest.raises(FileFormatError, match="does not match its checksum"):
        read(path)
    document = json.loads(metadata["intact.checkpoint"])
    document["document"]["modules"] = {}
    save_file(tensors, path, metadata | {"intact.checkpoint": json.dumps(document)})
    with pytest.raises(FileFormatError, match="does not match its checksum"):
        read(path)


def test_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    read = checkpoint(path)
    wanted = digest_of_state({"content": read(path)})
    document, tensors = read_sealed(path, "intact.checkpoint")
    save_file({n: t.clone() for n, t in tensors.items()}, path, {"intact.checkpoint": json.dumps(document)})
    assert digest_of_state({"content": read(path)}) == wanted
    read = finetuning(path)
    state = read(path)
    torch.save(state, path)
    assert digest_of_state(read(path)) == digest_of_state(state)


def test_a_damaged_state_stops_a_reconstruction(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    batches = [torch.rand(8, 4) for _ in range(2)]
    replace_modules(model := float_net())
    intact.torch.calibrate(model, batches, progress=False)
    options: dict[str, Any] = {"state": path, "steps": 2, "progress": False}
    intact.torch.reconstruct(copy.deepcopy(model), batches, **options)
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 8]) + data[-2:])
    with pytest.raises(FileFormatError, match="does not match its checksum"):
        intact.torch.reconstruct(copy.deepcopy(model), batches, **options)

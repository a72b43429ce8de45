"""Checkpoints bring back configuration, scales and switches, bit for bit, into a float model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.torch import load_checkpoint, replace_modules, save_checkpoint
from intact.torch.nn import TensorQuantizer
from intact.torch.tensor_quant import QuantDescriptor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4, 2)
        self.tied = nn.Linear(4, 2)
        self.tied.weight = self.fc.weight
        self.residual_quantizer = TensorQuantizer(QuantDescriptor(num_bits=4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.residual_quantizer(self.conv(x)).mean((2, 3))
        return self.fc(x) + self.tied(x)


def quantized_net() -> Net:
    """A model whose quantizers differ from the defaults in every way."""
    torch.manual_seed(3)
    model = Net()
    replace_modules(model, quant_desc_input=QuantDescriptor(calib_method="histogram"))
    x = torch.randn(2, 3, 6, 6)
    for module in model.modules():
        if isinstance(module, TensorQuantizer):
            module.amax = torch.rand_like(module._get_amax(x)) if module._axis is None else 0.5
    model.conv._weight_quantizer = TensorQuantizer(
        QuantDescriptor(5, axis=0, narrow_range=True, scale_amax=0.75)
    )
    model.conv._weight_quantizer.amax = torch.rand(4, 1, 1, 1)
    model.conv._input_quantizer = TensorQuantizer(QuantDescriptor(symmetric=False, unsigned=True))
    model.conv._input_quantizer.set_range(-0.3, 2.0)
    model.fc._input_quantizer = TensorQuantizer(QuantDescriptor(learn_amax=True, amax=1.5))
    model.fc._weight_quantizer = TensorQuantizer(QuantDescriptor((4, 3)))
    model.fc._weight_quantizer.pre_quant_scale = [2.0, 1.0, 0.5, 1.0]
    model.tied._input_quantizer.disable()
    model.residual_quantizer.disable_quant()
    model.residual_quantizer.enable_calib()
    return model.eval()


def lines(model: nn.Module) -> dict[str, str]:
    return {n: m.extra_repr() for n, m in model.named_modules() if isinstance(m, TensorQuantizer)}


@pytest.mark.parametrize("target", ["float model", "quantized model"])
def test_round_trip(target: str, tmp_path: Path) -> None:
    model, path = quantized_net(), tmp_path / "model.safetensors"
    save_checkpoint(model, path)
    other = Net().eval()
    if target == "quantized model":
        replace_modules(other)
        other.residual_quantizer.amax = 3.0
        other.fc._weight_quantizer.pre_quant_scale = 9.0
        other.tied._weight_quantizer.amax = 1.0
    assert load_checkpoint(other, path) is other
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        assert torch.equal(model(x), other(x))
    assert lines(model) == lines(other)
    state, got = model.state_dict(), other.state_dict()
    assert state.keys() == got.keys() and all(torch.equal(state[k], got[k]) for k in state)
    assert other.fc._input_quantizer.clip.clip_value_max.requires_grad
    assert other.residual_quantizer._name == "residual_quantizer"
    assert list(tmp_path.iterdir()) == [path], "no temporary file is left"


def test_saving_twice_gives_the_same_file(tmp_path: Path) -> None:
    model = quantized_net()
    for name in "ab":
        save_checkpoint(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_plain_state_dict_keeps_the_old_keys() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    replace_modules(model)
    model[0].input_quantizer.amax = 1.0
    assert list(model.state_dict()) == ["0.weight", "0.bias", "0._input_quantizer._amax"]


def test_a_missing_or_additional_quantizer_is_named(tmp_path: Path) -> None:
    model, path = quantized_net(), tmp_path / "c"
    save_checkpoint(model, path)
    lacking = Net()
    del lacking.residual_quantizer
    with pytest.raises(QuantValueError, match="residual_quantizer: got a quantizer that the model lacks"):
        load_checkpoint(lacking, path)
    more = Net()
    more.second_quantizer = TensorQuantizer()
    with pytest.raises(QuantValueError, match="second_quantizer: got a quantizer that the checkpoint lacks"):
        load_checkpoint(more, path)


def test_weights_of_another_shape(tmp_path: Path) -> None:
    save_checkpoint(nn.Linear(2, 2), tmp_path / "c")
    with pytest.raises(QuantValueError, match="size mismatch for weight"):
        load_checkpoint(nn.Linear(3, 2), tmp_path / "c")


def test_state_that_is_no_tensor(tmp_path: Path) -> None:
    class Strange(nn.Module):
        def get_extra_state(self) -> dict[str, int]:
            return {}

    with pytest.raises(UnsupportedError, match=r"state_dict\['_extra_state'\]: got dict"):
        save_checkpoint(Strange(), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage", ["truncated", "garbage", "no document", "not json", "version", "configuration"]
)
def test_damaged_files(damage: str, tmp_path: Path) -> None:
    model, path = nn.Sequential(TensorQuantizer()), tmp_path / "c"
    model[0].amax = 1.0
    save_checkpoint(model, path)
    tensors = {k: v.clone() for k, v in model.state_dict().items()}
    document = {"version": 1, "modules": {}, "quantizers": {"0": {"num_bits": 99}}}
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-3])
    elif damage == "garbage":
        path.write_bytes(b"\xff" * 40)
    elif damage == "no document":
        save_file(tensors, path)
    elif damage == "not json":
        save_file(tensors, path, metadata={"intact.checkpoint": "{"})
    elif damage == "version":
        save_file(tensors, path, metadata={"intact.checkpoint": json.dumps({**document, "version": 2})})
    else:
        save_file(tensors, path, metadata={"intact.checkpoint": json.dumps(document)})
    with pytest.raises(FileFormatError, match="want a checkpoint of version 1") as caught:
        load_checkpoint(model, path)
    assert str(path) in str(caught.value)

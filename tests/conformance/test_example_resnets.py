"""The ResNets of examples/: published sizes, weights for either build, the float net in the quantized one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from intact.torch import nn as quant_nn

# Parameters: He et al. 2016 (0.27 M and 0.85 M, option A) and torchvision's model pages.
SIZES = {
    ("cifar_resnet", "resnet20"): 269_722,
    ("cifar_resnet", "resnet56"): 853_018,
    ("resnet", "resnet18"): 11_689_512,
    ("resnet", "resnet50"): 25_557_032,
}
RESIDUALS = {"resnet20": 9, "resnet56": 27, "resnet18": 8, "resnet50": 16}


@pytest.mark.parametrize(("file", "name"), SIZES, ids=lambda value: value)
def test_size_and_quantizers(example, file, name):
    build = getattr(example(file), name)
    model, twin = build(quantize=True).eval(), build().eval()
    assert sum(p.numel() for p in model.parameters()) == SIZES[file, name]
    model.load_state_dict(twin.state_dict())
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert all(type(m) is quant_nn.QuantConv2d for m in convolutions)
    quantizers = [m for m in model.modules() if isinstance(m, quant_nn.TensorQuantizer)]
    assert len(quantizers) == 2 * (len(convolutions) + 1) + 1 + RESIDUALS[name]
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert not torch.equal(model(x), twin(x))
        for quantizer in quantizers:
            quantizer.disable()
        assert torch.equal(model(x), twin(x))


def test_option_a_shortcut_takes_every_second_pixel_between_zero_channels(example):
    block = example("cifar_resnet").Block(16, 32, stride=2).eval()
    nn.init.zeros_(block.bn2.weight)  # the branch adds nothing
    x = torch.rand(1, 16, 8, 8)
    y = block(x)
    assert y.shape == (1, 32, 4, 4)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert not y[:, :8].any()
    assert not y[:, 24:].any()


@pytest.mark.shared
@pytest.mark.parametrize("name", ["resnet20", "resnet56"])
def test_published_weights_load(example, shared_folder, name):
    weights = shared_folder / "models" / f"cifar10_{name}.safetensors"
    models = [
        getattr(example("cifar_resnet"), name)(weights, quantize=quantize) for quantize in (False, True)
    ]
    assert not any(model.training for model in models)
    pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_imagenet_weights_load_from_a_file(example, tmp_path):
    resnet = example("resnet")
    model = resnet.resnet18(num_classes=3)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    loaded = resnet.resnet18(pretrained=tmp_path / "weights.pth", num_classes=3, quantize=True)
    assert torch.equal(loaded.fc.weight, model.fc.weight)

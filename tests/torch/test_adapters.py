"""Adapters around quantized layers learn, and modules that come in after quantization stay in float."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import intact
import intact.torch
from intact.errors import UnsupportedError
from intact.ptq.blocks import BlockFormat
from intact.torch import BlockWeightLinear

WAYS = {
    "float activations": lambda m: intact.quantize(m, weights="int4", block=32).model,
    "dynamic activations": lambda m: (
        intact.quantize(m, weights="int4", block=32, activations="dynamic-int8").model
    ),
    "quantize_dynamic": lambda m: intact.torch.quantize_dynamic(m),
}


class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 4, bias=False)
        self.up = nn.Linear(4, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 32), nn.Linear(32, 32)])
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        self.out = nn.Linear(32, 4)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.out(self.head(x) + x)


@pytest.fixture
def batches():
    torch.manual_seed(0)
    return [torch.randn(8, 32) for _ in range(3)]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_gradients_pass_straight_through_layers_of_codes(way, training):
    torch.manual_seed(0)
    model = WAYS[way](nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 8))).train(training)
    x = torch.randn(2, 3, 64, requires_grad=True)
    factors = torch.randn(2, 3, 8)
    (grad,) = torch.autograd.grad((model(x) * factors).sum(), x)
    weight = model[1].weight
    (wanted,) = torch.autograd.grad((nn.functional.linear(model[0](x), weight) * factors).sum(), x)
    assert torch.allclose(grad, wanted, atol=1e-5)
    assert isinstance(model[1], nn.Linear) and not any(p.requires_grad for p in model[1].parameters())


def test_gradients_reach_channels_in_front_of_awq_factors_and_have_gradients_themselves(batches):
    model = intact.quantize(nn.Sequential(nn.Linear(32, 8)), batches, weights="int4", block=32).model
    x = torch.randn(2, 32, requires_grad=True)
    (grad,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert torch.allclose(grad, 2 * model(x) @ model[0].weight, atol=1e-5) and second.abs().sum() > 0


def test_scales_and_biases_learn_where_they_are_asked_to(batches):
    layer = BlockWeightLinear.from_linear(nn.Linear(40, 8), BlockFormat("int4", 32), activations="float")
    layer.requires_grad_(True)
    layer(x := torch.randn(5, 40)).square().sum().backward()
    scales = layer.scales.detach().clone().requires_grad_(True)
    steps = layer.dequantize() / layer.scales.detach().repeat_interleave(32, 1)[:, :40]
    weight = steps * scales.repeat_interleave(32, 1)[:, :40]
    nn.functional.linear(x, weight, layer.bias.detach()).square().sum().backward()
    assert torch.allclose(layer.scales.grad, scales.grad, rtol=1e-4, atol=1e-3)
    assert torch.allclose(layer.bias.grad, 2 * layer(x).sum(0), atol=1e-4)


@pytest.mark.parametrize(
    "write",
    [
        lambda layer: layer.weight.data.add_(1),
        lambda layer: layer.weight.add_(1),
        lambda layer: setattr(layer.weight, "data", torch.zeros(8, 64)),
        lambda layer: layer.reset_parameters(),
    ],
)
def test_weights_of_codes_are_read_and_not_written(write):
    layer = BlockWeightLinear.from_linear(nn.Linear(64, 8))
    assert layer.weight.shape == (8, 64) and layer.weight.dtype == torch.float32
    assert torch.equal(layer.weight.data.clone() + 0, layer.dequantize())
    with pytest.raises(UnsupportedError, match="fixed"):
        write(layer)


@pytest.mark.parametrize("place", ["layers", "head", "out", "all"])
def test_an_adapter_that_replaces_a_layer_of_a_traced_model_runs_in_float(tmp_path, batches, place):
    model = intact.quantize(Net().eval(), batches, progress=False).model
    before = model(batches[0])
    if place in ("layers", "all"):
        model.layers[1] = Lora(model.layers[1])
    if place in ("head", "all"):
        model.head[0] = Lora(model.head[0])
    if place in ("out", "all"):
        model.out = Lora(model.out)
    for name, parameter in model.named_parameters():
        if ".up." in name:
            parameter.data.zero_()
    assert torch.equal(model(batches[0]), before)
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if ".up." in name:
            parameter.data.normal_(0, 0.01)
    model.train()
    model(batches[0]).sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if ".up." in name)
    model.eval()
    engine = intact.compile(model, batches[0], threads=1)
    assert np.array_equal(engine(batches[0].numpy()), model(batches[0]).detach().numpy())


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, "traced"])
def test_peft_trains_around_quantized_layers(batches, way):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    quantize = WAYS.get(way, lambda m: intact.quantize(m, batches, progress=False).model)
    targets = ["layers.0", "head.0", "out"]
    for config in (
        peft.LoraConfig(r=4, target_modules=targets),
        peft.IA3Config(target_modules=targets, feedforward_modules=["out"]),
    ):
        model = peft.get_peft_model(quantize(Net().eval()), config).train()
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, 1e-2)
        losses = []
        for _ in range(4):
            loss = (model(batches[0]) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] and all(p.grad is not None for p in trained)
        model.eval()
        engine = intact.compile(model, batches[0], threads=1)
        assert np.allclose(engine(batches[0].numpy()), model(batches[0]).detach().numpy(), atol=1e-5)
        if way == "traced":
            merged = model.merge_and_unload()
            intact.torch.calibrate(merged, batches, progress=False)
            assert intact.compile(merged, batches[0], threads=1)(batches[0].numpy()).shape == (8, 4)
        else:
            with pytest.raises(UnsupportedError, match="leave adapters unmerged"):
                model.merge_and_unload()

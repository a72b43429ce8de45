"""The pytorch-quantization guide, second part: calibrate, evaluate, fine-tune and export, under alias().

Changed in its listings is only what names a GPU, a path or torchvision (a stand-in offers the ResNets of
examples/ under that name). Spaces that the page's layout put in front of whole listings are dropped. Names
that a listing uses and does not define are given to it.
"""

from __future__ import annotations

import functools
import math
import os
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

NO_GPU = {".cuda()": ".cpu()", "device='cuda'": "device='cpu'", '"cuda"': '"cpu"'}

EXPORT_RESNET18 = """
import torch
import torchvision
from pytorch_quantization import tensor_quant, quant_modules
from pytorch_quantization import nn as quant_nn

quant_modules.initialize()

model = torchvision.models.resnet18()
model.cuda()

inputs = torch.randn(1, 3, 224, 224, device='cuda')
quant_nn.TensorQuantizer.use_fb_fake_quant = True
torch.onnx.export(model, inputs, 'quant_resnet18.onnx', opset_version=13)
"""

CALIBRATION = """
# Find the TensorQuantizer and enable calibration
for name, module in model.named_modules():
    if name.endswith('_quantizer'):
        module.enable_calib()
        module.disable_quant()  # Use full precision data to calibrate

# Feeding data samples
model(x)
# ...

# Finalize calibration
for name, module in model.named_modules():
    if name.endswith('_quantizer'):
        module.load_calib_amax()
        module.disable_calib()
        module.enable_quant()

# If running on GPU, it needs to call .cuda() again because new tensors will be created by calibration process
model.cuda()

# Keep running the quantized model
# ...
"""

EXPORT_RESNET50 = """
import pytorch_quantization
from pytorch_quantization import nn as quant_nn
from pytorch_quantization import quant_modules

quant_modules.initialize()
model = torchvision.models.resnet50()

# load the calibrated model
state_dict = torch.load("quant_resnet50-entropy-1024.pth", map_location="cpu")
model.load_state_dict(state_dict)
model.cuda()

dummy_input = torch.randn(128, 3, 224, 224, device='cuda')

input_names = [ "actual_input_1" ]
output_names = [ "output1" ]

with pytorch_quantization.enable_onnx_export():
     # enable_onnx_checker needs to be disabled. See notes below.
     torch.onnx.export(
         model, dummy_input, "quant_resnet50.onnx", verbose=True, opset_version=10, enable_onnx_checker=False
         )
"""

IMPORTS = """
import torch
import torch.utils.data
from torch import nn

from pytorch_quantization import nn as quant_nn
from pytorch_quantization import calib
from pytorch_quantization.tensor_quant import QuantDescriptor

from torchvision import models

sys.path.append("path to torchvision/references/classification/")
from train import evaluate, train_one_epoch, load_data
"""

INITIALIZE = """
from pytorch_quantization import quant_modules
quant_modules.initialize()
"""

MODEL = """
quant_desc_input = QuantDescriptor(calib_method='histogram')
quant_nn.QuantConv2d.set_default_quant_desc_input(quant_desc_input)
quant_nn.QuantLinear.set_default_quant_desc_input(quant_desc_input)

model = models.resnet50(pretrained=True)
model.cuda()
"""

DATA = """
data_path = "PATH to imagenet"
batch_size = 512

traindir = os.path.join(data_path, 'train')
valdir = os.path.join(data_path, 'val')
dataset, dataset_test, train_sampler, test_sampler = load_data(traindir, valdir, False, False)

data_loader = torch.utils.data.DataLoader(
    dataset, batch_size=batch_size,
    sampler=train_sampler, num_workers=4, pin_memory=True)

data_loader_test = torch.utils.data.DataLoader(
    dataset_test, batch_size=batch_size,
    sampler=test_sampler, num_workers=4, pin_memory=True)
"""

COLLECT = '''
def collect_stats(model, data_loader, num_batches):
    """Feed data to the network and collect statistic"""

    # Enable calibrators
    for name, module in model.named_modules():
        if isinstance(module, quant_nn.TensorQuantizer):
            if module._calibrator is not None:
                module.disable_quant()
                module.enable_calib()
            else:
                module.disable()

    for i, (image, _) in tqdm(enumerate(data_loader), total=num_batches):
        model(image.cuda())
        if i >= num_batches:
            break

    # Disable calibrators
    for name, module in model.named_modules():
        if isinstance(module, quant_nn.TensorQuantizer):
            if module._calibrator is not None:
                module.enable_quant()
                module.disable_calib()
            else:
                module.enable()

def compute_amax(model, **kwargs):
    # Load calib result
    for name, module in model.named_modules():
        if isinstance(module, quant_nn.TensorQuantizer):
            if module._calibrator is not None:
                if isinstance(module._calibrator, calib.MaxCalibrator):
                    module.load_calib_amax()
                else:
                    module.load_calib_amax(**kwargs)
            print(F"{name:40}: {module}")
    model.cuda()

# It is a bit slow since we collect histograms on CPU
with torch.no_grad():
    collect_stats(model, data_loader, num_batches=2)
    compute_amax(model, method="percentile", percentile=99.99)
'''
PRINTED = """
conv1._input_quantizer                  : TensorQuantizer(8bit fake per-tensor amax=2.6400 calibrator=MaxCalibrator(track_amax=False) quant)
conv1._weight_quantizer                 : TensorQuantizer(8bit fake axis=(0) amax=[0.0000, 0.7817](64) calibrator=MaxCalibrator(track_amax=False) quant)
layer1.0.conv1._input_quantizer         : TensorQuantizer(8bit fake per-tensor amax=6.8645 calibrator=MaxCalibrator(track_amax=False) quant)
layer1.0.conv1._weight_quantizer        : TensorQuantizer(8bit fake axis=(0) amax=[0.0000, 0.7266](64) calibrator=MaxCalibrator(track_amax=False) quant)
"""  # noqa: E501

EVALUATE = """
criterion = nn.CrossEntropyLoss()
with torch.no_grad():
    evaluate(model, criterion, data_loader_test, device="cuda", print_freq=20)

# Save the model
torch.save(model.state_dict(), "quant_resnet50-calibrated.pth")
"""

OTHER_METHODS = """
with torch.no_grad():
    compute_amax(model, method="percentile", percentile=99.9)
    evaluate(model, criterion, data_loader_test, device="cuda", print_freq=20)

with torch.no_grad():
    for method in ["mse", "entropy"]:
        print(F"{method} calibration")
        compute_amax(model, method=method)
        evaluate(model, criterion, data_loader_test, device="cuda", print_freq=20)
"""

FINE_TUNE = """
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)

# Training takes about one and half hour per epoch on a single V100
train_one_epoch(model, criterion, optimizer, data_loader, "cuda", 0, 100)

# Save the model
torch.save(model.state_dict(), "quant_resnet50-finetuned.pth")
"""


@pytest.fixture(autouse=True)
def _surroundings(
    old_name: None,
    example: Callable[[str], types.ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """torchvision and its training script, of our own, and a folder to write to."""
    resnet, classification = example("resnet"), example("classification")
    models = types.SimpleNamespace(
        resnet18=resnet.resnet18, resnet50=lambda pretrained=False: resnet.resnet50(num_classes=10)
    )
    classification.load_data = functools.partial(classification.load_data, size=64)
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "train", classification)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)


def run(listing: str, names: dict[str, Any], changes: dict[str, str] | None = None) -> dict[str, Any]:
    """The names that `listing` leaves behind when it is run with those of `names`, without a GPU."""
    for old, new in {**NO_GPU, **(changes or {})}.items():
        listing = listing.replace(old, new)
    exec(compile(listing, "<guide>", "exec"), names)
    return names


def images(root: Path) -> None:
    """Six images to train on and four to test on, in two classes, of noise around two colours."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for split, count in (("train", 3), ("val", 2)):
        for label, colour in enumerate((60, 190)):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = rng.normal(colour, 40, (72, 64, 3)).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{index}.png")


def quantizers(model: nn.Module) -> dict[str, nn.Module]:
    return {name: m for name, m in model.named_modules() if name.endswith("_quantizer")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
def test_calibrate_evaluate_and_fine_tune_resnet50(tmp_path, capsys):
    images(tmp_path / "imagenet")
    names = {"sys": sys, "os": os, "tqdm": lambda steps, total: steps}
    run(IMPORTS, names, {"path to torchvision/references/classification/": "."})
    run(INITIALIZE, names)
    run(MODEL, names)
    model = names["model"]
    run(DATA, names, {"PATH to imagenet": str(tmp_path / "imagenet")})
    capsys.readouterr()
    run(COLLECT, names)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(quantizers(model)) == 2 * 54 + 1
    number = r"-?\d+\.\d{4}"
    assert re.fullmatch(
        r"conv1\._input_quantizer {18}: TensorQuantizer\(8bit fake per-tensor amax="
        + number
        + r" calibrator=HistogramCalibrator\(.*\) quant\)",
        lines[0],
    )
    weight = rf"TensorQuantizer\(8bit fake axis=\(0\) amax=\[{number}, {number}\]\(64\) "
    assert re.search(weight + r"calibrator=MaxCalibrator\(track_amax=False\) quant\)", lines[1])
    amax = model.conv1._input_quantizer.amax.clone()
    run(EVALUATE, names)
    run(OTHER_METHODS, names)
    assert "mse calibration\n" in capsys.readouterr().out
    calibrated = torch.load("quant_resnet50-calibrated.pth")
    assert torch.equal(calibrated["conv1._input_quantizer._amax"], amax)
    changed = {n for n, q in quantizers(model).items() if not torch.equal(q.amax, calibrated[f"{n}._amax"])}
    assert len(changed) > 40  # another method, the same histograms
    assert all(name.endswith("_input_quantizer") for name in changed)
    weights, ranges = model.fc.weight.clone(), model.fc._input_quantizer.amax.clone()
    run(FINE_TUNE, names)
    finetuned = torch.load("quant_resnet50-finetuned.pth")
    assert not torch.equal(finetuned["fc.weight"], weights)
    assert torch.equal(finetuned["fc._input_quantizer._amax"], ranges)  # scales stay frozen
    assert all(math.isfinite(value.sum()) for value in finetuned.values())


def test_printed_quantizers(example):
    names = run(INITIALIZE, {})
    assert names["quant_modules"]
    model = example("resnet").resnet50()
    block = model.layer1[0]
    for module, high, low in ((model.conv1, 2.64, 0.7817), (block.conv1, 6.8645, 0.7266)):
        module._input_quantizer.amax = high
        module._weight_quantizer.amax = torch.linspace(0, low, 64).reshape(64, 1, 1, 1)
    result = [f"{name:40}: {module}" for name, module in quantizers(model).items()]
    assert result[:4] == PRINTED.strip().split("\n")


def test_calibration_loop(example):
    run(INITIALIZE, {})
    model, x = example("resnet").resnet18(num_classes=10), torch.randn(2, 3, 32, 32)
    run(CALIBRATION, {"model": model, "x": x})
    assert model.conv1._input_quantizer.amax == x.abs().max()
    for name, quantizer in quantizers(model).items():
        assert quantizer.amax is not None, name
        assert quantizer._if_quant, name
        assert not quantizer._if_calib, name
    assert torch.isfinite(model(x)).all()


def node_counts(path: str) -> dict[str, int]:
    """One pair per quantizer, but that a block's first convolution and its shortcut share the pair of x."""
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    return {kind: kinds.count(kind) for kind in ("Conv", "QuantizeLinear", "DequantizeLinear")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode")
def test_export_resnet18():
    with pytest.warns(UserWarning, match=r"conv1\._input_quantizer, .* no amax"):  # an uncalibrated model
        names = run(EXPORT_RESNET18, {})
    assert len(quantizers(names["model"])) == 43
    onnx.checker.check_model("quant_resnet18.onnx")
    assert {op.domain: op.version for op in onnx.load("quant_resnet18.onnx").opset_import}[""] == 13
    assert node_counts("quant_resnet18.onnx") == {"Conv": 20, "QuantizeLinear": 43, "DequantizeLinear": 43}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode")
def test_export_resnet50():
    names = {"torchvision": sys.modules["torchvision"], "torch": torch}
    run(INITIALIZE, names)
    model = names["torchvision"].models.resnet50()
    run(CALIBRATION, {"model": model, "x": torch.randn(1, 3, 64, 64)})
    assert len(quantizers(model)) == 109
    torch.save(model.state_dict(), "quant_resnet50-entropy-1024.pth")
    with pytest.warns(UserWarning, match=r"opset_version=10 .* so the file has opset 13"):
        run(EXPORT_RESNET50, names)
    onnx.checker.check_model("quant_resnet50.onnx")
    assert {op.domain: op.version for op in onnx.load("quant_resnet50.onnx").opset_import}[""] == 13
    assert node_counts("quant_resnet50.onnx") == {"Conv": 53, "QuantizeLinear": 109, "DequantizeLinear": 109}

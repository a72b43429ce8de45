"""The exported file of a trained ResNet-20 on real images, against the module, layer by layer."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from intact.torch import calibrate, export

EXAMPLE = Path(__file__).parents[2] / "examples" / "cifar_resnet.py"


def images(shared: Path, count: int) -> Tensor:
    """[count, 3, 32, 32], normalized as the weights were trained."""
    with np.load(shared / "data" / "cifar10_test.npz", allow_pickle=False) as packed:
        jpeg, offsets = packed["jpeg"], packed["offsets"]
    files = (io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes()) for i in range(count))
    pixels = np.stack([np.asarray(Image.open(file)) for file in files]).astype(np.float32) / 255
    pixels = (pixels - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    return torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cifar_resnet", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.shared
def test_a_trained_resnet_agrees_layer_by_layer(shared_folder: Path, tmp_path: Path) -> None:
    x = images(shared_folder, 128)
    model = (
        load_example()
        .resnet20(shared_folder / "models" / "cifar10_resnet20.safetensors", quantize=True)
        .eval()
    )
    calibrate(model, [x], method="max", progress=False)
    report = export(model, x, tmp_path / "resnet20.onnx", opset=13)
    assert not report.not_compared
    for check in report.quantizers:
        assert check.differing == 0 or not check.weight, check
        assert check.largest <= 1 and check.boundary <= 1e-3, check
    # A difference of summation order moves about one code in a million across its rounding boundary.
    assert report.codes > 30_000_000
    assert report.codes_differing <= report.codes * 1e-5
    assert report.answers_differing <= 1

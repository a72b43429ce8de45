"""Networks for clouds of points and bird's-eye views, on stand-ins of their sparse convolutions."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sources.common import Driven, absent, images, source


def residual_bottlenecks() -> Any:
    """A camera backbone as mmcv's: bottlenecks with `norm1`, `downsample`; and its data by keyword."""
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, planes: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(inputs, planes, 1, bias=False), nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
            self.norm2, self.norm3 = nn.BatchNorm2d(planes), nn.BatchNorm2d(2 * planes)
            self.conv3, self.relu = nn.Conv2d(planes, 2 * planes, 1, bias=False), nn.ReLU()
            other = inputs != 2 * planes or stride != 1
            short = nn.Sequential(
                nn.Conv2d(inputs, 2 * planes, 1, stride, bias=False), nn.BatchNorm2d(2 * planes)
            )
            self.downsample = short if other else None

        def forward(self, x: Any) -> Any:
            out = self.relu(self.norm1(self.conv1(x)))
            out = self.norm3(self.conv3(self.relu(self.norm2(self.conv2(out)))))
            return self.relu(out + (x if self.downsample is None else self.downsample(x)))

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, 2, 1)
            self.layer3 = nn.Sequential(Bottleneck(16, 16, 2), Bottleneck(32, 16, 1))
            self.layer4 = nn.Sequential(Bottleneck(32, 32, 2), Bottleneck(64, 32, 1))
            self.deblock = nn.ConvTranspose2d(64, 8, 2, 2)

        def forward(self, x: Any = None, **_: Any) -> Any:
            return self.deblock(self.layer4(self.layer3(self.stem(x))))

    return Backbone().eval()


def bird_eye(script: str, folder: Path, name: str) -> Driven:
    import torch
    from torch import nn

    class SparseConvolution(nn.Module):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3, 3, 4, 8))

        def forward(self, input: Any) -> Any:
            return input.features @ self.weight.sum((0, 1, 2))

    class SubMConv3d(SparseConvolution): ...

    absent(
        "mmcv", "mmcv.cnn", "mmcv.cnn.bricks", "mmcv.cnn.bricks.wrappers", ConvTranspose2d=nn.ConvTranspose2d
    )
    sys.modules["mmcv"].cnn.bricks.wrappers = sys.modules["mmcv.cnn.bricks.wrappers"]
    absent("mmdet3d", "mmdet3d.ops")
    sys.modules["mmdet3d.ops"].spconv = SimpleNamespace(
        conv=SimpleNamespace(SparseConvolution=SparseConvolution),
        SubMConv3d=SubMConv3d,
        SparseConv3d=type("S", (), {}),
    )
    sys.modules["mmdet3d.ops"].SparseBasicBlock = type("SparseBasicBlock", (nn.Module,), {})
    sys.path.insert(0, str(folder / script))
    quantize = importlib.import_module(name)
    quantize.initialize()
    model = residual_bottlenecks()
    quantize.quantize_camera_backbone(model)
    quantize.quantize_decoder(model.deblock)
    if hasattr(quantize, "quantize_encoders_lidar_branch"):
        lidar = nn.Sequential(SubMConv3d())
        quantize.quantize_encoders_lidar_branch(lidar)
        if hasattr(lidar[0], "_weight_quantizer"):
            quantize.calibrate_model(_ByKeyword(lidar, torch), [{"x": None}] * 2, "cpu", None, 1)
    quantize.set_quantizer_fast(model)
    data = [{"x": image[0].float() / 255} for image in images(32)]
    quantize.calibrate_model(model, data, "cpu", None, 1)
    quantize.disable_quantization(model.stem).apply()
    quantize.print_quantizer_status(model)
    return model, data[0]["x"], None


def _ByKeyword(module: Any, torch: Any) -> Any:
    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, **_: Any) -> Any:
            return self.module(SimpleNamespace(features=torch.randn(10, 4)))

    return Called()


@source("bevfusion")
def bevfusion(folder: Path) -> Driven:
    """github.com/NVIDIA-AI-IOT/Lidar_AI_Solution as `lidar`."""
    return bird_eye("lidar/CUDA-BEVFusion/qat", folder, "lean.quantize")


@source("v2xfusion")
def v2xfusion(folder: Path) -> Driven:
    """github.com/NVIDIA-AI-IOT/Lidar_AI_Solution as `lidar`."""
    return bird_eye("lidar/CUDA-V2XFusion/scripts", folder, "quantize")


@source("centerpoint")
def centerpoint(folder: Path) -> Driven:
    """github.com/NVIDIA-AI-IOT/Lidar_AI_Solution as `lidar`: sparse convolutions, as dense ones here."""
    import torch
    from torch import nn
    from torch.nn import functional

    class SparseConvolution(nn.Conv2d):
        name = _sparse_unique_name = act_type = act_alpha = act_beta = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(8, 8, 3, padding=1)

        def forward(self, input: Any, add_input: Any = None) -> Any:
            return self._conv_forward(self.training, input, self.weight, self.bias, add_input)

        def _conv_forward(
            self, training: bool, input: Any, weight: Any, bias: Any, add_input: Any, **_: Any
        ) -> Any:
            return SimpleNamespace(_features=functional.conv2d(input._features, weight, bias, padding=1))

    class SubMConv3d(SparseConvolution): ...

    class SparseBasicBlock(nn.Module): ...

    absent("det3d", "det3d.models", "det3d.models.backbones", "det3d.models.backbones.scn")
    sys.modules["det3d.models.backbones.scn"].SparseBasicBlock = SparseBasicBlock
    absent("cumm", "spconv", "spconv.core", "spconv.pytorch", "spconv.pytorch.conv")
    kinds = SimpleNamespace(SparseConvolution=SparseConvolution, SparseConvTensor=object)
    sys.modules["spconv.pytorch.conv"] = kinds
    sparse = sys.modules["spconv.pytorch"]
    sys.modules["spconv"].pytorch = sparse
    sparse.SubMConv3d, sparse.SparseConv3d, sparse.conv = SubMConv3d, type("SparseConv3d", (), {}), kinds
    sys.path.insert(0, str(folder / "lidar" / "CUDA-CenterPoint" / "qat" / "tools"))
    import sparseconv_quantization as quantize

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.block = SubMConv3d(), SparseBasicBlock()

        def forward(self, x: Any, **_: Any) -> Any:
            y = self.conv(SimpleNamespace(_features=x))._features
            return self.block.quant_add(x, y)

    quantize.initialize()
    model = Net().eval()
    quantize.quant_sparseconv_module(model)
    quantize.quant_add_module(model)
    quantize.set_quantizer_fast(model)
    data = [torch.rand(2, 8, 16, 16) for _ in range(3)]
    quantize.calibrate_model(model, data, "cpu", lambda net, batch, *_, **__: net(batch), 2)
    quantize.print_quantizer_status(model)
    return model, data[0], None

"""ResNet for ImageNet with a `quantize` flag, parameter names as torchvision has them.

The flag is the edit of the pytorch-quantization guide ("Further optimization"): every convolution, the pool
and the classifier are quantized modules, and each block quantizes the identity branch of its addition, so
that an int8 runtime can fuse convolution, addition and ReLU into one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from intact.torch import nn as quant_nn

NormLayer = Callable[[int], nn.Module]


def conv3x3(
    in_planes: int,
    out_planes: int,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    quantize: bool = False,
) -> nn.Conv2d:
    """3x3 convolution that keeps the size at stride 1."""
    conv = quant_nn.QuantConv2d if quantize else nn.Conv2d
    return conv(
        in_planes,
        out_planes,
        3,
        stride=stride,
        padding=dilation,
        groups=groups,
        bias=False,
        dilation=dilation,
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1, quantize: bool = False) -> nn.Conv2d:
    """1x1 convolution."""
    conv = quant_nn.QuantConv2d if quantize else nn.Conv2d
    return conv(in_planes, out_planes, 1, stride=stride, bias=False)


class _Block(nn.Module):
    """Base of both blocks: ``relu(branch(x) + identity)``, the identity quantized where asked."""

    expansion = 1

    def _add_identity(self, downsample: nn.Module | None, quantize: bool) -> None:
        """Add the layers behind the branch, last in `__init__`, so that modules are listed in the order
        they run."""
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self._quantize = quantize
        if quantize:
            self.residual_quantizer = quant_nn.TensorQuantizer(quant_nn.QuantConv2d.default_quant_desc_input)

    def branch(self, x: Tensor) -> Tensor:
        raise AssertionError("each block defines its branch")

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.branch(x)
        if self._quantize:
            out += self.residual_quantizer(identity)
        else:
            out += identity
        return self.relu(out)


class BasicBlock(_Block):
    """Two 3x3 convolutions (ResNet-18, -34)."""

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: NormLayer | None = None,
        quantize: bool = False,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64 or dilation > 1:
            raise ValueError(f"BasicBlock has no {groups=}, {base_width=}, {dilation=}: use Bottleneck")
        self.conv1 = conv3x3(inplanes, planes, stride, quantize=quantize)
        self.bn1 = norm(planes)
        self.conv2 = conv3x3(planes, planes, quantize=quantize)
        self.bn2 = norm(planes)
        self._add_identity(downsample, quantize)

    def branch(self, x: Tensor) -> Tensor:
        return self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))


class Bottleneck(_Block):
    """1x1, 3x3, 1x1 convolutions (ResNet-50 and deeper), the stride on the 3x3."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: NormLayer | None = None,
        quantize: bool = False,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = planes * base_width // 64 * groups
        self.conv1 = conv1x1(inplanes, width, quantize=quantize)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation, quantize=quantize)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion, quantize=quantize)
        self.bn3 = norm(planes * self.expansion)
        self._add_identity(downsample, quantize)

    def branch(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.bn3(self.conv3(out))


class ResNet(nn.Module):
    """Stem, four stages of `layers[i]` blocks each, global average pool, classifier.

    Input [N, 3, H, W] (224x224 for published weights), output logits [N, num_classes].
    """

    def __init__(
        self,
        block: type[_Block],
        layers: list[int],
        quantize: bool = False,
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
        norm_layer: NormLayer | None = None,
    ) -> None:
        super().__init__()
        self._quantize = quantize
        self._norm = norm_layer or nn.BatchNorm2d
        self._groups, self._base_width = groups, width_per_group
        self._inplanes, self._dilation = 64, 1
        conv, linear = (quant_nn.QuantConv2d, quant_nn.QuantLinear) if quantize else (nn.Conv2d, nn.Linear)
        pool = quant_nn.QuantAdaptiveAvgPool2d if quantize else nn.AdaptiveAvgPool2d
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        dilate = [False, *(replace_stride_with_dilation or [False] * 3)]
        for index, (blocks, dilated) in enumerate(zip(layers, dilate, strict=True)):
            stage = self._stage(block, 64 * 2**index, blocks, 1 if index == 0 else 2, dilated)
            setattr(self, f"layer{index + 1}", stage)
        self.avgpool = pool((1, 1))
        self.fc = linear(512 * block.expansion, num_classes)
        self._initialize(zero_init_residual)

    def _stage(
        self, block: type[_Block], planes: int, blocks: int, stride: int, dilate: bool
    ) -> nn.Sequential:
        first_dilation = self._dilation
        if dilate:
            self._dilation, stride = self._dilation * stride, 1
        outplanes = planes * block.expansion
        downsample = None
        if stride != 1 or self._inplanes != outplanes:
            shortcut = conv1x1(self._inplanes, outplanes, stride, quantize=self._quantize)
            downsample = nn.Sequential(shortcut, self._norm(outplanes))
        lines = []
        for index in range(blocks):
            lines.append(
                block(
                    self._inplanes,
                    planes,
                    stride if index == 0 else 1,
                    downsample if index == 0 else None,
                    self._groups,
                    self._base_width,
                    first_dilation if index == 0 else self._dilation,
                    self._norm,
                    self._quantize,
                )
            )
            self._inplanes = outplanes
        return nn.Sequential(*lines)

    def _initialize(self, zero_init_residual: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, _Block):
                last = module.bn3 if isinstance(module, Bottleneck) else module.bn2
                nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18(pretrained: str | Path | None = None, quantize: bool = False, **kwargs: Any) -> ResNet:
    """ResNet-18; `pretrained` names a file of weights (safetensors, or a tensors-only ``.pth``)."""
    return _resnet(BasicBlock, [2, 2, 2, 2], pretrained, quantize, **kwargs)


def resnet50(pretrained: str | Path | None = None, quantize: bool = False, **kwargs: Any) -> ResNet:
    """ResNet-50; `pretrained` names a file of weights (safetensors, or a tensors-only ``.pth``)."""
    return _resnet(Bottleneck, [3, 4, 6, 3], pretrained, quantize, **kwargs)


def _resnet(
    block: type[_Block], layers: list[int], pretrained: str | Path | None, quantize: bool, **kwargs: Any
) -> ResNet:
    model = ResNet(block, layers, quantize, **kwargs)
    if pretrained is not None:
        model.load_state_dict(_read_weights(Path(pretrained)))
    return model


def _read_weights(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)

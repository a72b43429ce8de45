"""ResNet-20 ... ResNet-110 for 32x32 images (He et al. 2016, section 4.2), float or quantized.

With ``quantize=True`` every convolution, the pool and the classifier are quantized modules, and a
`TensorQuantizer` sits on the identity branch of each residual addition: the one place that an exchange
of modules cannot reach, because an addition is no module. Parameter names do not depend on the flag,
so that float weights load into either.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _layers(quantize: bool) -> tuple[type[nn.Conv2d], type[nn.Linear], type[nn.AdaptiveAvgPool2d]]:
    """The convolution, linear and pooling classes to build from."""
    if not quantize:
        return nn.Conv2d, nn.Linear, nn.AdaptiveAvgPool2d
    from intact.torch import nn as quant_nn

    return quant_nn.QuantConv2d, quant_nn.QuantLinear, quant_nn.QuantAdaptiveAvgPool2d


class Block(nn.Module):
    """Two 3x3 convolutions around an identity; the identity shrinks by option A, without parameters."""

    def __init__(self, in_planes: int, planes: int, stride: int, quantize: bool = False) -> None:
        super().__init__()
        conv, _, _ = _layers(quantize)
        self.conv1 = conv(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.stride = stride
        self.extra = (planes - in_planes) // 2  # zero channels on each side: planes // 4 where they double
        self._quantize = quantize
        if quantize:
            from intact.torch import nn as quant_nn

            self.residual_quantizer = quant_nn.TensorQuantizer(quant_nn.QuantConv2d.default_quant_desc_input)

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        if self.stride != 1 or self.extra:
            identity = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.extra, self.extra))
        if self._quantize:
            identity = self.residual_quantizer(identity)
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + identity)


class CifarResNet(nn.Module):
    """3x3 stem of `width` channels, three stages of `blocks` blocks each, global average pool, classifier.

    Args:
        blocks: Blocks per stage; the network has ``6 * blocks + 2`` layers.
        num_classes: Size of the output.
        quantize: Build from quantized modules, with a quantizer on each identity branch.
        width: Channels of the first stage; the next ones have twice and four times as many.
        in_channels: Channels of the images.

    Input [N, in_channels, H, W] (32x32 for the published weights), output logits [N, num_classes].
    """

    def __init__(
        self,
        blocks: int,
        num_classes: int = 10,
        quantize: bool = False,
        width: int = 16,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        conv, linear, pool = _layers(quantize)
        self.conv1 = conv(in_channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self._stage(width, width, blocks, 1, quantize)
        self.layer2 = self._stage(width, 2 * width, blocks, 2, quantize)
        self.layer3 = self._stage(2 * width, 4 * width, blocks, 2, quantize)
        self.avgpool = pool(1)
        self.linear = linear(4 * width, num_classes)

    @staticmethod
    def _stage(in_planes: int, planes: int, blocks: int, stride: int, quantize: bool) -> nn.Sequential:
        first = Block(in_planes, planes, stride, quantize)
        return nn.Sequential(first, *(Block(planes, planes, 1, quantize) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer3(self.layer2(self.layer1(out)))
        return self.linear(torch.flatten(self.avgpool(out), 1))


def resnet20(weights: str | Path | None = None, *, quantize: bool = False) -> CifarResNet:
    """ResNet-20 for CIFAR-10, in eval mode with `weights` (a safetensors file) where one is given."""
    return _build(3, weights, quantize)


def resnet56(weights: str | Path | None = None, *, quantize: bool = False) -> CifarResNet:
    """ResNet-56 for CIFAR-10, in eval mode with `weights` (a safetensors file) where one is given."""
    return _build(9, weights, quantize)


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Load float weights from a safetensors file; each name in it must be in `model` and the reverse."""
    from safetensors.torch import load_file

    model.load_state_dict(load_file(path), strict=True)


def _build(blocks: int, weights: str | Path | None, quantize: bool) -> CifarResNet:
    model = CifarResNet(blocks, quantize=quantize)
    if weights is not None:
        load_weights(model, weights)
        model.eval()
    return model

"""A small residual CNN, and the same net with quantizers: modules exchanged, residual ones by hand."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut: the identity, or a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        # An addition is no module, so exchanging modules does not reach its inputs: `quantized` puts a
        # quantizer here. Without it the sum, and with it every layer's output, stays in float.
        self.residual_quantizer: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + self.residual_quantizer(self.shortcut(x)))


class ResidualNet(nn.Module):
    """A stem and three residual blocks, of `width`, 2 `width` and 4 `width` channels, then a linear layer.

    Args:
        channels: Channels of the input images, [N, channels, H, W].
        classes: Number of logits of the output, [N, classes].
        width: Channels of the first block.
    """

    def __init__(self, channels: int, classes: int, width: int = 16) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.blocks = nn.Sequential(
            Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(torch.relu(self.bn(self.conv(x))))
        logits: Tensor = self.classifier(torch.flatten(self.pool(y), 1))
        return logits


def quantized(net: ResidualNet) -> ResidualNet:
    """A copy of `net` with its layers exchanged for quantized ones and a quantizer on every shortcut."""
    from intact.torch import nn as quant_nn
    from intact.torch import replace_modules

    copied = copy.deepcopy(net)
    replace_modules(copied)
    for block in copied.blocks:
        block.residual_quantizer = quant_nn.TensorQuantizer(quant_nn.QuantConv2d.default_quant_desc_input)
    return copied

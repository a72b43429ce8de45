"""Three small networks, plain torch: a MobileNetV2, a ViT and a one-stage detector.

Weights: `<name>.safetensors` beside this file, float16, made by `train.py` from random ones.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FOLDER = Path(__file__).parent


def _conv(i: int, o: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(o)]


class InvertedResidual(nn.Module):
    """1x1 to `expand` times the channels, 3x3 depthwise, 1x1 without activation (Sandler et al. 2018)."""

    def __init__(self, i: int, o: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = i * expand
        layers = [*_conv(i, hidden, 1), nn.ReLU6()] if expand != 1 else []
        layers += [*_conv(hidden, hidden, 3, stride, hidden), nn.ReLU6(), *_conv(hidden, o, 1)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and i == o

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """MobileNetV2 for images of 32x32: [N, 3, 32, 32] -> logits [N, 10]."""

    STAGES = ((1, 16, 1, 2), (4, 24, 2, 1), (4, 32, 2, 2), (4, 64, 3, 1))
    """Expansion, channels, blocks, stride of the first block."""

    def __init__(self) -> None:
        super().__init__()
        layers = [*_conv(3, 16, 3), nn.ReLU6()]
        channels = 16
        for expand, out, blocks, stride in self.STAGES:
            for j in range(blocks):
                layers.append(InvertedResidual(channels, out, stride if j == 0 else 1, expand))
                channels = out
        self.features = nn.Sequential(*layers, *_conv(channels, 192, 1), nn.ReLU6())
        self.classifier = nn.Linear(192, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class Layer(nn.Module):
    """A layer of a transformer, norms in front (Dosovitskiy et al. 2021)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    """Patches of 4x4, a class token, 4 layers: [N, 3, 32, 32] -> logits [N, 10]."""

    def __init__(self, width: int = 64, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 65, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm, self.classifier = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(patches.shape[0], -1, -1), patches], 1) + self.position
        return self.classifier(self.norm(self.layers(x))[:, 0])


class Bottleneck(nn.Module):
    """Two 3x3 convolutions with SiLU around an identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_conv(channels, channels, 3), nn.SiLU(), *_conv(channels, channels, 3), nn.SiLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class Detector(nn.Module):
    """Boxes and classes on a grid of stride 8: [N, 3, 64, 64] -> [N, 4 + 10, 64].

    As usual for exported detectors, one output holds what differs by orders of magnitude: rows 0..3 are
    x1, y1, x2, y2 in pixels, the others probabilities of the classes. A map of stride 16 is upsampled and
    concatenated to that of stride 8; each head has a convolution of its own.
    """

    SIZE, STRIDE, CLASSES = 64, 8, 10

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv(3, 16, 3, 2), nn.SiLU(), *_conv(16, 24, 3, 2), nn.SiLU())
        self.stage8 = nn.Sequential(*_conv(24, 32, 3, 2), nn.SiLU(), Bottleneck(32))
        self.stage16 = nn.Sequential(*_conv(32, 48, 3, 2), nn.SiLU(), *_conv(48, 32, 1), nn.SiLU())
        self.neck = nn.Sequential(*_conv(64, 32, 1), nn.SiLU())
        self.box = nn.Sequential(*_conv(32, 32, 3), nn.SiLU(), nn.Conv2d(32, 4, 1))
        self.kind = nn.Sequential(*_conv(32, 32, 3), nn.SiLU(), nn.Conv2d(32, self.CLASSES, 1))
        side = torch.arange(self.SIZE // self.STRIDE) * self.STRIDE + self.STRIDE / 2
        centres = torch.stack(torch.meshgrid(side, side, indexing="xy")).reshape(1, 2, -1)
        self.register_buffer("centres", centres, persistent=False)

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes in pixels [N, 4, 64] and logits [N, 10, 64]."""
        eighth = self.stage8(self.stem(x))
        above = F.interpolate(self.stage16(eighth), scale_factor=2.0, mode="nearest")
        x = self.neck(torch.cat([eighth, above], 1))
        reach = torch.exp(self.box(x).flatten(2)) * self.STRIDE
        boxes = torch.cat([self.centres - reach[:, :2], self.centres + reach[:, 2:]], 1)
        return boxes, self.kind(x).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        boxes, logits = self.raw(x)
        return torch.cat([boxes, torch.sigmoid(logits)], 1)


NETS = {"mobilenet": MobileNet, "vit": ViT, "detector": Detector}


def has_weights(name: str) -> bool:
    """Return whether the network was trained here; print how to, where it was not."""
    if (FOLDER / f"{name}.safetensors").is_file():
        return True
    print(f"no weights of the {name} here: python benchmarks/small_models/train.py {name} makes them")
    return False


def load(name: str) -> nn.Module:
    """The trained network in eval mode, weights in float32."""
    from safetensors.torch import load_file

    model = NETS[name]()
    state = load_file(FOLDER / f"{name}.safetensors")
    model.load_state_dict({key: x.float() if x.is_floating_point() else x for key, x in state.items()})
    return model.eval()

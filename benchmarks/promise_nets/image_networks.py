"""Architectures of timm and torchvision, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from promise_nets.network import Call, Network

FOUR = {"depths": (1, 1, 1, 1)}
TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "levit_128s": (224, {"depth": (1, 1, 1)}), "davit_tiny": (64, FOUR), "focalnet_tiny_srf": (64, {}),
    "repvit_m0_9": (64, {"depth": (1, 1, 2, 1)}), "mambaout_femto": (64, FOUR), "hrnet_w18_small": (64, {}),
    "twins_pcpvt_small": (64, FOUR), "tiny_vit_5m_224": (224, FOUR),
    "deit_tiny_patch16_224": (224, {"depth": 2}), "swin_tiny_patch4_window7_224": (224, FOUR),
    "convnext_atto": (64, FOUR), "convnextv2_atto": (64, FOUR), "mobilenetv3_small_050": (64, {}),
    "mobilenetv4_conv_small": (64, {}), "resnet18": (64, {}), "regnety_002": (64, {}),
    "densenet121": (64, {"block_config": (2, 2, 2, 2)}), "edgenext_xx_small": (64, FOUR),
    "efficientvit_b0": (64, {"depths": (1, 1, 1, 1)}), "efficientformerv2_s0": (224, FOUR),
    "fastvit_t8": (64, {"layers": (1, 1, 1, 1)}), "ghostnet_050": (64, {}),
    "coat_lite_tiny": (224, {"serial_depths": (1, 1, 1, 1)}), "pit_ti_224": (224, {}),
    "pvt_v2_b0": (64, FOUR),
    "xcit_nano_12_p16_224": (224, {"depth": 2}), "mixer_s32_224": (224, {}), "starnet_s1": (64, FOUR),
    "inception_next_atto": (64, FOUR), "visformer_tiny": (224, {"depth": (1, 1, 1)}),
    "efficientnet_b0": (64, {}), "poolformer_s12": (64, {}),
}  # fmt: skip
"""By name: pixels, and what makes it less deep where it takes that."""

TORCHVISION = {
    "resnet18": 64, "resnet50": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "efficientnet_b0": 64,
    "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64, "mnasnet0_5": 64, "regnet_y_400mf": 64, "googlenet": 96,
}  # fmt: skip
CLASSES = 10


def pictures(rows: int, size: int) -> torch.Tensor:
    """Images with large and small structures, as photographs have them."""
    coarse = nn.functional.interpolate(torch.randn(rows, 3, 4, 4), (size, size), mode="bilinear")
    return coarse + 0.3 * torch.randn(rows, 3, size, size)


def settle_batchnorm(build: Callable[[], nn.Module], size: int) -> tuple[nn.Module, list[Call]]:
    """A network whose batch norms have seen some images, so that signals keep their size in it."""
    torch.manual_seed(0)
    model = build()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None
            module.reset_running_stats()
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
        elif isinstance(module, (nn.Dropout, nn.Dropout2d)):
            module.p = 0.0
    model.train()
    with torch.no_grad():
        model(pictures(4, size))
    return model.eval(), [(pictures(2, size),) for _ in range(4)]


def from_timm(name: str) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(name, pretrained=False, num_classes=CLASSES, **TIMM[name][1])
    return model


def from_torchvision(name: str) -> nn.Module:
    from torchvision import models

    more = {"init_weights": True, "aux_logits": False} if name == "googlenet" else {}
    model: nn.Module = models.get_model(name, weights=None, num_classes=CLASSES, **more)
    return model


NETWORKS = [
    *(
        Network(name, "timm", partial(settle_batchnorm, partial(from_timm, name), size))
        for name, (size, _) in TIMM.items()
    ),
    *(
        Network(name, "torchvision", partial(settle_batchnorm, partial(from_torchvision, name), size))
        for name, size in TORCHVISION.items()
    ),
]

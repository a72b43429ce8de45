"""Architectures of timm and torchvision, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from promise_nets.network import Call, Network

TIMM = {
    "levit_128s": 224, "davit_tiny": 64, "focalnet_tiny_srf": 64, "repvit_m0_9": 64, "mambaout_femto": 64,
    "hrnet_w18_small": 64, "twins_pcpvt_small": 64, "tiny_vit_5m_224": 224, "deit_tiny_patch16_224": 224,
    "swin_tiny_patch4_window7_224": 224, "convnext_atto": 64, "convnextv2_atto": 64, "efficientnet_b0": 64,
    "mobilenetv3_small_050": 64, "mobilenetv4_conv_small": 64, "resnet18": 64, "regnety_002": 64,
    "densenet121": 64, "edgenext_xx_small": 64, "efficientvit_b0": 64, "efficientformerv2_s0": 224,
    "fastvit_t8": 64, "ghostnet_050": 64, "mobileone_s0": 64, "poolformer_s12": 64, "coat_lite_tiny": 224,
    "pit_ti_224": 224, "pvt_v2_b0": 64, "xcit_nano_12_p16_224": 224, "mixer_s32_224": 224, "starnet_s1": 64,
    "inception_next_atto": 64, "visformer_tiny": 224, "rexnet_100": 64, "caformer_s18": 64,
}  # fmt: skip
"""By name: pixels."""

TORCHVISION = {
    "resnet18": 64, "resnet50": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "efficientnet_b0": 64,
    "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64, "mnasnet0_5": 64, "regnet_y_400mf": 64, "googlenet": 96,
    "densenet121": 64, "convnext_tiny": 64, "vit_b_32": 224, "swin_t": 64,
}  # fmt: skip
CLASSES = 10


def pictures(rows: int, size: int) -> torch.Tensor:
    """Images with large and small structures, as photographs have them."""
    coarse = nn.functional.interpolate(torch.randn(rows, 3, 4, 4), (size, size), mode="bilinear")
    return coarse + 0.3 * torch.randn(rows, 3, size, size)


def settled(build: Callable[[], nn.Module], size: int) -> tuple[nn.Module, list[Call]]:
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


def from_timm(name: str, size: int) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(name, pretrained=False, num_classes=CLASSES)
    return model


def from_torchvision(name: str, size: int) -> nn.Module:
    from torchvision import models

    more = {"init_weights": True, "aux_logits": False} if name == "googlenet" else {}
    model: nn.Module = models.get_model(name, weights=None, num_classes=CLASSES, **more)
    return model


NETWORKS = [
    Network(name, family, partial(settled, partial(build, name, size), size))
    for family, build, sizes in (("timm", from_timm, TIMM), ("torchvision", from_torchvision, TORCHVISION))
    for name, size in sizes.items()
]

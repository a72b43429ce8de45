"""CIFAR-10 with few bits and without training: by reconstruction, all 10,000 test images.

    INTACT_SHARED=<the shared data> python benchmarks/reconstruction.py --bits 4,8 4,4 --seeds 0

ResNet-20 and 56 of the shared folder, and the MobileNetV2 of `small_models` (depthwise convolutions, ReLU6).

Quantized by graph mode: every tensor that the engine wants quantized, residual additions and the pool
included, one scale per tensor (unsigned, with a zero point) and per output channel of each weight. As is the
field's convention, the first and the last layer have 8 bits, weights and inputs; all others have those of
`--bits`. 1,024 images of the train file, without labels, are all that is used.

Rows: ranges by "max" and by "mse" with rounding to nearest; "adaround", layer by layer, and "brecq" with
QDrop and learned ranges, both from the "mse" ranges. Printed: top-1 as a mean over the seeds, its distance
from float, seconds by the clock and of all cores; with `--export` how many answers of the file are the
module's.

Targets: W4A8 within 0.4 point of float for ResNet-20, 0.3 for ResNet-56 and 1 for the MobileNet, which
collapses by "max"; W4A4 within 2.5 and 2.0 for the ResNets.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from cifar import BATCH, Images, export, log, shared_folder, top1
from cifar import NETS as RESNETS
from small_models.networks import has_weights, load
from torch import nn

import intact.torch
from intact.torch.nn import TensorQuantizer

METHODS = ("max", "mse", "adaround", "brecq")
NETS = (*RESNETS, "mobilenet")
EIGHT_BITS = ("conv1", "linear", "features.0", "classifier")
"""The first and the last layer, as the networks call them."""

OPSET = 21
"""The first one with a type of 4 bits."""


def load_trained(net: str, models: Path) -> nn.Module:
    """The float network in eval mode; `models` holds the weights of the ResNets."""
    return RESNETS[net](models / f"cifar10_{net}.safetensors") if net in RESNETS else load(net)


def quantize(net: str, models: Path, bits: tuple[int, int], method: str, images: Any) -> nn.Module:
    """The network quantized by graph mode to `bits` of weights and activations, its ranges by `method`."""
    model = load_trained(net, models)
    formats = {"weights": f"int{bits[0]}", "activations": f"uint{bits[1]}"}
    model = intact.torch.quantize(model, example=images[0][:1], **formats).model
    for name, quantizer in model.named_modules():
        if isinstance(quantizer, TensorQuantizer) and name.rpartition(".")[0] in EIGHT_BITS:
            quantizer.num_bits = 8
    intact.torch.calibrate(model, images, method=method, weight_method=method, progress=False)
    return model.to(memory_format=torch.channels_last)


def run(net: str, models: Path, bits: tuple[int, int], images: Any, options: Any) -> dict[str, Any]:
    """Method -> top-1 and seconds of every seed, and the last model."""
    result: dict[str, Any] = {}
    for method in options.methods:
        learned = method in ("adaround", "brecq")
        scores, label = [], f"{net} W{bits[0]}A{bits[1]} {method}"
        for seed in options.seeds if learned else options.seeds[:1]:
            model = quantize(net, models, bits, "mse" if learned else method, images)
            clock, cores = time.perf_counter(), time.process_time()
            if learned:
                report = intact.torch.reconstruct(
                    model, images, method=method, steps=options.steps, seed=seed, inputs=options.inputs,
                    state=options.state and f"{options.state}-{net}-{bits}-{method}-{seed}.safetensors",
                )  # fmt: skip
                log(f"{label} seed {seed}\n{report}")
            spent = time.perf_counter() - clock, time.process_time() - cores
            scores.append((top1(model, options.test), *spent))
            log(f"{label} seed {seed}: {scores[-1][0]:.2f}, {spent[1]:.0f} s of cores")
        result[method] = scores, model
    return result


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", choices=NETS, default=["resnet20"])
    parser.add_argument("--bits", nargs="+", default=["4,8", "4,4"], help="bits of weights, of activations")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=300, help="steps of each block")
    parser.add_argument("--inputs", choices=["reconstructed", "float"], default="reconstructed")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--test-images", type=int, default=10_000)
    parser.add_argument("--state", help="start of the names of files that an interrupted run goes on from")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    shared = shared_folder("reconstruction.py")
    if shared is None:
        return
    torch.set_num_threads(options.threads)
    options.test = test = Images(shared / "data" / "cifar10_test.npz", options.test_images)
    images = Images(shared / "data" / "cifar10_train.npz", options.images).x.split(BATCH)
    print(f"{'':26s} {'float':>6s} {'top-1':>7s} {'delta':>6s} {'s':>6s} {'cores s':>8s}", flush=True)
    models = shared / "models"
    for net in (net for net in options.model if net in RESNETS or has_weights(net)):
        reference = top1(load_trained(net, models), test)
        for text in options.bits:
            bits = tuple(map(int, text.split(",")))
            for method, (scores, model) in run(net, models, bits, images, options).items():
                score, clock, cores = (mean(column) for column in zip(*scores, strict=True))
                label = f"{net} W{bits[0]}A{bits[1]} {method}"
                line = f"{label:26s} {reference:6.2f} {score:7.2f} {score - reference:+6.2f}"
                line += f" {clock:6.0f} {cores:8.0f}"
                print(line + ("  " + export(model, test, opset=OPSET) if options.export else ""), flush=True)


if __name__ == "__main__":
    sys.exit(main())

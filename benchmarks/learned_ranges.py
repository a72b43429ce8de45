"""CIFAR-10 with 4 and 2 bits: QAT of ResNet-20 / 56 with learned ranges, all 10,000 test images.

    INTACT_SHARED=<the shared data> python benchmarks/learned_ranges.py --bits 4 2 --learn lsq pact

Quantized to `--bits`: weights (per output channel) and inputs (unsigned, per tensor) of every convolution but
the first. As in the papers the first and the last layer have 8 bits; so have the identity branches and the
pool's input, which the papers leave in float. Training starts from the float weights and ranges by "mse"
(`--start reconstructed`: from what `reconstruct` makes of them, with 1,024 images; `paper`: from the ranges
of the paper), follows the float model's answers to augmented train images (`--labels`: the labels), SGD with
momentum 0.9 and weight decay 1e-4 on the weights, none on ranges, cosine, statistics of BatchNorm trained.

Printed: top-1 of float, before and after training, CPU seconds of training (and of the reconstruction), with
`--export` how many answers of the file are the module's. Meanwhile, on standard error, top-1 of the last
`--held` images of the train file, which are not trained on, `--looks` times. With `--held-only` nothing else
is printed, and the test images are not looked at: for choosing a recipe.

Targets, against float: W4A4 within 0.5 point, W2A2 within 3.0. Published for this network and data: PACT
(Choi et al. 2018) W4A4 -0.8 and W2A2 -2.7, APoT (Li et al. 2020) W4A4 -0.5 and W2A2 -2.0, after 200 to 300
epochs; the schedule here is `--steps` steps of 128 images (390 are one epoch).
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from cifar import BATCH, NETS, Augmented, Images, export, log, shared_folder, top1
from torch import nn

import intact.torch
from intact.torch.nn import TensorQuantizer

EIGHT_BITS = ("conv1", "linear", "avgpool", "residual_quantizer")
"""Modules of the network, and of its blocks the identity, that keep 8 bits."""


class Data:
    """Images to train on, those held out of them, and those that the table is of."""

    def __init__(self, shared: Path, options: Any) -> None:
        self.train = Images(shared / "data" / "cifar10_train.npz", options.train_images)
        self.holdout = copy.copy(self.train)
        self.holdout.x, self.holdout.y = self.train.x[-options.held :], self.train.y[-options.held :]
        self.train.x, self.train.y = self.train.x[: -options.held], self.train.y[: -options.held]
        test = shared / "data" / "cifar10_test.npz"
        self.judge = self.holdout if options.held_only else Images(test, 10_000)


def quantize(net: str, weights: Path, bits: int, images: Any) -> nn.Module:
    """The network with its quantizers at `bits` and 8 bits, calibrated on `images` by "mse"."""
    model = NETS[net](weights, quantize=True)
    for name, quantizer in model.named_modules():
        if isinstance(quantizer, TensorQuantizer):
            at_8 = name.split(".")[0] in EIGHT_BITS or name.endswith("residual_quantizer")
            quantizer.num_bits = 8 if at_8 else bits
    intact.torch.calibrate(model, images, method="mse", weight_method="mse", unsigned=True, progress=False)
    return model.to(memory_format=torch.channels_last)


def run(net: str, weights: Path, bits: int, learn: str | None, data: Data, options: Any) -> str:
    """One line of the table: the float reference, before and after training."""
    teacher = NETS[net](weights).to(memory_format=torch.channels_last)
    reference = top1(teacher, data.judge)
    model = quantize(net, weights, bits, data.train.x[:512].split(BATCH))
    started, label = time.process_time(), f"{net} W{bits}A{bits} {learn or 'weights only'}"
    if options.start == "reconstructed":
        images = data.train.x[:1024].split(BATCH)
        intact.torch.reconstruct(model, images, method="brecq", seed=options.seed, progress=False)
    first = time.process_time() - started
    before = top1(model, data.judge)
    log(f"{label}: float {reference:.2f}, before {before:.2f}, {first:.0f} s")

    def validate(trained: nn.Module) -> float:
        score, seconds = top1(trained, data.holdout), time.process_time() - started
        log(f"{label}: {score:.2f} of {options.held} held images, {seconds:.0f} s")
        return score

    started = time.process_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
        intact.torch.finetune(
            model,
            Augmented(data.train, options.steps // options.looks),
            epochs=options.looks,
            lr=options.lr,
            teacher=None if options.labels else teacher,
            optimizer=partial(torch.optim.SGD, momentum=0.9, weight_decay=1e-4),
            learn=learn,
            learn_start="paper" if options.start == "paper" else "calibrated",
            freeze_scales=learn is not None,
            batchnorm="train",
            validate=validate,
            checkpoint=options.checkpoint and f"{options.checkpoint}-{net}-{bits}-{learn}.pt",
            seed=options.seed,
            progress=sys.stderr.isatty(),
        )
    seconds = time.process_time() - started
    after = top1(model, data.judge)
    line = f"{label:26s} {reference:7.2f} {before:9.2f} {after:7.2f} {after - reference:+7.2f}"
    line += f" {first:6.0f} {seconds:6.0f}"
    if options.export:
        model.to(memory_format=torch.contiguous_format)
        line += "  " + export(model, data.judge)
    return line


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", choices=NETS, default=["resnet20"])
    parser.add_argument("--bits", nargs="+", type=int, default=[4, 2])
    parser.add_argument("--learn", nargs="+", choices=("lsq", "lsq+", "pact", "none"), default=["lsq"])
    parser.add_argument("--start", choices=("calibrated", "paper", "reconstructed"), default="calibrated")
    parser.add_argument("--steps", type=int, default=1950, help="training steps of 128 images")
    parser.add_argument("--looks", type=int, default=5, help="how often top-1 is measured meanwhile")
    parser.add_argument("--held", type=int, default=5000, help="train images of these measurements")
    parser.add_argument("--held-only", action="store_true", help="the table, too, is of these images")
    parser.add_argument("--bfloat16", action="store_true", help="train under torch.autocast")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate at the start")
    parser.add_argument("--labels", action="store_true", help="follow labels, not the float model")
    parser.add_argument("--train-images", type=int, default=50_000)
    parser.add_argument(
        "--checkpoint", help="start of the names of files that an interrupted run goes on from"
    )
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    shared = shared_folder("learned_ranges.py")
    if shared is None:
        return
    torch.set_num_threads(options.threads)
    data = Data(shared, options)
    head = f"{'float':>7s} {'before':>9s} {'after':>7s} {'delta':>7s} {'CPU s':>6s} {'CPU s':>6s}"
    print(f"{'':26s} {head}", flush=True)
    for net in options.model:
        weights = shared / "models" / f"cifar10_{net}.safetensors"
        for bits in options.bits:
            for learn in options.learn:
                kind = None if learn == "none" else learn
                print(run(net, weights, bits, kind, data, options), flush=True)


if __name__ == "__main__":
    main()

"""CIFAR-10, all 10,000 test images: float, four PTQ methods, "auto", QAT, and the exported file.

    INTACT_SHARED=<the shared data> python benchmarks/cifar.py --model resnet20 resnet56 --sets 5

Quantized: the input of every convolution and of the classifier, the identity branch of every residual
addition and the input of the global average pool per tensor; every weight per output channel. Ranges are
calibrated on 512 images of the train file (disjoint sets: the first 512, the next 512, ...), without
labels. Variants: "int8" has signed activations and leaves biases alone, as TensorRT needs them;
"uint8" gives tensors without negative values the unsigned grid and takes the mean error of each
layer out of its bias. The QAT run starts from the first set's "auto" and follows
the float model's answers to augmented train images.

Targets: the best PTQ method within 0.1 point of float, "auto" within 0.15, both as a mean over five sets;
QAT at or above float; the file's answers equal to the module's on 99.9% of the images.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from packed_images import read_packed_images
from torch import Tensor, nn
from torch.nn import functional as F

import intact.torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from cifar_resnet import resnet20, resnet56

NETS = {"resnet20": resnet20, "resnet56": resnet56}
METHODS = ("max", "percentile", "mse", "entropy", "auto")
VARIANTS = {"int8": {}, "uint8": {"unsigned": True, "correct_bias": True}}
CALIBRATION, BATCH, EVALUATION_BATCH = 512, 128, 500
MEAN = torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1)
DEVIATION = torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1)


class Images:
    """The first `count` images of a packed file, normalized, [N, 3, 32, 32], and their labels."""

    def __init__(self, path: Path, count: int) -> None:
        with np.load(path) as packed:
            labels = packed["labels"]
        pixels = np.stack([np.asarray(image) for image in read_packed_images(path, count)])
        self.x = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255 - MEAN) / DEVIATION
        self.y = torch.from_numpy(labels[:count].astype(np.int64))


class Augmented:
    """Batches for QAT, in a new order per epoch: crops of images padded by 4, half of them mirrored."""

    def __init__(self, images: Images, steps: int) -> None:
        self._images, self._steps = images, steps

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self._images.y))
        for i in range(self._steps):
            chosen = order[torch.arange(i * BATCH, (i + 1) * BATCH) % len(order)]
            x = F.pad(self._images.x[chosen], (4, 4, 4, 4))
            down, right = torch.randint(0, 9, (2, BATCH)).tolist()
            x = torch.stack(
                [x[j, :, d : d + 32, r : r + 32] for j, (d, r) in enumerate(zip(down, right, strict=True))]
            )
            mirrored = torch.rand(BATCH) < 0.5
            x[mirrored] = x[mirrored].flip(3)
            yield x, self._images.y[chosen]


@torch.no_grad()
def answers(model: nn.Module, images: Images) -> Tensor:
    """The classes that `model` gives the images, in eval mode."""
    model.eval()
    return torch.cat([model(x).argmax(1) for x in images.x.split(EVALUATION_BATCH)])


def top1(model: nn.Module, images: Images) -> float:
    """Share of right answers, in percent."""
    return 100 * float((answers(model, images) == images.y).double().mean())


def ptq(
    net: str, weights: Path, train: Images, test: Images, options: argparse.Namespace
) -> dict[str, list[float]]:
    """Top-1 by row of the table, one entry per calibration set."""
    results: dict[str, list[float]] = {}
    for number in range(options.sets):
        images = train.x[number * CALIBRATION : (number + 1) * CALIBRATION]
        for variant in options.variants:
            model = NETS[net](weights, quantize=True)
            result = intact.torch.calibrate(model, images.split(BATCH), method="max", progress=False)
            for method in options.methods:
                result.apply(method, **VARIANTS[variant])
                score = top1(model, test)
                results.setdefault(f"{variant} {method}", []).append(score)
                log(f"{net} set {number} {variant} {method}: {score:.2f}")
    return results


def qat(
    net: str, weights: Path, train: Images, test: Images, options: argparse.Namespace
) -> tuple[nn.Module, list[float]]:
    """The last fine-tuned model, and top-1 for each seed."""
    scores = []
    teacher = NETS[net](weights)
    for seed in options.seeds:
        model = NETS[net](weights, quantize=True)
        images = train.x[:CALIBRATION].split(BATCH)
        intact.torch.calibrate(model, images, progress=False, **VARIANTS["uint8"])
        intact.torch.finetune(
            model,
            Augmented(train, options.steps),
            epochs=1,
            lr=options.lr,
            teacher=None if options.labels else teacher,
            seed=seed,
            progress=sys.stderr.isatty(),
        )
        scores.append(top1(model, test))
        log(f"{net} QAT seed {seed}: {scores[-1]:.2f}")
    return model, scores


def export(model: nn.Module, test: Images, **options: Any) -> str:
    """One line: how many of the test answers of the file and of the module are the same.

    `options` are those of `intact.torch.export`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        checked = test.x.split(EVALUATION_BATCH)
        report = intact.torch.export(model, test.x[:8], path, verify=checked, **options)
        total = report.end_to_end.answers
        share = 100 * (1 - report.answers_differing / total)
        size = path.stat().st_size
        return f"exported file in ONNX Runtime: {share:.2f}% of {total:,} answers equal, {size:,} bytes"


def log(line: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def row(label: str, scores: list[float], reference: float) -> str:
    """One line of the table; deltas in points of top-1."""
    spread = f"{stdev(scores):8.3f}" if len(scores) > 1 else ""
    first, average = scores[0], mean(scores)
    numbers = f"{first:8.2f} {first - reference:+8.2f} {average:9.3f} {average - reference:+8.3f}"
    return f"{label:22s} {numbers}{spread}"


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", choices=NETS, default=["resnet20"])
    parser.add_argument("--sets", type=int, default=1, help="disjoint calibration sets of 512 images")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--no-qat", action="store_true")
    parser.add_argument("--no-export", action="store_true")
    parser.add_argument("--steps", type=int, default=300, help="QAT steps of 128 images")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate that QAT starts at")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--labels", action="store_true", help="QAT follows labels, not the float model")
    parser.add_argument(
        "--train-images", type=int, default=50_000, help="how many of the train file QAT sees"
    )
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(arguments)


def shared_folder(script: str) -> Path | None:
    """The folder of images and weights; None, with a line that says so, where `script` has none to run on."""
    shared = Path(os.environ.get("INTACT_SHARED", ""))
    if (shared / "data" / "cifar10_test.npz").is_file():
        return shared
    print(f"benchmarks/{script}: INTACT_SHARED names no folder with data/cifar10_test.npz; nothing done")
    return None


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    shared = shared_folder("cifar.py")
    if shared is None:
        return
    torch.set_num_threads(options.threads)
    needed = (
        options.sets * CALIBRATION
        if options.no_qat
        else max(options.train_images, options.sets * CALIBRATION)
    )
    test = Images(shared / "data" / "cifar10_test.npz", 10_000)
    train = Images(shared / "data" / "cifar10_train.npz", needed)
    for net in options.model:
        weights = shared / "models" / f"cifar10_{net}.safetensors"
        reference = top1(NETS[net](weights), test)
        lines = [row("float", [reference], reference)]
        scores = ptq(net, weights, train, test, options) if options.methods else {}
        lines += [row(label, score, reference) for label, score in scores.items()]
        model = None
        if not options.no_qat:
            model, result = qat(net, weights, train, test, options)
            lines.append(row(f"QAT, {options.steps} steps", result, reference))
        if not options.no_export:
            if model is None:
                model = NETS[net](weights, quantize=True)
                images = train.x[:CALIBRATION].split(BATCH)
                intact.torch.calibrate(model, images, progress=False, **VARIANTS["uint8"])
            lines.append(export(copy.deepcopy(model), test))
        head = f"{'first':>8s} {'delta':>8s} {'mean':>9s} {'delta':>8s} {'stdev':>7s}"
        print(
            f"\n{net}, top-1 in percent of {len(test.y):,}; {options.sets} calibration sets\n{'':22s} {head}"
        )
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()

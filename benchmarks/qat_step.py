"""One QAT step of the CIFAR ResNet-20 (batch 128) as a multiple of the float step; memory of calibration.

    python benchmarks/qat_step.py [--rounds 15] [--threads 1] [--no-memory]

Float and quantized steps take turns, so that a slow moment of the machine hits both; printed are medians.
Memory is the peak resident set of a process that calibrates on 4 and on 64 batches. Needs no data.
Targets: at most 1.25 times the float step; the same peak for both numbers of batches.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact.torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from cifar_resnet import resnet20

BATCH = 128
MEMORY_BATCHES = (4, 64)


def stepper(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], float]:
    """A call that takes one training step and returns its seconds."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step() -> float:
        started = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        return time.perf_counter() - started

    return step


def time_steps(rounds: int) -> None:
    """Print the medians of both steps and their ratio."""
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    quantized = resnet20(quantize=True)
    intact.torch.calibrate(quantized, [x], method="max", progress=False)
    steps = {"float": stepper(resnet20(), x, y), "QAT": stepper(quantized, x, y)}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 2):
        for name, step in steps.items():
            chosen = step()
            if number >= 2:  # the first two warm up
                seconds[name].append(chosen)
    ratios = [q / f for q, f in zip(seconds["QAT"], seconds["float"], strict=True)]
    for name, values in seconds.items():
        print(f"{name:6s} {1e3 * median(values):8.1f} ms")
    ratio = median(seconds["QAT"]) / median(seconds["float"])
    print(f"ratio  {ratio:8.2f}    target 1.25, median of the rounds' ratios {median(ratios):.2f}")


def calibrate_and_report(batches: int) -> None:
    """Calibrate on `batches` fresh batches and print the peak resident set of this process, in MiB."""

    def stream() -> Iterator[Tensor]:
        for seed in range(batches):
            yield torch.randn(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(seed))

    intact.torch.calibrate(resnet20(quantize=True).eval(), stream(), method="max", progress=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def compare_memory(threads: int) -> None:
    """Print the peaks of two processes."""
    peaks = []
    for batches in MEMORY_BATCHES:
        command = [sys.executable, __file__, "--peak-of", str(batches), "--threads", str(threads)]
        peaks.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(f"calibration on {batches:3d} batches: peak {peaks[-1]:7.1f} MiB")
    print(f"difference {peaks[-1] - peaks[0]:+.1f} MiB")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.peak_of:
        calibrate_and_report(options.peak_of)
        return
    time_steps(options.rounds)
    if not options.no_memory:
        compare_memory(options.threads)


if __name__ == "__main__":
    main()

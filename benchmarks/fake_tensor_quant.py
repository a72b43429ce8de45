"""Times fake quantization, its gradient and calibration in PyTorch, as multiples of `Tensor.copy_`.

    python benchmarks/fake_tensor_quant.py [--megabytes 25] [--repeats 15] [--threads 1]

Unlike `kernels.py` this times the public calls: a new output tensor each time, autograd, the quantizer
module. Beside them PyTorch's own operators, the eager formula, and ModelOpt where it is installed.
Everything runs once per round, in turn; printed are medians over the rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import torch
from kernels import CHANNELS, SIDE, Contender, report
from torch import Tensor

from intact.torch import tensor_quant
from intact.torch.calib.mergeable import MergeableCalibrator
from intact.torch.nn import TensorQuantizer


def forward_backward(x: Tensor, grad: Tensor, forward: Callable[[Tensor], Tensor]) -> Callable[[], object]:
    leaf = x.detach().clone().requires_grad_()

    def step() -> None:
        leaf.grad = None
        forward(leaf).backward(grad)

    return step


def ours(x: Tensor, grad: Tensor) -> Iterator[Contender]:
    fake = tensor_quant.fake_tensor_quant
    amax, amaxs = x.abs().max(), x.abs().amax((0, 2, 3), keepdim=True)
    yield "fake_tensor_quant, per-tensor", 1.5, lambda: fake(x, amax)
    yield "fake_tensor_quant, per-channel", 2.0, lambda: fake(x, amaxs)
    yield "forward + backward, per-tensor", 4.0, forward_backward(x, grad, lambda t: fake(t, amax))
    yield "forward + backward, per-channel", 4.0, forward_backward(x, grad, lambda t: fake(t, amaxs))
    quantizer = TensorQuantizer(tensor_quant.QuantDescriptor(amax=float(amax)))
    yield "TensorQuantizer", None, lambda: quantizer(x)
    calibrator = MergeableCalibrator(8, None, False)
    yield "histogram collection", 3.0, lambda: calibrator.collect(x)


def peers(x: Tensor, grad: Tensor) -> Iterator[Contender]:
    scale = float(x.abs().max()) / 127
    scales, zeros = x.abs().amax((0, 2, 3)) / 127, torch.zeros(CHANNELS, dtype=torch.int32)

    def per_tensor(t: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(t, scale, 0, -128, 127)

    def eager(t: Tensor) -> Tensor:
        return torch.clamp(torch.round(t / scale), -128, 127) * scale

    def per_channel() -> Tensor:
        return torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -128, 127)

    yield "torch, per-tensor", None, lambda: per_tensor(x)
    yield "torch, per-channel", None, per_channel
    yield "torch, forward + backward", None, forward_backward(x, grad, per_tensor)
    yield "eager formula", None, lambda: eager(x)
    yield "torch.histc", None, lambda: torch.histc(x, 2048, 0, scale * 127)
    try:
        from modelopt.torch.quantization.tensor_quant import fake_tensor_quant
    except ImportError:
        return
    amax = x.abs().max()
    yield "ModelOpt fake_tensor_quant", None, lambda: fake_tensor_quant(x, amax, None, 8, False, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=25)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    batch = max(1, round(args.megabytes * 1e6 / 4 / (CHANNELS * SIDE * SIDE)))
    x = torch.randn(batch, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    grad, y = torch.randn_like(x), torch.empty_like(x)
    copy: Contender = ("Tensor.copy_", None, lambda: y.copy_(x))
    report([copy, *ours(x, grad), *peers(x, grad)], x, args)


if __name__ == "__main__":
    main()

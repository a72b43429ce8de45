"""Times of the native kernels as multiples of `torch.Tensor.copy_` of the same tensor, beside their peers.

    python benchmarks/kernels.py [--megabytes 25] [--repeats 15] [--threads 1]

Every contender runs once per round, in turn, so that a slow moment of the machine hits all of them;
printed are medians over the rounds. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from intact import kernels, numerics
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.steps import Elementwise, Tensor
from intact.spec import INT8, QuantSpec

CHANNELS, SIDE = 64, 40  # [N, 64, 40, 40]: activations of a convolution
BINS = 2048

Contender = tuple[str, float | None, Callable[[], object]]  # name, allowed ratio, call


class Bench:
    """The tensors that every contender reads and writes; outputs are made once, as `copy_`'s is."""

    def __init__(self, megabytes: float, threads: int) -> None:
        batch = max(1, round(megabytes * 1e6 / 4 / (CHANNELS * SIDE * SIDE)))
        self.threads = threads
        self.x = torch.randn(batch, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
        self.y, self.grad = torch.empty_like(self.x), torch.randn_like(self.x)
        self.x_np, self.y_np, self.grad_np = self.x.numpy(), self.y.numpy(), self.grad.numpy()
        self.grad_out = np.empty_like(self.x_np)
        self.amax = float(numerics.absmax(self.x_np))
        self.negative, self.positive = np.zeros(2 * BINS, np.int64), np.zeros(2 * BINS, np.int64)
        self.exponent = int(np.floor(np.log2(self.amax / BINS)))

    def spec(self, axis: int | None) -> tuple[QuantSpec, np.ndarray, np.ndarray]:
        spec = QuantSpec(INT8, axis=axis)
        amax = numerics.absmax(self.x_np, axis)
        return spec, amax, numerics.scale_from_amax(amax, spec)

    def forward(self, axis: int | None) -> Callable[[], object]:
        spec, _, scale = self.spec(axis)
        return lambda: kernels.fake_quantize(self.x_np, scale, 0, spec, out=self.y_np, threads=self.threads)

    def backward(self, axis: int | None) -> Callable[[], object]:
        spec, amax, _ = self.spec(axis)
        return lambda: kernels.fake_quantize_grad(
            self.grad_np, self.x_np, -amax, amax, spec, out=self.grad_out, threads=self.threads
        )

    def both(self, axis: int | None) -> Callable[[], object]:
        forward, backward = self.forward(axis), self.backward(axis)
        return lambda: (forward(), backward())

    def collect(self) -> object:
        return kernels.collect_pow2(
            self.x_np, self.exponent, self.negative, self.positive, threads=self.threads
        )

    def ours(self) -> Iterator[Contender]:
        yield "fake_quantize, per-tensor", 1.5, self.forward(None)
        yield "fake_quantize, per-channel axis 1", 2.0, self.forward(1)
        yield "fake_quantize, per-channel last axis", 2.0, self.forward(-1)
        yield "forward + backward, per-tensor", 4.0, self.both(None)
        yield "forward + backward, per-channel", 4.0, self.both(1)
        yield "collect_pow2 (counts, ends, non-finite)", 3.0, self.collect
        counts = np.zeros(BINS, np.int64)
        width = self.amax / BINS
        yield (
            "count_fixed",
            3.0,
            lambda: kernels.count_fixed(self.x_np, width, counts, threads=self.threads),
        )
        yield "absmax", None, lambda: kernels.absmax(self.x_np, threads=self.threads)
        yield "minmax", None, lambda: kernels.minmax(self.x_np, threads=self.threads)
        spec, _, scale = self.spec(None)
        q = kernels.quantize(self.x_np, scale, 0, spec)
        yield (
            "quantize to int8",
            None,
            lambda: kernels.quantize(self.x_np, scale, 0, spec, threads=self.threads),
        )
        yield (
            "dequantize from int8",
            None,
            lambda: kernels.dequantize(q, scale, 0, spec, threads=self.threads),
        )

    def elementwise(self) -> Iterator[Contender]:
        """Steps on elements of any type, over rows of the tensor's bytes."""
        for operation, read, result in (
            ("less", "float32", "bool"),
            ("where", "float32", "float32"),
            ("round", "float32", "float32"),
            ("cast", "float32", "int32"),
            ("cast", "float16", "float32"),
            ("mul", "int32", "int32"),
            ("add", "int64", "int64"),
            ("max", "float64", "float64"),
            ("exp", "float64", "float64"),
        ):
            yield f"{operation}, {read} to {result}", None, self._elementwise(operation, read, result)

    def _elementwise(self, operation: str, read: str, result: str) -> Callable[[], object]:
        operands = numerics.ELEMENTWISE[operation].operands
        dtypes = ["bool" if operation == "where" and i == 0 else read for i in range(operands)]
        count = self.x_np.nbytes // 8
        values = self.x_np.ravel()[:count] * 100
        arrays = [(values > 0) if d == "bool" else values.astype(d) for d in dtypes]
        feeds = {f"x{i}": x for i, x in enumerate(arrays)}
        tensors = {name: Tensor(name, x.dtype.name, x.shape) for name, x in feeds.items()}
        tensors["y"] = Tensor("y", result, (count,))
        step = Elementwise("step", (), operation, tuple(feeds), "y")
        engine = Engine(Plan((step,), tensors, {}, tuple(feeds), ("y",)), threads=self.threads)
        return lambda: engine.run(feeds)

    def peers(self) -> Iterator[Contender]:
        scale = self.amax / 127
        scales = torch.from_numpy(self.spec(1)[2])
        zeros = torch.zeros(CHANNELS, dtype=torch.int32)
        yield (
            "torch.fake_quantize_per_tensor_affine",
            None,
            lambda: torch.fake_quantize_per_tensor_affine(self.x, scale, 0, -128, 127),
        )
        yield (
            "torch.fake_quantize_per_channel_affine",
            None,
            lambda: torch.fake_quantize_per_channel_affine(self.x, scales, zeros, 1, -128, 127),
        )
        yield (
            "eager torch formula",
            None,
            lambda: torch.clamp(torch.round(self.x / scale), -128, 127) * scale,
        )
        yield "torch.histc", None, lambda: torch.histc(self.x, BINS, 0, self.amax)
        yield "np.histogram", None, lambda: np.histogram(self.x_np, BINS, (0, self.amax))


def medians(contenders: list[Contender], repeats: int) -> dict[str, float]:
    """Seconds of each contender: the median of `repeats` interleaved rounds, after one to warm up."""
    times: dict[str, list[float]] = {name: [] for name, _, _ in contenders}
    for round_ in range(repeats + 1):
        for name, _, call in contenders:
            start = time.perf_counter()
            call()
            if round_:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def report(contenders: list[Contender], x: torch.Tensor, args: argparse.Namespace) -> None:
    """Time the contenders and print each as a multiple of the first, with what it is allowed to be."""
    result = medians(contenders, args.repeats)
    print(f"{x.numel() * 4 / 1e6:.1f} MB float32, {args.threads} thread(s), copy_ = 1")
    for name, allowed, _ in contenders:
        ratio = result[name] / result[contenders[0][0]]
        note = "" if allowed is None else f"   at most {allowed} {'ok' if ratio <= allowed else 'MISSED'}"
        print(f"{name:42} {result[name] * 1e3:8.2f} ms {ratio:7.2f}x{note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=25)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    bench = Bench(args.megabytes, args.threads)
    copy: Contender = ("torch.Tensor.copy_", None, lambda: bench.y.copy_(bench.x))
    contenders = [copy, *bench.ours(), *bench.elementwise(), *([] if args.no_peers else bench.peers())]
    print("kernels: " + ", ".join(k.name for k in kernels.kernel_list() if k.chosen))
    report(contenders, bench.x, args)


if __name__ == "__main__":
    main()

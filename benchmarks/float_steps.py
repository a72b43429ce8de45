"""Times softmax, LayerNorm, GELU and products of activations in a BERT-base encoder of 128 tokens.

    python benchmarks/float_steps.py [--tokens 128] [--repeats 200] [--threads 1]

Each step runs alone, with each kernel of its family; printed are the fastest of all rounds, what that is in
GB/s (bytes read and written) or GMAC/s, and what the 12 layers of the encoder add up to.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from intact import kernels
from intact.kernels import float_steps
from intact.kernels.float_steps import Product, Real
from intact.kernels.program import NativeStep, Program, View
from intact.kernels.registry import kernels_in_use

LAYERS, HEADS, HIDDEN, INNER = 12, 12, 768, 3072
WIDTH = HIDDEN // HEADS


class Bench:
    """One step over its own arena."""

    def __init__(self, kernel: str, threads: int) -> None:
        self.kernels = {**kernels_in_use(), kernel.rpartition("_")[0]: kernel}
        self.threads, self.nbytes = threads, 0
        self.floats: list[View] = []

    def tensor(self, dtype: str, *sizes: int, zero: int = 128) -> Real:
        """Memory behind what there is."""
        size = np.dtype(dtype).itemsize
        strides = [int(np.prod(sizes[i + 1 :], initial=1)) * size for i in range(len(sizes))]
        view = View(0, self.nbytes, dtype, sizes, strides)
        if dtype == "float32":
            self.floats.append(view)
        self.nbytes += -(-int(np.prod(sizes)) * size // 64) * 64 + 64
        return Real(view, 0.02, zero)

    def seconds(self, step: NativeStep, repeats: int) -> float:
        """The fastest of all rounds."""
        program = Program(self.threads)
        program.arena(self.nbytes)
        program.add(step)
        context = program.take()
        arena = context.arena()
        rng = np.random.default_rng(0)
        arena[:] = rng.integers(0, 256, arena.size)
        for view in self.floats:
            count = int(np.prod(view.sizes))
            arena[view.offset : view.offset + 4 * count].view(np.float32)[:] = rng.normal(0, 3, count)
        times = np.zeros(1)
        best = np.inf
        for _ in range(repeats):
            context.run(0, 1, times)
            best = min(best, float(times[0]))
        return best


@dataclass(frozen=True)
class Case:
    """One step: `count` of it in a layer, and what it moves or multiplies."""

    name: str
    step: NativeStep
    count: int
    amount: float
    unit: str


def _permute(x: Real, order: tuple[int, ...]) -> Real:
    sizes, strides = ([axes[i] for i in order] for axes in (x.view.sizes, x.view.strides))
    return Real(View(0, x.view.offset, "uint8", sizes, strides), x.scale, x.zero)


def _reals(bench: Bench, tokens: int) -> Iterator[Case]:
    def bytes_moved(*tensors: Real) -> float:
        return sum(float(np.prod(t.view.sizes)) * t.view.itemsize for t in tensors)

    for dtype in ("float32", "uint8"):
        x = bench.tensor(dtype, HEADS, tokens, tokens)
        y = bench.tensor("uint8", HEADS, tokens, tokens, zero=0)
        name = f"softmax, {dtype} to codes"
        yield Case(
            name, float_steps.softmax(x, y, 0.125, kernels=bench.kernels), 1, bytes_moved(x, y), "GB/s"
        )
    x, y, r = (bench.tensor("uint8", tokens, HIDDEN) for _ in range(3))
    step = float_steps.layer_norm(x, y, 1e-12, residual=r, kernels=bench.kernels)
    yield Case("layer_norm with residual, codes to codes", step, 2, bytes_moved(x, y, r), "GB/s")
    for dtype in ("float32", "uint8"):
        x, y = (bench.tensor(dtype, tokens, INNER) for _ in range(2))
        name = f"gelu, {dtype}"
        yield Case(name, float_steps.function(x, y, "gelu", bench.kernels), 1, bytes_moved(x, y), "GB/s")


def _products(bench: Bench, tokens: int) -> Iterator[Case]:
    q, k, v, out = (bench.tensor("uint8", tokens, HEADS, WIDTH) for _ in range(4))
    p = bench.tensor("uint8", HEADS, tokens, tokens, zero=0)
    macs = HEADS * tokens * tokens * WIDTH
    scores = bench.tensor("float32", HEADS, tokens, tokens)
    heads, turned = (1, 0, 2), (1, 2, 0)
    qk = Product(_permute(q, heads), _permute(k, turned), scores, 0.01)
    pv = Product(p, _permute(v, heads), _permute(out, heads), 0.01)
    yield Case("q times k, to floats", float_steps.matmul(qk, bench.kernels), 1, macs, "GMAC/s")
    yield Case("p times v, to codes", float_steps.matmul(pv, bench.kernels), 1, macs, "GMAC/s")
    whole = float_steps.attention(qk, pv, kernels=bench.kernels)
    yield Case("attention: these two and softmax", whole, 1, 2 * macs, "GMAC/s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    print(f"{'kernel':14} {'step':42} {'us':>9} {'rate':>14} {'12 layers, ms':>14}")
    for kernel in kernels.kernel_list():
        if kernel.family not in ("float_steps", "matmul") or not kernel.available:
            continue
        cases = _reals if kernel.family == "float_steps" else _products
        bench = Bench(kernel.name, args.threads)
        for case in cases(bench, args.tokens):
            seconds = bench.seconds(case.step, args.repeats)
            rate = f"{case.amount / seconds / 1e9:.1f} {case.unit}"
            total = seconds * case.count * LAYERS * 1e3
            print(f"{kernel.name:14} {case.name:42} {seconds * 1e6:9.1f} {rate:>14} {total:14.2f}")


if __name__ == "__main__":
    main()

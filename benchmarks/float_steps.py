"""Times softmax, LayerNorm, GELU and products of activations in a BERT-base encoder of 128 tokens.

    python benchmarks/float_steps.py [--tokens 128] [--repeats 200] [--threads 1]

Each step runs alone, with each kernel of its family; printed are the fastest of all rounds, what that is in
GB/s (bytes read and written) or GMAC/s, and what the 12 layers of the encoder add up to.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from step_times import best_time
from tests.one_step import plan_of

from intact import kernels
from intact.engine.plan import Plan
from intact.engine.steps import Codes, Epilogue, Function, LayerNorm, MatMul, Softmax, Step

LAYERS, HEADS, HIDDEN, INNER = 12, 12, 768, 3072
WIDTH = HIDDEN // HEADS


@dataclass(frozen=True)
class Case:
    """One step: `count` of it in a layer, what it moves or multiplies, and its plan and inputs."""

    name: str
    count: int
    amount: float
    unit: str
    plan: Plan
    feeds: dict[str, np.ndarray]


def _input(dtype: str, *sizes: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "float32":
        return rng.normal(0, 3, sizes).astype(np.float32)
    return rng.integers(0, 256, sizes).astype(np.uint8)


def _grids(feeds: dict[str, np.ndarray], **outputs: int) -> dict[str, Codes]:
    """Of all inputs of bytes, and of outputs with these zero points."""
    zeros = {name: 128 for name, x in feeds.items() if x.dtype == np.uint8} | outputs
    return {name: Codes(0.02, zero, False, 0, 255) for name, zero in zeros.items()}


def _reals(tokens: int) -> Iterator[Case]:
    def case(name: str, step: Step, count: int, feeds: dict[str, np.ndarray], **outputs: int) -> Case:
        plan = plan_of(step, feeds, grids=_grids(feeds, **outputs))
        tensors = plan.tensors.values()
        moved = sum(math.prod(t.shape) * (1 if t.codes else 4) for t in tensors)
        return Case(name, count, moved, "GB/s", plan, feeds)

    for dtype in ("float32", "uint8"):
        feeds = {"x": _input(dtype, HEADS, tokens, tokens)}
        yield case(f"softmax, {dtype} to codes", Softmax("step", (), "x", "y", -1, 0.125), 1, feeds, y=0)
    feeds = {name: _input("uint8", tokens, HIDDEN) for name in "xr"}
    norm = LayerNorm("step", (), "x", "y", "", "", 1e-12, "r")
    yield case("layer_norm with residual, codes to codes", norm, 2, feeds, y=128)
    for dtype in ("float32", "uint8"):
        feeds = {"x": _input(dtype, tokens, INNER)}
        outputs = {"y": 128} if dtype == "uint8" else {}
        yield case(f"gelu, {dtype}", Function("step", (), "x", "y", "gelu"), 1, feeds, **outputs)


def _products(tokens: int) -> Iterator[Case]:
    macs = HEADS * tokens * tokens * WIDTH
    q, k, v = (_input("uint8", tokens, HEADS, WIDTH).transpose(1, 0, 2) for _ in "qkv")
    feeds = {"q": q, "k": k.transpose(0, 2, 1), "v": v, "p": _input("uint8", HEADS, tokens, tokens)}
    m = {"m": np.float32([0.01])}
    scores = MatMul("step", (), "q", "k", "s", Epilogue("m"))
    values = MatMul("step", (), "p", "v", "y", Epilogue("m"))
    softmax = Softmax("soft", (), "s", "p", -1, 0.125)

    def case(name: str, steps: Any, amount: int, names: str, **outputs: int) -> Case:
        used = {n: feeds[n] for n in names}
        plan = plan_of(steps, used, grids=_grids(used, **outputs), **m)
        return Case(name, 1, amount, "GMAC/s", plan, used)

    yield case("q times k, to floats", scores, macs, "qk")
    yield case("p times v, to codes", values, macs, "pv", y=128)
    whole = (replace(scores, name="scores"), softmax, values)
    yield case("attention: these two and softmax", whole, 2 * macs, "qkv", p=0, y=128)


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
        for case in cases(args.tokens):
            more = {"kernels": kernel.name, "threads": args.threads, "runs": args.repeats}
            seconds, _ = best_time(case.plan, case.feeds, "step", **more)
            rate = f"{case.amount / seconds / 1e9:.1f} {case.unit}"
            total = seconds * case.count * LAYERS * 1e3
            print(f"{kernel.name:14} {case.name:42} {seconds * 1e6:9.1f} {rate:>14} {total:14.2f}")


if __name__ == "__main__":
    main()

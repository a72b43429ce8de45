"""Measures how evenly the steps of models divide among 1 to 64 threads, by their work items alone.

    python benchmarks/balance.py model.int8.onnx [--threads 2 8 64] [--batch 8] [--shapes x:1x3x640x480]

For each number of threads: the speedup that the division of products allows (every product takes the same;
memory, waking threads and what is no product left out), and the steps that keep it from more: the share of
the thread that has the most, over the mean.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from intact.cli.shared_options import read_shapes
from intact.engine.cpu.balance import divisions, speedup
from intact.engine.engine import Engine
from intact.engine.lower import lower

THREADS = (1, 2, 4, 8, 16, 32, 64)


def show(model: Path, batch: int, shapes: dict[str, tuple[int, ...]], counts: list[int], worst: int) -> None:
    plan = lower(model)
    ports = Engine(plan, threads=1).inputs
    sizes = {
        p.name: shapes.get(p.name) or tuple(d if isinstance(d, int) else batch if i == 0 else 1
                                            for i, d in enumerate(p.shape))
        for p in ports
    }  # fmt: skip
    print(f"{model.name}, batch {batch}")
    for threads in counts:
        result = divisions(plan, sizes, threads)
        print(f"  {threads:3} threads: speedup at most {speedup(result, threads):6.2f}")
        lost = sorted(result, key=lambda d: d.products * (d.share - 1), reverse=True)
        total = sum(d.products for d in result)
        for d in [item for item in lost if item.share > 1.1][:worst]:
            print(f"      {d.share:6.2f}  {d.products / max(1, total):6.1%} of products, {d.items:5} items"
                  f"  {d.kernel:18} {d.step}  {d.shape}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=list(THREADS))
    parser.add_argument("--batch", type=int, default=1, help="for every open first dimension")
    parser.add_argument("--shapes", default="", help="of inputs: x:1x3x224x224")
    parser.add_argument("--worst", type=int, default=5, help="steps to name")
    args = parser.parse_args()
    for model in args.models:
        show(model, args.batch, read_shapes(args.shapes), args.threads, args.worst)


if __name__ == "__main__":
    main()

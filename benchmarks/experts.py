"""Experts of a transformer in int8: rows by the matrices that they choose, by all of them, and in float.

    python benchmarks/experts.py [--rounds 15]

A case is a router and gated experts, sorted by expert as transformers does it, of tokens, channels, inner
channels, experts, and experts of each token; random weights, one thread. Printed are the least milliseconds
of all rounds: of the engine, of the engine where every row is multiplied by all matrices, as the file says,
of ONNX Runtime on that file, and of the float module in PyTorch. Both engines must agree bit for bit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
from intact.engine.lower import pipeline
from intact.torch import export, quantize

CASES = [(128, 512, 512, 16, 2), (128, 512, 512, 64, 2), (16, 512, 512, 64, 8), (1, 512, 512, 16, 2)]


class Experts(nn.Module):
    """A router and gated experts."""

    def __init__(self, channels: int, inner: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.experts, self.chosen = experts, chosen
        self.router = nn.Linear(channels, experts)
        self.up = nn.Parameter(torch.randn(experts, 2 * inner, channels) / channels**0.5)
        self.down = nn.Parameter(torch.randn(experts, channels, inner) / inner**0.5)

    def forward(self, x: Tensor) -> Tensor:
        weights, experts = self.router(x).softmax(-1).topk(self.chosen, -1)
        experts, order = torch.sort(experts.reshape(-1))
        number = torch.histc(experts.float(), bins=self.experts, min=0, max=self.experts - 1)
        ends = torch.cumsum(number, 0, dtype=torch.int32)
        rows = x[order // self.chosen]
        gate, y = F.grouped_mm(rows, self.up.transpose(1, 2), offs=ends).chunk(2, -1)
        y = F.grouped_mm(F.silu(gate) * y, self.down.transpose(1, 2), offs=ends)
        y = y * weights.reshape(-1)[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return y[back].view(-1, self.chosen, x.shape[-1]).sum(1)


def least(run: Callable[[], Any], rounds: int) -> float:
    """Milliseconds."""
    run()
    chosen = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        chosen.append(time.perf_counter() - start)
    return 1e3 * min(chosen)


def case(folder: Path, sizes: tuple[int, ...], rounds: int) -> list[float]:
    tokens, *rest = sizes
    model, x = Experts(*rest).eval(), torch.randn(tokens, rest[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = quantize(model, [x], method="max", float_budget=0, progress=False)
        export(result.model, x, folder / "experts.onnx", dynamic_batch=False, verify=False)
    data, built, results = x.numpy(), [], []
    join = pipeline.choose_rows
    for passed in (join, lambda plan: plan):
        pipeline.choose_rows = passed
        engine = intact.compile(folder / "experts.onnx", threads=1)
        pipeline.choose_rows = join
        built.append(engine(data))
        results.append(least(lambda engine=engine: engine(data), rounds))
    assert np.array_equal(*built), "the engine differs from itself"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "experts.onnx", options)
    feeds = {session.get_inputs()[0].name: data}
    results.append(least(lambda: session.run(None, feeds), max(rounds // 3, 1)))
    with torch.no_grad():
        results.append(least(lambda: model(x), rounds))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"{'tokens, channels, inner, experts, chosen':42}   chosen      all  ORT, all    float")
    for sizes in CASES:
        with tempfile.TemporaryDirectory() as folder:
            result = case(Path(folder), sizes, rounds)
        print(f"{', '.join(map(str, sizes)):42} " + " ".join(f"{ms:8.2f}" for ms in result))


if __name__ == "__main__":
    main()

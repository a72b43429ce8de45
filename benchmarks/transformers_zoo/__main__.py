"""Architectures of transformers, small and with random weights, through graph mode and both exporters.

    python -m pip install transformers          # beside intact and torch
    python benchmarks/transformers_zoo [--only BERT,Swin] [--verbose]

Each network is quantized three times: as a module by graph mode (`intact.torch.quantize`), exported and
compiled; and as the ONNX files that `torch.onnx.export` writes of the float module, with ``dynamo=True`` and
with ``dynamo=False``, by `intact.quantize`, compiled. Then the quantized module is trained for 20 steps to
answer fixed random numbers, and exported again.

Columns: `int8` and `float`: layers of graph mode that can be quantized and are, or stay; SQNR in dB of the
engine's first output against the float module's, on inputs that calibration did not see; `exact`: engines
that equal the integer reference on every code and number, of those that were compiled; `differ`: operators
whose pairs in graph mode's file are not those of the ONNX path's, `of` so many; `loss`: before and after
training; `verify`: codes in which module and file differ before and after training, each layer on the same
codes, those beside a rounding boundary aside; `parts`: parts of the three engines that run in ONNX Runtime.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nets import ARCHITECTURES, Answers, Architecture, Inputs, tensors
from pairs import differences, place_operators
from torch import Tensor, nn

import intact
from intact import graph
from intact.engine.compare import compare
from intact.engine.compare.comparison_counts import ROUNDING
from intact.engine.steps import FallbackSubgraph
from intact.torch import export, quantize

OPSET = 18
MATTER = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Mul", "Concat")


@dataclass
class Row:
    """Result for one architecture."""

    name: str
    stopped: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    int8: int = 0
    floats: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    sqnr: dict[str, float] = field(default_factory=dict)
    exact: dict[str, bool] = field(default_factory=dict)
    differ: list[str] = field(default_factory=list)
    operators: int = 0
    loss: tuple[float, float] = (0.0, 0.0)
    verify: dict[str, int] = field(default_factory=dict)
    fallback: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def sqnr(expected: list[np.ndarray], got: list[np.ndarray]) -> float:
    a, b = (np.concatenate([x.ravel() for x in xs]).astype(np.float64) for xs in (expected, got))
    noise = float(((a - b) ** 2).sum())
    return 10 * float(np.log10((a**2).sum() / noise)) if noise else np.inf


class Trial:
    """One architecture, step by step; a step that stops says why, and the next one goes on."""

    def __init__(self, architecture: Architecture, folder: Path, *, verbose: bool) -> None:
        self.row, self.folder, self.verbose = Row(architecture.name), folder, verbose
        self.model = architecture.build()
        self.data, self.test = architecture.batches(8, seed=1), architecture.batches(4, seed=2)
        with torch.no_grad():
            self.wanted = [tensors(self.model(**x))[0].numpy() for x in self.test]

    def run(self) -> Row:
        start = time.perf_counter()
        for step in (self.graph_mode, self.dynamo, self.torchscript, self.pairs, self.train):
            try:
                step()
            except Exception as error:
                self.row.stopped[step.__name__] = (
                    f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                )
                if self.verbose:
                    traceback.print_exc()
        self.row.seconds = time.perf_counter() - start
        return self.row

    # ---- graph mode ----

    def graph_mode(self) -> None:
        result = quantize(self.model, self.data, progress=False)
        self.result = result
        self.row.replaced, self.row.left = dict(result.report.replaced), dict(result.report.left)
        for layer in result.placement.layers if result.placement else ():
            if layer.op_type in MATTER:
                self.row.int8 += layer.precision != "float"
                self.row.floats += layer.precision == "float"
                if layer.precision == "float":
                    self.row.reasons[f"{layer.op_type} {layer.name}"] = layer.reason
        self.check_export("before", result.model)
        self.engine("graph mode", self.folder / "before.onnx")

    def check_export(self, when: str, model: nn.Module) -> None:
        report = export(model, self.data[0], self.folder / f"{when}.onnx", opset=OPSET)
        if report.skipped:
            raise RuntimeError(f"not verified: {report.skipped}")
        if report.not_compared:
            raise RuntimeError(f"not in the file: {', '.join(report.not_compared)}")
        self.row.verify[when] = sum(
            q.differing for q in report.quantizers if q.largest > 1 or q.boundary > ROUNDING
        )

    def engine(self, side: str, file: Path) -> None:
        """Compile, compare with the reference on every code, and score."""
        engine, model = intact.compile(file, threads=2, deterministic=True), graph.load(file)
        feeds = [self.feeds(engine, x) for x in self.test]
        result = compare(model, engine, feeds, traced=1, threads=2)
        self.row.exact[side] = result.exact
        if not result.exact:
            first = result.first("engine")
            self.row.stopped[f"{side} exact"] = f"{first.tensor} of {first.layer}" if first else "an answer"
        names = engine.plan.outputs
        self.row.sqnr[side] = sqnr(self.wanted, [engine.run(x)[names[0]] for x in feeds])
        plan = engine.plan_for({n: x.shape for n, x in feeds[0].items()}, feeds[0])
        for step in plan.steps:
            if isinstance(step, FallbackSubgraph):
                self.row.fallback[f"{side}: {step.name}"] = "ONNX Runtime"

    @staticmethod
    def feeds(engine: Any, inputs: Inputs) -> dict[str, np.ndarray]:
        names = [port.name for port in engine.inputs]
        if set(names) <= set(inputs):
            return {name: inputs[name].numpy() for name in names}
        return {name: x.numpy() for name, x in zip(names, inputs.values(), strict=True)}

    # ---- the float module's files ----

    def dynamo(self) -> None:
        self.by_file("dynamo", dynamo=True)

    def torchscript(self) -> None:
        self.by_file("torchscript", dynamo=False)

    def by_file(self, side: str, **options: Any) -> None:
        names = list(self.data[0])
        module = Answers(copy.deepcopy(self.model), names).eval()
        file = self.folder / f"{side}.float.onnx"
        with torch.no_grad():
            torch.onnx.export(
                module, tuple(self.data[0].values()), file, input_names=names, opset_version=OPSET,
                verbose=False, **options,
            )  # fmt: skip
        present = {v.name for v in graph.load(file).graph.inputs}  # an input that nobody reads is left out
        data = [{k: v.numpy() for k, v in x.items() if k in present} for x in self.data]
        quantized = intact.quantize(file, data, progress=False)
        quantized.save(self.folder / f"{side}.onnx")
        self.engine(side, self.folder / f"{side}.onnx")
        if side == "dynamo":  # equalization writes other operators
            intact.quantize(file, data, progress=False, equalization=False, method="max").save(
                self.folder / "pairs.onnx"
            )

    def pairs(self) -> None:
        """Operator by operator: graph mode's file and the ONNX path's."""
        export(
            self.result.model, self.data[0], self.folder / "fixed.onnx", opset=OPSET, dynamic_batch=False,
            verify=False,
        )  # fmt: skip
        ours, theirs = (place_operators(graph.load(self.folder / f"{n}.onnx")) for n in ("fixed", "pairs"))
        self.row.operators, self.row.differ = len(theirs), differences(ours, theirs)

    # ---- training ----

    def train(self) -> None:
        model, x = self.result.model.train(), self.data[0]
        torch.manual_seed(3)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        target: Tensor | None = None
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            answer = tensors(model(**x))[0]
            if target is None:
                target = answer.detach().std().clamp_min(0.1) * torch.randn(answer.shape)
            loss = nn.functional.mse_loss(answer, target)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        self.row.loss = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
        self.check_export("after", model.eval())


SIDES = ("graph mode", "dynamo", "torchscript")


def show(rows: list[Row]) -> None:
    sqnr = "".join(f"{side:>8}" for side in ("graph", "dynamo", "script"))
    head = f"{'':<12}{'int8':>5}{'float':>6}{sqnr}{'exact':>7}{'differ':>7} of  "
    print(f"\n{head}{'loss':>8}{'':>8}{'verify':>8}{'parts':>6}{'s':>5}")
    for r in rows:
        cells = "".join(f"{r.sqnr.get(side, float('nan')):>8.1f}" for side in SIDES)
        exact = f"{sum(r.exact.values())}/{len(r.exact)}"
        verify = "/".join(str(r.verify.get(when, "-")) for when in ("before", "after"))
        line = f"{r.name:<12}{r.int8:>5}{r.floats:>6}{cells}{exact:>7}{len(r.differ):>7} {r.operators:<4}"
        loss = "".join(f"{x:>8.3f}" for x in r.loss)
        print(f"{line}{loss}{verify:>8}{len(r.fallback):>6}{r.seconds:>5.0f}")
    for r in rows:
        for what, lines in (("stopped", r.stopped), ("replaced", r.replaced), ("part", r.fallback)):
            for where, why in lines.items():
                print(f"{r.name}: {what}: {where}: {why}")
        for line in r.differ:
            print(f"{r.name}: differs: {line}")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--only", help="names, with commas between them")
    words.add_argument("--asked", action="store_true", help="the first nine alone")
    words.add_argument("--folder", type=Path, help="where the files stay; else they do not")
    words.add_argument("--verbose", action="store_true", help="tracebacks, differences and reasons")
    options = words.parse_args()
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")
    chosen = (
        options.only.split(",")
        if options.only
        else [a.name for a in ARCHITECTURES if a.requested or not options.asked]
    )
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for architecture in ARCHITECTURES:
            if architecture.name not in chosen:
                continue
            folder = (options.folder or Path(scratch)) / architecture.name.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            try:
                rows.append(Trial(architecture, folder, verbose=options.verbose).run())
            except Exception as error:
                rows.append(Row(architecture.name, {"build": f"{type(error).__name__}: {error}"}))
            if options.verbose:
                for where, why in rows[-1].reasons.items():
                    print(f"  {rows[-1].name}: float: {where}: {why}")
            show(rows[-1:])
    show(rows)


if __name__ == "__main__":
    main()

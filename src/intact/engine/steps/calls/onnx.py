"""The step that runs a subgraph without kernels in ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.onnx_step import OnnxStep
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Const, Reads, Writes


@dataclass(frozen=True)
class FallbackSubgraph(OnnxStep, Step):
    """Runs nodes without kernels in ONNX Runtime, between native steps.

    Attributes:
        model: Constant, uint8: a serialized ONNX model whose inputs and outputs carry these names. It reads
            floats: codes that come in or go out pass through Dequantize and Quantize steps.
        reason: Why it is not native.
    """

    kind = "onnx"
    native = False
    xs: Annotated[tuple[str, ...], Reads()]
    ys: Annotated[tuple[str, ...], Writes()]
    model: Annotated[str, Const("uint8", 1)]
    reason: str = field(default="")

    def check(self, checker: Checker) -> None:
        checker.that(bool(self.ys), "no outputs", "some")

    def evaluate(self, run: Run) -> None:
        """Run the nodes in ONNX Runtime, on one thread, with graph optimizations off."""
        outputs = self.session(run.constants, run.tensors, threads=1).run(
            {name: run.array(name) for name in self.xs}
        )
        for name in self.ys:
            run.bind(name, outputs[name])

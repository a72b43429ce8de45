"""The step that runs a subgraph without kernels in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from numpy.typing import NDArray

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Tensor
from intact.engine.steps.base.wiring import Const, Reads, Writes

if TYPE_CHECKING:
    from intact.graph import Session


@dataclass(frozen=True)
class FallbackSubgraph(Step):
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

    def check_model(self, constants: Mapping[str, NDArray[Any]], tensors: Mapping[str, Tensor]) -> bytes:
        """Check that its model is one that a plan of ours may hold, with the plan's outputs; return it.

        Raises:
            FileFormatError: As for `intact.graph.check_fallback`; names the step.
        """
        from intact.graph import check_fallback  # plans without such parts run without ONNX

        model = constants[self.model].tobytes()
        check_fallback(model, f"step '{self.name}'", {y: tensors[y].stored_dtype for y in self.ys})
        return model

    def session(
        self, constants: Mapping[str, NDArray[Any]], tensors: Mapping[str, Tensor], threads: int
    ) -> Session:
        """Return a session that runs the model, on so many threads within one operator."""
        from intact.graph import Session

        return Session(self.check_model(constants, tensors), threads=threads)

    def evaluate(self, run: Run) -> None:
        """Run the nodes in ONNX Runtime, on one thread, with graph optimizations off."""
        outputs = self.session(run.constants, run.tensors, threads=1).run(
            {name: run.array(name) for name in self.xs}
        )
        for name in self.ys:
            run.bind(name, outputs[name])

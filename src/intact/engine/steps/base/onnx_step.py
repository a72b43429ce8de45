"""Base of the steps that hold an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from intact.engine.steps.base.tensors import Tensor

if TYPE_CHECKING:
    from intact.graph import Session


class OnnxStep:
    """A step that holds an ONNX model, whose inputs and outputs are called as the step says."""

    name: str
    model: str
    ys: tuple[str, ...]

    @property
    def model_outputs(self) -> tuple[str, ...]:
        """The tensors that the model makes."""
        return self.ys

    def check_model(self, constants: Mapping[str, NDArray[Any]], tensors: Mapping[str, Tensor]) -> bytes:
        """Check that its model is one that a plan of ours may hold, with the plan's outputs; return it.

        Raises:
            FileFormatError: As for `intact.graph.check_fallback`; names the step.
        """
        from intact.graph import check_fallback  # plans without such parts run without ONNX

        model = constants[self.model].tobytes()
        check_fallback(model, f"step '{self.name}'", {y: tensors[y].stored_dtype for y in self.model_outputs})
        return model

    def session(
        self, constants: Mapping[str, NDArray[Any]], tensors: Mapping[str, Tensor], threads: int
    ) -> Session:
        """Return a session that runs the model, on so many threads within one operator."""
        from intact.graph import Session

        return Session(self.check_model(constants, tensors), threads=threads)

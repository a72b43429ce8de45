"""Run the parts of a plan that are left to ONNX Runtime or Python, on arrays of codes in the graph's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.shapes import SizesDiffer, fallback_shapes
from intact.engine.steps import Call, Codes, FallbackSubgraph, Shape, Step, Tensor
from intact.engine.steps.base.wiring import writes
from intact.errors import QuantValueError
from intact.processes import never_free, renew_in_child

if TYPE_CHECKING:
    from intact.graph import Session


def dtype_of(tensor: Tensor) -> str:
    """Return the dtype of a tensor's elements in memory: codes are bytes."""
    return "uint8" if tensor.codes is not None else tensor.stored_dtype


def to_bytes(array: NDArray[Any], codes: Codes | None) -> NDArray[Any]:
    """Convert an array of the graph to what native steps read: codes to bytes, 128 above signed codes."""
    if codes is None:
        return array
    return array.view(np.uint8) ^ np.uint8(codes.offset) if codes.offset else array.view(np.uint8)


def to_codes(stored: NDArray[Any], codes: Codes | None) -> NDArray[Any]:
    """Memory of native steps as the graph has it: of codes, int8 or uint8, a copy."""
    if codes is None:
        return stored
    values = stored.view(np.uint8) ^ np.uint8(codes.offset)
    return values.view(np.int8) if codes.signed else values


def check_dtype(where: str, dtype: np.dtype[Any], tensor: Tensor) -> None:
    """Refuse an array of another kind than the plan says; numbers of one kind are converted.

    Raises:
        QuantValueError: It is; names `where`.
    """
    wanted = np.dtype(tensor.stored_dtype)
    numbers = tensor.codes is None and "O" not in (dtype.kind, wanted.kind)  # NumPy makes objects of numbers
    if dtype != wanted and not (numbers and np.can_cast(dtype, wanted, "same_kind")):
        raise QuantValueError(where, str(dtype), str(wanted), "build the plan again, or mend the operator")


class FallbackSessions:
    """Runs the steps that no kernel does: one session for each subgraph, made when it is first needed.

    Args:
        plan: The plan.
        threads: Threads within one operator.

    Attributes:
        plan: As given.
    """

    def __init__(self, plan: Plan, threads: int) -> None:
        self.plan, self._threads = plan, threads
        self._sessions: dict[str, Session] = {}
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make sessions anew where theirs have threads, which the child has not."""
        if self._threads != 1:
            never_free(self._sessions)
            self._sessions = {}

    def run(self, step: Step, at: Callable[[str], NDArray[Any]]) -> None:
        """Run a step; `at` gives the memory of a tensor, dense: of codes, bytes."""
        if isinstance(step, Call):
            outputs = self._call(step, at)
        else:
            assert isinstance(step, FallbackSubgraph), f"no kernel for '{step.kind}', and nobody else"
            outputs = self._run(step, at)
        for name in writes(step):
            into = at(name)
            if outputs[name].shape != into.shape:
                raise SizesDiffer(name, into.shape, {y: outputs[y].shape for y in writes(step)})
            tensor = self.plan.tensors[name]
            check_dtype(f"step '{step.name}': tensor '{name}'", outputs[name].dtype, tensor)
            np.copyto(into, to_bytes(outputs[name], tensor.codes))

    def _run(self, subgraph: FallbackSubgraph, at: Callable[[str], NDArray[Any]]) -> dict[str, NDArray[Any]]:
        codes = {name: self.plan.tensors[name].codes for name in subgraph.xs}
        return self._session(subgraph).run({name: to_codes(at(name), codes[name]) for name in subgraph.xs})

    def _call(self, step: Call, at: Callable[[str], NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return what a registered operator makes."""
        inputs = [self._input(name, at) for name in step.xs]
        grids = [self.plan.tensors[name].codes for name in step.ys]
        return dict(zip(step.ys, step.call(inputs, grids), strict=True))

    def _input(self, name: str, at: Callable[[str], NDArray[Any]]) -> tuple[NDArray[Any], Codes | None]:
        tensor = self.plan.tensors.get(name)
        if tensor is None:
            return self.plan.constants[name], None
        return to_codes(at(name), tensor.codes), tensor.codes

    def check(self) -> None:
        """Read the models of all subgraphs, so that a hostile one is refused before anything runs.

        Raises:
            FileFormatError: As for `intact.graph.check_fallback`; names the step.
        """
        models = {step.model: step for step in self.plan.steps if isinstance(step, FallbackSubgraph)}
        for step in models.values():
            step.check_model(self.plan.constants, self.plan.tensors)

    def shapes(self, step: Step, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Return the shapes of what a step makes: as registered, or found by running it on zeros."""
        return fallback_shapes(self.plan, step, shapes, self._session)

    def _session(self, step: FallbackSubgraph) -> Session:
        if step.model not in self._sessions:
            self._sessions[step.model] = step.session(self.plan.constants, self.plan.tensors, self._threads)
        return self._sessions[step.model]

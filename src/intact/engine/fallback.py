"""The parts of a plan that ONNX Runtime runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.arrays import to_bytes, to_codes
from intact.engine.custom import call, operator_of
from intact.engine.plan import Plan
from intact.engine.steps import Call, Codes, FallbackSubgraph, Tensor
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.graph import Session

Shape = tuple[int, ...]


class FallbackSessions:
    """One session for each subgraph of a plan, made when it is first needed.

    Args:
        plan: The plan.
        threads: Threads within one operator.
    """

    def __init__(self, plan: Plan, threads: int) -> None:
        self._plan, self._threads = plan, threads
        self._sessions: dict[str, Session] = {}

    def run(self, subgraph: Call | FallbackSubgraph, at: Callable[[str], NDArray[Any]]) -> None:
        """Run a subgraph; `at` gives the memory of a tensor, dense: of codes, bytes."""
        made = self._call(subgraph, at) if isinstance(subgraph, Call) else self._run(subgraph, at)
        for name in subgraph.ys:
            into = at(name)
            if made[name].shape != into.shape:
                raise QuantValueError(
                    f"tensor '{name}'",
                    f"shape {made[name].shape}",
                    f"{into.shape}: the shape must not depend on the values of the inputs",
                    "run this model in ONNX Runtime",
                )
            np.copyto(into, to_bytes(made[name], self._plan.tensors[name].codes))

    def _run(self, subgraph: FallbackSubgraph, at: Callable[[str], NDArray[Any]]) -> dict[str, NDArray[Any]]:
        codes = {name: self._plan.tensors[name].codes for name in subgraph.xs}
        return self._session(subgraph).run({name: to_codes(at(name), codes[name]) for name in subgraph.xs})

    def _call(self, step: Call, at: Callable[[str], NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """What a registered operator makes."""
        inputs = [self._input(name, at) for name in step.xs]
        grids = [self._plan.tensors[name].codes for name in step.ys]
        return dict(zip(step.ys, call(step, inputs, grids), strict=True))

    def _input(self, name: str, at: Callable[[str], NDArray[Any]]) -> tuple[NDArray[Any], Codes | None]:
        tensor = self._plan.tensors.get(name)
        if tensor is None:
            return self._plan.constants[name], None
        return to_codes(at(name), tensor.codes), tensor.codes

    def check(self) -> None:
        """Read the models of all subgraphs, so that a hostile one is refused before anything runs.

        Raises:
            FileFormatError: As for `intact.graph.check_fallback`; names the step.
        """
        models = {step.model: step for step in self._plan.steps if isinstance(step, FallbackSubgraph)}
        if models:
            from intact.graph import check_fallback

            for name, step in models.items():
                check_fallback(self._plan.constants[name].tobytes(), f"step '{step.name}'")

    def shapes(self, subgraph: Call | FallbackSubgraph, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of what a subgraph makes: as registered, or found by running it on zeros."""
        if isinstance(subgraph, Call):
            known = [shapes.get(n, self._plan.constants[n].shape if n in self._plan.constants else ())
                     for n in subgraph.xs]  # fmt: skip
            found = operator_of(subgraph).output_shapes(known)
            return {n: tuple(int(d) for d in shape) for n, shape in zip(subgraph.ys, found, strict=True)}
        zeros = {name: np.zeros(shapes[name], _dtype(self._plan.tensors[name])) for name in subgraph.xs}
        made = self._session(subgraph).run(zeros)
        return {name: made[name].shape for name in subgraph.ys}

    def _session(self, subgraph: FallbackSubgraph) -> Session:
        from intact.graph import Session, check_fallback  # plans without subgraphs run without ONNX

        if subgraph.model not in self._sessions:
            model = self._plan.constants[subgraph.model].tobytes()
            check_fallback(model, f"step '{subgraph.name}'")
            self._sessions[subgraph.model] = Session(model, threads=self._threads)
        return self._sessions[subgraph.model]


def _dtype(tensor: Tensor) -> str:
    """Of its elements in the graph."""
    return tensor.dtype if tensor.codes is None else "int8" if tensor.codes.signed else "uint8"

"""The parts of a plan that ONNX Runtime runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.steps import Stretch
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.graph import Session

Shape = tuple[int, ...]


class Stretches:
    """One session for each stretch of a plan, made when it is first needed.

    Args:
        plan: The plan.
        threads: Threads within one operator.
    """

    def __init__(self, plan: Plan, threads: int) -> None:
        self._plan, self._threads = plan, threads
        self._sessions: dict[str, Session] = {}

    def run(self, stretch: Stretch, at: Callable[[str], NDArray[Any]]) -> None:
        """Run a stretch; `at` gives the memory of a tensor, dense."""
        made = self._session(stretch).run({name: at(name) for name in stretch.xs})
        for name in stretch.ys:
            into = at(name)
            if made[name].shape != into.shape:
                raise QuantValueError(
                    f"tensor '{name}'",
                    f"shape {made[name].shape}",
                    f"{into.shape}: the shape must not depend on the values of the inputs",
                    "run this model in ONNX Runtime",
                )
            np.copyto(into, made[name])

    def shapes(self, stretch: Stretch, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of what a stretch makes, found by running it on zeros."""
        dtypes = {name: self._plan.tensors[name].dtype for name in stretch.xs}
        made = self._session(stretch).run({n: np.zeros(shapes[n], dtypes[n]) for n in stretch.xs})
        return {name: made[name].shape for name in stretch.ys}

    def _session(self, stretch: Stretch) -> Session:
        from intact.graph import Session  # plans without stretches run without ONNX

        if stretch.model not in self._sessions:
            model = self._plan.constants[stretch.model].tobytes()
            self._sessions[stretch.model] = Session(model, threads=self._threads)
        return self._sessions[stretch.model]

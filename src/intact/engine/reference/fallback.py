"""FallbackSessions: ONNX Runtime on one thread, with graph optimizations off."""

from __future__ import annotations

from intact.engine.reference.run import Run, Runner
from intact.engine.steps import FallbackSubgraph
from intact.graph import Session


def _subgraph(run: Run, step: FallbackSubgraph) -> None:
    session = Session(run.array(step.model).tobytes(), threads=1)
    made = session.run({name: run.array(name) for name in step.xs})
    for name in step.ys:
        run.bind(name, made[name])


RUNNERS: dict[str, Runner] = {"onnx": _subgraph}

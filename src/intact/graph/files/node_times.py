"""Measure how long ONNX Runtime takes for each node of a model."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.graph.files.io import to_bytes


def node_seconds(model: ir.Model, feeds: Mapping[str, NDArray], runs: int) -> dict[str, float]:
    """Measure the median seconds of each node, by name, without graph optimizations.

    Args:
        model: Not changed.
        feeds: The inputs by name.
        runs: Number of runs; one more warms up.
    Raises:
        UnsupportedError: ONNX Runtime cannot run the model.
    """
    import onnxruntime as ort  # slow to import

    with TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4  # as `Session`
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        try:
            session = ort.InferenceSession(to_bytes(model), options, providers=["CPUExecutionProvider"])
            for _ in range(runs + 1):
                session.run(None, dict(feeds))
        except Exception as error:  # ONNX Runtime's exceptions have no common public base
            raise UnsupportedError(
                "onnxruntime", f"'{str(error).strip()[:300]}'", "a model that it can run on the CPU",
                "look at the node that it names",
            ) from error  # fmt: skip
        events = json.loads(Path(session.end_profiling()).read_text())
    return _medians(events)


def _medians(events: list[dict[str, object]]) -> dict[str, float]:
    suffix = "_kernel_time"
    durations: dict[str, list[float]] = defaultdict(list)
    for event in events:
        name, microseconds = str(event.get("name", "")), event.get("dur")
        if event.get("cat") == "Node" and name.endswith(suffix) and isinstance(microseconds, int):
            durations[name.removesuffix(suffix)].append(microseconds * 1e-6)
    return {name: median(seconds[1:] or seconds) for name, seconds in durations.items()}

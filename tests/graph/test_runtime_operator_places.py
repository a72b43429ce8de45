"""ONNX Runtime's operators whose outputs other nodes read, wherever they stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.graph.runtime_operators import CASES, Case, model_of

import intact
from intact import graph

IN_OLD_RUNTIMES = {("experts", "main"): "answers zeros", ("packed queries", "Scan"): "wants a declared shape"}
"""Cases that ONNX Runtime 1.24 does not compute."""
LOOSE = {"LSTM": 1e-3, "sum of codes": 1, "softmax of codes": 1}
"""Cases that ONNX Runtime rounds in another way."""


def compare(case: Case, place: str, tolerance: float) -> None:
    """Compare an engine with the reference in every bit, and with ONNX Runtime."""
    name = next((name for name, each in CASES.items() if each is case), "")
    fault = IN_OLD_RUNTIMES.get((name, place), "")
    if fault and onnxruntime.__version__.startswith("1.24."):
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__} {fault}")
    model, feeds = model_of(case, place)
    data = model.SerializeToString()
    want = graph.Session(data, threads=1).run(feeds)
    outputs = intact.compile(data, threads=1).run(feeds)
    assert {name: (a.shape, a.dtype) for name, a in outputs.items()} == {
        name: (a.shape, a.dtype) for name, a in want.items()
    }
    for name, array in outputs.items():
        np.testing.assert_allclose(array.astype(np.float64), want[name].astype(np.float64), atol=tolerance)
    if place == "main":
        reference: dict[str, Any] = intact.compile(data, backend="reference").run(feeds)
        assert all(np.array_equal(array, reference[name]) for name, array in outputs.items())


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("name", CASES)
def test_every_output_is_read_in_the_main_graph(name: str) -> None:
    compare(CASES[name], "main", LOOSE.get(name, 1e-4))


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("name", CASES)
def test_every_output_is_read_in_a_loop(name: str) -> None:
    compare(CASES[name], "Loop", LOOSE.get(name, 1e-4))


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("place", ["If", "Scan"])
@pytest.mark.parametrize("name", ["packed queries", "root mean squares", "norm of a sum", "embeddings"])
def test_every_output_is_read_in_branches_and_scans(name: str, place: str) -> None:
    compare(CASES[name], place, 1e-4)


HALVES = (
    "queries, keys and values", "packed queries", "packed, no past", "norm of a sum", "root mean squares",
    "blocks of 4 bits", "rotation",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("name", HALVES)
def test_types_are_followed_in_float16(name: str) -> None:
    compare(CASES[name].in_halves, "main", 2e-2)

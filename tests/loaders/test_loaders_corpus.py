"""Files that were faults once: read again, and none may raise anything but an IntactError. See drive.py."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest
from tests.loaders import entries, seeds

FILES = sorted(path for path in seeds.CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_file_that_was_a_fault_is_read_or_refused(path: Path) -> None:
    entries.one(path.parent.name, path.read_bytes())


@pytest.mark.parametrize("kind", entries.ENTRIES)
def test_good_files_and_some_mutated_ones_are_read_or_refused(kind: str) -> None:
    if kind == "extreme" and onnxruntime.__version__.startswith("1.24."):
        pytest.skip("ONNX Runtime 1.24 ends its process on numbers that 1.32 refuses")
    for data in seeds.good(kind):
        entries.one(kind, data)
    for number in range(15):
        entries.one(kind, seeds.make(kind, number))


def test_the_same_number_makes_the_same_file() -> None:
    for kind in entries.ENTRIES:
        for number in range(3, 13):
            assert seeds.make(kind, number) == seeds.make(kind, number)
    assert len({seeds.make("trt", number) for number in range(20)}) > 10

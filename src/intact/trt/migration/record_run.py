"""Runs a script of TensorRT under the stand-in, and keeps what its int8 builds worked with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from intact.atomic import replacing
from intact.calib import TrtCache
from intact.errors import UnsupportedError
from intact.graph import Model, Source, save
from intact.standins import run_script
from intact.trt.alias import alias, standins
from intact.trt.building.build_observers import OBSERVERS
from intact.trt.migration.implicit_recipe import ImplicitRecipe

BATCHES, BATCH_BYTES = 8, 2**26
"""The most calibration batches that are kept for measuring, and their bytes together."""
_RECORD = "build{}.json"


@dataclass(frozen=True)
class RecordedBuild:
    """Holds one build with implicit int8.

    Attributes:
        recipe: What it was built from.
        is_parsed: Whether its network came from an ONNX file, and not from calls of the API.
        source: Path of that file, where the script named one.
    """

    recipe: ImplicitRecipe
    is_parsed: bool
    source: str = ""


class _Recorder:
    """Writes what it is told into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._parsed: Source | None = None
        self._batches, self._bytes = list[dict[str, NDArray]](), 0

    def on_parse(self, source: Source) -> None:
        self._parsed = source if isinstance(source, bytes) else str(Path(str(source)).resolve())

    def on_batch(self, feeds: Mapping[str, NDArray]) -> None:
        size = sum(array.nbytes for array in feeds.values())
        if len(self._batches) < BATCHES and self._bytes + size <= BATCH_BYTES:
            self._batches.append({name: array.copy() for name, array in feeds.items()})
            self._bytes += size

    def on_build(self, model: Model, cache: TrtCache, floats: Sequence[str]) -> None:
        name = f"build{self._count}"
        if isinstance(self._parsed, bytes):
            (self._folder / f"{name}.onnx").write_bytes(self._parsed)
        elif self._parsed is None:
            save(model, self._folder / f"{name}.onnx")
        cache.save(self._folder / f"{name}.cache")
        arrays = {f"{i}/{key}": a for i, feeds in enumerate(self._batches) for key, a in feeds.items()}
        np.savez(self._folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
        path = self._parsed if isinstance(self._parsed, str) else ""
        record = {"floats": list(floats), "parsed": self._parsed is not None, "path": path}
        with replacing(
            self._folder / _RECORD.format(self._count)
        ) as file:  # last: it says that all are there
            file.write(json.dumps(record).encode())
        self._count += 1
        self._parsed, self._batches, self._bytes = None, [], 0


def record(script: Path, arguments: Sequence[str], folder: Path) -> list[RecordedBuild]:
    """Run a script in a process of its own, which prints to standard error, and return its int8 builds.

    Args:
        script: The script. It is EXECUTED, with the stand-ins for TensorRT and CUDA.
        arguments: Of its command line.
        folder: An empty folder for what is recorded.
    Raises:
        UnsupportedError: It built nothing with implicit int8; has its exit status.
    """
    start = f"from {__name__} import record_script; record_script()"
    command = [sys.executable, "-c", start, str(folder), str(script), *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    status = subprocess.run(command, env=environment, stdout=sys.stderr.fileno(), check=False).returncode
    builds = list[RecordedBuild]()
    while (folder / _RECORD.format(len(builds))).is_file():
        builds.append(_read(folder, len(builds)))
    if not builds:
        how = "ended well" if status == 0 else f"ended with status {status}"
        raise UnsupportedError(
            f"script '{script}'", f"no build with implicit int8; it {how}",
            "a build with BuilderFlag.INT8 and a calibrator or dynamic ranges",
            "give it the arguments with which it calibrates, behind --",
        )  # fmt: skip
    return builds


def _read(folder: Path, number: int) -> RecordedBuild:
    content = json.loads((folder / _RECORD.format(number)).read_text())
    cache = TrtCache.load(folder / f"build{number}.cache")
    batches: dict[int, dict[str, NDArray]] = {}
    with np.load(folder / f"build{number}.npz", allow_pickle=False) as arrays:
        for key in arrays.files:
            index, _, name = key.partition("/")
            batches.setdefault(int(index), {})[name] = arrays[key]
    model: Source = content["path"] or (folder / f"build{number}.onnx").read_bytes()
    recipe = ImplicitRecipe(model, cache, "calibrator", tuple(content["floats"]), tuple(batches.values()))
    return RecordedBuild(recipe, content["parsed"], content["path"])


def _prepare() -> list[Path]:
    alias()
    return standins()


def record_script() -> None:
    """Run the script of this process's command line, ``FOLDER script.py [arguments]``, and record it."""
    OBSERVERS.append(_Recorder(Path(sys.argv.pop(1))))
    run_script("intact.trt", _prepare)

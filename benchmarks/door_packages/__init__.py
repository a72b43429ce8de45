"""Packages from PyPI that call onnxruntime and ship their weights, and what `door.py` does with each.

A work takes a seed and returns the package's result for an input drawn by it: a list of floats, of labels or
of words, or a text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Work = Callable[[int], Any]


@dataclass(frozen=True)
class Package:
    """Describes how a package is called.

    Attributes:
        requirements: What pip installs.
        task: What it does.
        prepare: Loads it, and returns its work.
    """

    requirements: str
    task: str
    prepare: Callable[[], Work]


PACKAGES: dict[str, Package] = {}
"""By the name that `door.py` prints."""


def package(name: str, requirements: str = "") -> Callable[[Callable[[], Work]], Callable[[], Work]]:
    """Add a function that loads a package; its docstring is the task."""

    def add(prepare: Callable[[], Work]) -> Callable[[], Work]:
        task = (prepare.__doc__ or "").partition("\n")[0].rstrip(".")
        PACKAGES[name] = Package(requirements or name, task, prepare)
        return prepare

    return add


from door_packages import images, science, sounds, texts  # noqa: E402, F401  they fill PACKAGES

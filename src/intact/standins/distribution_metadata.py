"""Provides distribution metadata for packages that INTact stands in for.

Libraries ask ``importlib.metadata.version("tensorrt")`` before they import it, and take a package without
metadata for one that is not installed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from typing import Any


class StandInDistribution(Distribution):
    """Provides the metadata of a package that a module of INTact stands in for.

    Args:
        name: The distribution's name, as PyPI has it.
        module: The name that scripts import.
        version: Says the version whenever somebody asks.
        is_active: Says whether `module` is INTact's in this process.
    """

    def __init__(
        self, name: str, module: str, version: Callable[[], str], is_active: Callable[[], bool]
    ) -> None:  # fmt: skip
        self._distribution, self._module = name, module
        self._current_version, self.is_active = version, is_active

    def read_text(self, filename: Any) -> str | None:
        """Return the text of METADATA or top_level.txt; None for other files."""
        if filename == "top_level.txt":
            return f"{self._module}\n"
        if filename != "METADATA":
            return None
        lines = (
            "Metadata-Version: 2.1",
            f"Name: {self._distribution}",
            f"Version: {self._current_version()}",
        )
        return "\n".join((*lines, f"Summary: INTact in place of {self._module}", ""))

    def locate_file(self, path: Any) -> Path:
        """Return `path`: the package has no files of its own."""
        return Path(path)

    def is_called(self, name: str) -> bool:
        """Return whether `name` means this distribution or its module: - and _ are the same."""
        return _normalize(name) in {_normalize(self._distribution), _normalize(self._module)}


class _Finder(DistributionFinder):
    """Finds the metadata of `_distributions`, and no modules."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return None

    def find_distributions(
        self, context: DistributionFinder.Context = DistributionFinder.Context()  # noqa: B008  as the base's
    ) -> Iterable[Distribution]:  # fmt: skip
        active = [d for d in _distributions if d.is_active()]
        return [d for d in active if context.name is None or d.is_called(context.name)]


_finder = _Finder()
_distributions: list[StandInDistribution] = []


def register_distribution(distribution: StandInDistribution) -> None:
    """Let `importlib.metadata` find a distribution, in front of one that is installed."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    name = distribution.metadata["Name"]
    _distributions[:] = [d for d in _distributions if d.metadata["Name"] != name]
    _distributions.append(distribution)


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

"""The ways that a machine can choose its kernels: environments, and choices for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from intact.kernels import kernel_list, kernels_in_use
from intact.kernels.registry import ISA_LEVELS


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def kernel_paths() -> tuple[dict[str, str], ...]:
    """Environments in which all kernels of this machine are chosen, each at least once; the default first."""
    requested: list[dict[str, str]] = [{}, *({"INTACT_MAX_ISA": level} for level in ISA_LEVELS)]
    with environment(INTACT_MAX_ISA="", INTACT_FORCE_KERNEL=""):
        here = [(k.family, k.name) for k in kernel_list() if k.available]
    families = {family: [name for f, name in here if f == family] for family, _ in here}
    for i in range(max(map(len, families.values()))):
        names = [kernels[min(i, len(kernels) - 1)] for kernels in families.values()]
        requested.append({"INTACT_FORCE_KERNEL": ",".join(names)})
    distinct: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for item in requested:
        with environment(**item):
            distinct.setdefault(tuple(sorted(kernels_in_use().items())), item)
    return tuple(distinct.values())

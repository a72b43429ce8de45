"""``intact kernels``: which native kernels this build has, and which of them run on this machine."""

from __future__ import annotations

import os

from rich.console import Console
from rich.table import Table

from intact import kernels

SWITCHES = ("INTACT_MAX_ISA", "INTACT_FORCE_KERNEL")


def run() -> None:
    """List the native kernels: what each needs, and which one was chosen here.

    Examples:

    - `intact kernels`
    - `INTACT_MAX_ISA=none intact kernels` shows what a machine without vector units would run
    """
    console = Console()
    console.print(_table())
    features = [name for name, present in kernels.cpu_features().items() if present]
    console.print(f"CPU features: {' '.join(features) or 'none that a kernel asks for'}", highlight=False)
    for kernel in filter(lambda kernel: kernel.refused, kernels.kernel_list()):
        instead = next(k.name for k in kernels.kernel_list() if k.family == kernel.family and k.chosen)
        console.print(
            f"{kernel.name}: the operating system does not grant {' '.join(kernel.needs)} to this process "
            f"(a signal stack may be too small); {instead} runs instead",
            highlight=False,
        )
    for name in SWITCHES:
        if name in os.environ:
            console.print(f"{name}={os.environ[name]}", highlight=False)


def _table() -> Table:
    table = Table(title="native kernels, best first in each family")
    for heading in ("family", "kernel", "needs", "available", "chosen"):
        table.add_column(heading, overflow="fold")
    for kernel in kernels.kernel_list():
        table.add_row(
            kernel.family,
            kernel.name,
            " ".join(kernel.needs) or "nothing",
            _state(kernel),
            "*" if kernel.chosen else "",
        )
    return table


def _state(kernel: kernels.Kernel) -> str:
    if not kernel.available:
        return "no"
    if kernel.refused:
        return "refused by the system"
    return "on request" if kernel.on_request else "yes"

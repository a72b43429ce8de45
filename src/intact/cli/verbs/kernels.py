"""``intact kernels`` lists the native kernels of this build, and those that run on this machine."""

from __future__ import annotations

import os

from intact import kernels
from intact.cli.printing import say, show_table

SWITCHES = ("INTACT_MAX_ISA", "INTACT_FORCE_KERNEL")


def run() -> None:
    """List the native kernels: what each needs, and which one was chosen here.

    Examples:

    - `intact kernels`
    - `INTACT_MAX_ISA=none intact kernels` shows what a machine without vector units would run
    """
    columns = ("family", "kernel", "needs", "available", "chosen")
    rows = [
        (
            kernel_entry.family,
            kernel_entry.name,
            " ".join(kernel_entry.needs) or "nothing",
            _state(kernel_entry),
            "*" if kernel_entry.chosen else "",
        )
        for kernel_entry in kernels.kernel_list()
    ]
    show_table("native kernels, best first in each family", columns, rows)
    features = [name for name, present in kernels.cpu_features().items() if present]
    say(f"CPU features: {' '.join(features) or 'none that a kernel asks for'}")
    for kernel in filter(lambda kernel: kernel.refused, kernels.kernel_list()):
        instead = next(k.name for k in kernels.kernel_list() if k.family == kernel.family and k.chosen)
        say(
            f"{kernel.name}: the operating system does not grant {' '.join(kernel.needs)} to this process "
            f"(a signal stack may be too small); {instead} runs instead"
        )
    for name in SWITCHES:
        if name in os.environ:
            say(f"{name}={os.environ[name]}")


def _state(kernel: kernels.Kernel) -> str:
    if not kernel.available:
        return "no"
    return "refused by the system" if kernel.refused else "yes"

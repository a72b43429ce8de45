"""Which kernels this build has, which of them this machine runs, and which one is chosen.

The best available kernel of each family is taken, unless the environment says otherwise:

    INTACT_MAX_ISA=none|avx2|avxvnni|avx512|amx|neon   use nothing above this instruction set
    INTACT_FORCE_KERNEL=<name>[,<name>]    use these kernels in their families

What an operating system hands out when it is asked (AMX's tiles: not to a process with a small signal stack)
it may refuse: then the next kernel of the family runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from intact._version import __version__
from intact.errors import QuantValueError
from intact.kernels import _native
from intact.timings import processor

ISA_LEVELS: dict[str, frozenset[str]] = {
    "none": frozenset(),
    "avx2": frozenset({"avx2", "f16c", "fma"}),
    "avxvnni": frozenset({"avx2", "f16c", "fma", "avxvnni"}),
    "avx512": frozenset({"avx2", "f16c", "fma", "avxvnni", "avx512", "vnni"}),
    "amx": frozenset({"avx2", "f16c", "fma", "avxvnni", "avx512", "vnni", "amx"}),
    "neon": frozenset({"neon", "dotprod"}),
}
"""Values of INTACT_MAX_ISA and the CPU features that each one permits."""


@dataclass(frozen=True)
class Kernel:
    """One native kernel.

    Attributes:
        family: What it computes; all kernels of a family give the same bits.
        name: Unique in the build; what INTACT_FORCE_KERNEL takes.
        needs: CPU features that it uses, names of `cpu_features`.
        available: This machine has them, and INTACT_MAX_ISA permits them.
        chosen: Calls use it.
        refused: It could, but for the operating system, which does not grant what it needs.
    """

    family: str
    name: str
    needs: tuple[str, ...]
    available: bool
    chosen: bool
    refused: bool = False


def cpu_features() -> dict[str, bool]:
    """What this machine's processor and operating system offer, by name."""
    return _native.cpu_features()


def kernel_list() -> list[Kernel]:
    """Every kernel of the build, family by family, best first.

    Raises:
        QuantValueError: INTACT_MAX_ISA or INTACT_FORCE_KERNEL has a value that cannot be met.
    """
    max_isa, forced = _environment()
    chosen = _choices(max_isa, forced)
    return [
        Kernel(
            family,
            name,
            tuple(needs),
            runs,
            chosen[family] == name,
            runs and not _granted(needs),
        )
        for family, name, needs, runs in _available(max_isa)
    ]


def chosen_kernels() -> dict[str, str]:
    """The kernel that calls of each family use now. The environment is read at every call."""
    return _choices(*_environment())


def instructions(family: str, max_isa: str = "") -> str:
    """The CPU features that the chosen kernel of a family needs, as words; "none" for plain C++.

    Args:
        family: Of kernels, such as "gemm".
        max_isa: Use nothing above this, a key of `ISA_LEVELS`; by default what INTACT_MAX_ISA says.
    """
    limit, forced = _environment()
    name = _choices(max_isa or limit, forced)[family]
    needs = next(needs for _, kernel, needs, _ in _native.kernels() if kernel == name)
    return " ".join(needs) or "none"


def alternatives(family: str, *, forced: bool = True) -> tuple[str, ...]:
    """The kernels of a family that could run here, best first: one where it was forced, or plain C++.

    Args:
        family: Of kernels, such as "gemm".
        forced: False to ask as if none were forced: for steps that the forced one cannot do.
    """
    limit, names = _environment()
    return _alternatives(family, limit, names if forced else "")


@lru_cache
def _alternatives(family: str, max_isa: str, forced: str) -> tuple[str, ...]:
    chosen = _choices(max_isa, forced)[family]
    if chosen in _names(forced):
        return (chosen,)
    rows = [(name, needs) for of, name, needs, runs in _available(max_isa) if of == family and runs and needs]
    return tuple(name for name, needs in rows if _granted(needs)) or (chosen,)


def machine() -> str:
    """What timings are kept under: the processor, what INTACT_MAX_ISA permits of it, our version."""
    limit, _ = _environment()
    permitted = ISA_LEVELS[limit] if limit in ISA_LEVELS else cpu_features().keys()
    has = [name for name, there in cpu_features().items() if there and name in permitted]
    return f"{processor()}, {os.cpu_count()} cores, {' '.join(has) or 'none'}, intact {__version__}"


def _environment() -> tuple[str, str]:
    return os.environ.get("INTACT_MAX_ISA", ""), os.environ.get("INTACT_FORCE_KERNEL", "")


@lru_cache
def _available(max_isa: str) -> list[tuple[str, str, list[str], bool]]:
    if max_isa and max_isa not in ISA_LEVELS:
        raise QuantValueError(
            "INTACT_MAX_ISA",
            repr(max_isa),
            f"one of {', '.join(ISA_LEVELS)}",
            "set it to one of these, or unset it to use all that the machine has",
        )
    return [
        (family, name, needs, runs and (not max_isa or ISA_LEVELS[max_isa].issuperset(needs)))
        for family, name, needs, runs in _native.kernels()
    ]


def _names(forced: str) -> list[str]:
    return [name for part in forced.split(",") if (name := part.strip())]


def _granted(needs: Sequence[str]) -> bool:
    """Whether the operating system hands out what it is to be asked for. It is asked once."""
    return _native.acquire(list(needs))


@lru_cache
def _choices(max_isa: str, forced: str) -> dict[str, str]:
    return choose(_available(max_isa), _names(forced), _granted)


def choose(
    rows: Iterable[tuple[str, str, Sequence[str], bool]],
    forced: Sequence[str],
    granted: Callable[[Sequence[str]], bool],
) -> dict[str, str]:
    """The kernel of each family.

    Args:
        rows: (family, kernel, the features that it needs, whether the machine has them), best first.
        forced: Kernels to be taken in their families.
        granted: Whether the operating system grants features: asked for what would be chosen alone.
    Raises:
        QuantValueError: A forced kernel does not run on this machine.
    """
    runnable = [(family, name, needs) for family, name, needs, runs in rows if runs]
    family_of = {name: family for family, name, _ in runnable}
    for wanted in forced:
        if wanted not in family_of:
            raise QuantValueError(
                "INTACT_FORCE_KERNEL",
                repr(wanted),
                f"one of {', '.join(family_of)}",
                "name a kernel that this machine has; `intact kernels` lists them",
            )
    needs_of = {name: needs for _, name, needs in runnable}
    chosen = {family_of[name]: name for name in forced if granted(needs_of[name])}
    for family, name, needs in runnable:
        if family not in chosen and granted(needs):
            chosen[family] = name
    return chosen


Kernels = Mapping[str, str]
"""The kernel of each family."""


def kernels_or_chosen(kernels: Kernels | None) -> Kernels:
    """`kernels`, or where none are given those that are chosen now."""
    return chosen_kernels() if kernels is None else kernels

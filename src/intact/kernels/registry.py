"""The kernels of this build, those that this machine runs, and those that are chosen.

The best available kernel of each family is chosen, unless the environment says otherwise:

    INTACT_MAX_ISA=none|avx2|avxvnni|avx512|amx|neon   use nothing above this instruction set
    INTACT_FORCE_KERNEL=<name>[,<name>]    use these kernels in their families

The operating system grants AMX on demand, and may refuse it, as to a process with a small signal stack. Then
the next kernel of the family runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
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
        family: The name of its family; all kernels of a family give the same bits.
        name: A name that is unique in the build, for INTACT_FORCE_KERNEL.
        needs: The CPU features that it uses, names of `cpu_features`.
        available: The machine has these features, and INTACT_MAX_ISA permits them.
        chosen: Calls use this kernel.
        refused: The processor has the features, but the operating system does not grant them.
    """

    family: str
    name: str
    needs: tuple[str, ...]
    available: bool
    chosen: bool
    refused: bool = False


def cpu_features() -> dict[str, bool]:
    """Return the features of the processor that the operating system supports, by name."""
    return _native.cpu_features()


def kernel_list() -> list[Kernel]:
    """List every kernel of the build, family by family, best first.

    Raises:
        QuantValueError: INTACT_MAX_ISA or INTACT_FORCE_KERNEL has an unknown value.
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
            runs and not _acquire(needs),
        )
        for family, name, needs, runs in _available(max_isa)
    ]


def kernels_in_use() -> dict[str, str]:
    """Return the kernel of each family that calls use now. The environment is read at every call."""
    return _choices(*_environment())


def instructions(family: str, max_isa: str = "") -> str:
    """Return the CPU features that the chosen kernel of a family needs, as text; "none" for plain C++.

    Args:
        family: A family of kernels, such as "gemm".
        max_isa: Use nothing above this, a key of `ISA_LEVELS`; INTACT_MAX_ISA by default.
    """
    limit, forced = _environment()
    name = _choices(max_isa or limit, forced)[family]
    needs = next(needs for _, kernel, needs, _ in _native.kernels() if kernel == name)
    return " ".join(needs) or "none"


def alternatives(family: str, *, forced: bool = True) -> tuple[str, ...]:
    """List the kernels of a family that can run here, best first; only one if it is forced or plain C++.

    Args:
        family: A family of kernels, such as "gemm".
        forced: False to ignore INTACT_FORCE_KERNEL, for steps that the forced kernel lacks.
    """
    limit, names = _environment()
    return _alternatives(family, limit, names if forced else "")


@lru_cache
def _alternatives(family: str, max_isa: str, forced: str) -> tuple[str, ...]:
    chosen = _choices(max_isa, forced)[family]
    if chosen in _names(forced):
        return (chosen,)
    rows = [(name, needs) for of, name, needs, runs in _available(max_isa) if of == family and runs and needs]
    return tuple(name for name, needs in rows if _acquire(needs)) or (chosen,)


def machine() -> str:
    """Return the key of stored timings: processor, cores, permitted features, and version of INTact."""
    limit, _ = _environment()
    return _machine(limit)


@lru_cache  # the count of processors alone takes 30 microseconds, and every binding asks
def _machine(limit: str) -> str:
    permitted = ISA_LEVELS[limit] if limit in ISA_LEVELS else cpu_features().keys()
    features = [name for name, exists in cpu_features().items() if exists and name in permitted]
    return f"{processor()}, {os.cpu_count()} cores, {' '.join(features) or 'none'}, intact {__version__}"


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


def _acquire(needs: Sequence[str]) -> bool:
    """Request features that the operating system grants on demand (AMX), once. Returns whether it did."""
    return _native.acquire(list(needs))


@lru_cache
def _choices(max_isa: str, forced: str) -> dict[str, str]:
    return choose(_available(max_isa), _names(forced), _acquire)


def choose(
    rows: Iterable[tuple[str, str, Sequence[str], bool]],
    forced: Sequence[str],
    granted: Callable[[Sequence[str]], bool],
) -> dict[str, str]:
    """Choose the kernel of each family.

    Args:
        rows: (family, kernel, the features that it needs, whether the machine has them), best first.
        forced: Kernels to choose in their families.
        granted: Whether the operating system grants features. It is called only for kernels that would be
            chosen.
    Raises:
        QuantValueError: A forced kernel does not run on this machine.
    """
    runnable = [(family, name, needs) for family, name, needs, runs in rows if runs]
    family_of = {name: family for family, name, _ in runnable}
    for forced_name in forced:
        if forced_name not in family_of:
            raise QuantValueError(
                "INTACT_FORCE_KERNEL",
                repr(forced_name),
                f"one of {', '.join(family_of)}",
                "name a kernel that this machine has; `intact kernels` lists them",
            )
    needs_of = {name: needs for _, name, needs in runnable}
    chosen = {family_of[name]: name for name in forced if granted(needs_of[name])}
    for family, name, needs in runnable:
        if family not in chosen and granted(needs):
            chosen[family] = name
    return chosen

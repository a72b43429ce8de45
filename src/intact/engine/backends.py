"""List the backends by name. A new backend needs a line here and its own package."""

from __future__ import annotations

from collections.abc import Callable

from intact.engine.backend import Backend, Options
from intact.engine.cpu import CpuBackend
from intact.engine.reference import ReferenceBackend
from intact.errors import QuantValueError

BACKENDS: dict[str, Callable[[Options], Backend]] = {"cpu": CpuBackend, "reference": ReferenceBackend}


def make_backend(wanted: str | Callable[[Options], Backend], options: Options) -> Backend:
    """Make the backend of that name, or call the given function.

    Raises:
        QuantValueError: There is none of that name.
    """
    if callable(wanted):
        return wanted(options)
    if wanted not in BACKENDS:
        raise QuantValueError("backend", repr(wanted), " or ".join(map(repr, BACKENDS)), "name one of them")
    return BACKENDS[wanted](options)

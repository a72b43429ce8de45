"""Errors whose builtin type the old library documents and `intact.errors` has no child for."""

from __future__ import annotations

from intact.errors import UnsupportedError


class NotOfferedError(UnsupportedError, NotImplementedError):
    """Something that the library whose vocabulary we speak refuses with NotImplementedError."""

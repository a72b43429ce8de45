"""Declares the C library's structs, statuses and functions for ctypes, as include/intact.h has them."""

from __future__ import annotations

import ctypes as c
import os
from typing import Any

MAX_RANK = 6
"""The most axes of a tensor."""

(
    OK, BAD_ARGUMENT, NO_FILE, BAD_FILE, UNSUPPORTED, BAD_SHAPE, BAD_INDEX, NO_MEMORY, NOT_PREPARED, INTERNAL,
    CANCELLED, DIFFERENT,
) = range(12)  # fmt: skip

DTYPES = (
    "uint8", "int8", "bool", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64",
    "float64",
)  # fmt: skip
"""NumPy's names of `intact_type`, in its order."""


class CErrorText(c.Structure):
    """Holds an `intact_error`."""

    _fields_ = [("size", c.c_size_t), ("status", c.c_int), ("text", c.c_char * 1000)]


CPiece = c.CFUNCTYPE(None, c.c_void_p, c.c_int32)
CParallelFor = c.CFUNCTYPE(None, c.c_void_p, CPiece, c.c_void_p, c.c_int32)


class COptions(c.Structure):
    """Holds an `intact_options`."""

    _fields_ = [
        ("size", c.c_size_t), ("threads", c.c_int32), ("max_isa", c.c_char_p), ("parallel_for", CParallelFor),
        ("pool", c.c_void_p),
    ]  # fmt: skip


class CPort(c.Structure):
    """Holds an `intact_port`."""

    _fields_ = [
        ("size", c.c_size_t), ("name", c.c_char_p), ("type", c.c_int), ("rank", c.c_int32),
        ("shape", c.c_int64 * MAX_RANK), ("dimension", c.c_char_p * MAX_RANK), ("is_codes", c.c_int32),
        ("scale", c.c_float), ("zero_point", c.c_int32),
    ]  # fmt: skip


class CShape(c.Structure):
    """Holds an `intact_shape`."""

    _fields_ = [("rank", c.c_int32), ("sizes", c.c_int64 * MAX_RANK)]


class CMemory(c.Structure):
    """Holds an `intact_memory`."""

    _fields_ = [("size", c.c_size_t), ("workspace", c.c_size_t), ("binding", c.c_size_t)]


class CStep(c.Structure):
    """Holds an `intact_step`."""

    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("kind", c.c_char_p), ("kernel", c.c_char_p)]


def load_library(path: str | os.PathLike[str]) -> c.CDLL:
    """Load the C library, and give its functions their types.

    Args:
        path: The shared library.

    Returns:
        The library; functions with an `intact_error` return an `intact_status`.

    Raises:
        OSError: It does not load.
    """
    library = c.CDLL(os.fspath(path))
    plan, session, index, error = c.c_void_p, c.c_void_p, c.c_size_t, c.POINTER(CErrorText)
    arrays, options = c.POINTER(c.c_void_p), c.POINTER(COptions)
    arguments: dict[str, list[Any]] = {
        "open": [c.c_char_p, options, c.POINTER(plan), error],
        "open_memory": [c.c_void_p, c.c_size_t, options, c.POINTER(plan), error],
        "input": [plan, index, c.POINTER(CPort), error],
        "output": [plan, index, c.POINTER(CPort), error],
        "session_new": [plan, c.POINTER(session), error],
        "prepare": [session, c.POINTER(CShape), error],
        "prepare_in": [session, c.POINTER(CShape), c.c_void_p, c.c_size_t, error],
        "workspace_size": [session, c.POINTER(CShape), c.POINTER(CMemory), error],
        "output_shape": [session, index, c.POINTER(CShape), error],
        "run": [session, arrays, arrays, error],
        "profile": [session, arrays, arrays, c.POINTER(c.c_double), c.c_size_t, error],
        "step_at": [session, index, c.POINTER(CStep), error],
        "set_input_strides": [session, index, c.POINTER(c.c_int64), c.c_size_t, error],
        "set_output_strides": [session, index, c.POINTER(c.c_int64), c.c_size_t, error],
        "set_input_type": [session, index, c.c_int, error],
        "set_output_type": [session, index, c.c_int, error],
        "selftest": [plan, error],
    }
    for name, types in arguments.items():
        getattr(library, f"intact_{name}").argtypes = types
    for name in ("input_count", "output_count", "workspace_bytes", "step_count"):
        getattr(library, f"intact_{name}").argtypes = [c.c_void_p]
        getattr(library, f"intact_{name}").restype = c.c_size_t
    for name in ("close", "session_free", "cancel"):
        getattr(library, f"intact_{name}").argtypes = [c.c_void_p]
        getattr(library, f"intact_{name}").restype = None
    library.intact_version.restype = c.c_char_p
    return library

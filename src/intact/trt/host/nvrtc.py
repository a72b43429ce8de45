"""``cuda.bindings.nvrtc``, the compiler of CUDA kernels: importable, and it compiles none."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class nvrtcResult(IntEnum):
    """The compiler's errors, as far as they occur."""

    NVRTC_SUCCESS = 0
    NVRTC_ERROR_COMPILATION = 6


def nvrtcVersion() -> tuple[nvrtcResult, int, int]:
    """Return the version of CUDA 12.0, whose names these are."""
    return nvrtcResult.NVRTC_SUCCESS, 12, 0


def nvrtcCreateProgram(*_: Any) -> tuple[nvrtcResult, int]:
    """Return an error: kernels for GPUs are not compiled."""
    return nvrtcResult.NVRTC_ERROR_COMPILATION, 0


def nvrtcGetErrorString(error: Any) -> tuple[nvrtcResult, bytes]:
    """Describe the error in words."""
    words = b"no error" if error == 0 else b"there is no GPU: kernels are not compiled (intact.trt)"
    return nvrtcResult.NVRTC_SUCCESS, words

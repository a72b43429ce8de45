"""Record only the user's stack frames with each call of a trace.

torch.export reads all frames and their lines of code, and most of them are its own. That takes a tenth of the
time of `quantize`. Errors name only the user's innermost line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, StackSummary
from types import FrameType
from typing import Any

import torch

from intact._installation import PACKAGE_FOLDER
from intact.torch.private_torch import CAPTURED_TRACEBACK

__all__ = ["NOT_THE_USERS", "OURS", "user_frames"]

OURS = str(PACKAGE_FOLDER)
"""The folder of this package."""

NOT_THE_USERS = (str(Path(torch.__file__).parent), OURS)
"""Folders of torch and of this package."""


class _UserFrames:
    """Replaces torch's `CapturedTraceback`, and holds only the frames that call torch."""

    def __init__(self, frames: list[FrameSummary]) -> None:
        self._frames = frames

    @classmethod
    def extract(cls, **_: Any) -> _UserFrames:
        frames = list[FrameSummary]()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(NOT_THE_USERS):
                frames.append(FrameSummary(code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return cls(frames[::-1])

    def summary(self) -> StackSummary:
        return StackSummary.from_list(self._frames)


@contextmanager
def user_frames() -> Iterator[None]:
    """Make traces record only the user's frames inside the context."""
    with CAPTURED_TRACEBACK.wrapping(lambda original: _UserFrames):
        yield

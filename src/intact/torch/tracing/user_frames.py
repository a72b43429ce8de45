"""Note with each call of a trace only those frames of its stack that are the user's.

torch.export reads all frames, most of which are its own, and the lines of code in them. That takes a tenth of
the time of `quantize`; errors name the user's innermost line alone.
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
from torch.fx import proxy

from intact._installation import PACKAGE_FOLDER

__all__ = ["NOT_THE_USERS", "OURS", "user_frames"]

OURS = str(PACKAGE_FOLDER)
"""Where the files of this package lie."""

NOT_THE_USERS = (str(Path(torch.__file__).parent), OURS)
"""Where those of torch lie, too."""


class _UserFrames:
    """In place of torch's `CapturedTraceback`: the frames of those who call torch."""

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
    """While it is open, traces note the user's frames alone."""
    known = getattr(proxy, "CapturedTraceback", None)
    if known is None:
        yield
        return
    setattr(proxy, "CapturedTraceback", _UserFrames)  # noqa: B010  # mypy: it is a class
    try:
        yield
    finally:
        setattr(proxy, "CapturedTraceback", known)  # noqa: B010

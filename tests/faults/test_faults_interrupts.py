"""Ctrl-C, or no memory, at every step that Python itself makes in a save."""

from __future__ import annotations

import dis
import gc
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from intact import atomic
from intact.atomic import replacing, together

CHECKED = (
    "RESUME",
    "JUMP_BACKWARD",
    "CALL",
    "PRECALL",
    "CALL_FUNCTION_EX",
    "BEFORE_WITH",
    "FOR_ITER",
    "SEND",
)
"""Instructions at which the interpreter looks for signals, and a few more: others run to their end."""
FILES = {atomic.__file__, sys.modules["contextlib"].__file__}


def _one(folder: Path) -> None:
    with replacing(folder / "a") as file:
        file.write(b"new a")


def _two(folder: Path) -> None:
    with together():
        _one(folder)
        with replacing(folder / "b") as file:
            file.write(b"new b")


@cache
def offsets_of_checks(code: CodeType) -> frozenset[int]:
    """Return the offsets in a function of the instructions in `CHECKED`."""
    return frozenset(i.offset for i in dis.get_instructions(code) if i.opname in CHECKED)


class Interrupting:
    """A tracer that raises at instruction number `at` of the files above; counts them."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self.at, self.error, self.seen = at, error, 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in offsets_of_checks(frame.f_code):
            self.seen += 1
            if self.seen - 1 == self.at:
                raise self.error
        return self


def save_interrupted(save: Callable[[Path], None], folder: Path, at: int, error: type[BaseException]) -> int:
    """Save with an error at instruction `at`; how many instructions there were."""
    tracer, before = Interrupting(at, error), sys.gettrace()
    sys.settrace(tracer)
    try:
        save(folder)
    except error:
        pass
    finally:
        sys.settrace(before)
    gc.collect(0)
    return tracer.seen


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("there", [True, False], ids=["over old", "new"])
@pytest.mark.parametrize("save", [_one, _two], ids=["one file", "two files"])
def test_an_interrupt_anywhere_leaves_all_old_or_all_new(
    save: Callable[[Path], None], there: bool, error: type[BaseException], way: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    old = {"a": b"old a", "b": b"old b"} if there else {}
    new = {**old, "a": b"new a"} | ({"b": b"new b"} if save is _two else {})
    count = save_interrupted(save, tmp_path, -1, error)
    assert count > 100
    for at in range(count):
        for path in tmp_path.iterdir():
            path.unlink()
        for name, data in old.items():
            (tmp_path / name).write_bytes(data)
        save_interrupted(save, tmp_path, at, error)
        result = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert result in (old, new), f"instruction {at} of {count}"

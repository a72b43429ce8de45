"""Every call that a save makes of the system fails in turn, in everything that writes."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from intact.errors import FileAccessError

FAULTS: dict[str, Any] = {
    "full": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "broken": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "forbidden": lambda: PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    "memory": MemoryError,
    "interrupt": KeyboardInterrupt,
}
SURVIVED = ("open", "link", "fsync")
"""Calls for which there is another way, and the sync of a folder."""


@pytest.mark.parametrize("there", [True, False], ids=["over old", "new"])
def test_every_call_that_fails_leaves_the_old_file_or_the_new_one(
    writer: SimpleNamespace, there: bool, request: pytest.FixtureRequest
) -> None:
    """Nothing else is left over; the system's errors become ours and name the file, and leave the old one."""
    faults = request.getfixturevalue("faults")
    start = writer.old if there else {}
    writer.reset(start)
    faults.arm(-1)
    writer.write()
    calls = list(faults.calls)
    assert writer.content() == writer.new
    assert {"stat", "open", "write", "fsync"} <= set(calls)
    for kind, error in FAULTS.items():
        for number, call in enumerate(calls):
            writer.reset(start)
            faults.arm(number, error())
            raised: BaseException | None = None
            try:
                writer.write()
            except BaseException as caught:
                raised = caught
            faults.arm(-1)
            result, where = writer.content(), (f"{kind} in call {number} of {calls}", raised)
            if raised is None:
                assert isinstance(error(), OSError) and call in SURVIVED and result == writer.new, where
            elif isinstance(error(), OSError):
                assert result == start, where
                assert isinstance(raised, FileAccessError) and "folder/model" in raised.where, where
            else:
                assert result in (start, writer.new) and type(raised) is type(error()), where

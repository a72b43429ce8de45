"""Streams that the caller closed: a verb does its work all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of Unix")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_verb_works_whichever_streams_are_closed(closed: str) -> None:
    command = f'"{sys.executable}" -m intact kernels {closed}'
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert bool(ran.stdout) == (not closed.startswith(">&-"))

"""A limited process stands code that aborts, hangs or grows, and its parent says so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from intact.errors import FileFormatError, QuantValueError
from intact.processes import LimitedWorker

HERE = "tests.processes.misbehave"


@pytest.fixture(scope="module")
def worker() -> Iterator[LimitedWorker]:
    limited = LimitedWorker()
    yield limited
    limited.stop()


def test_it_returns_what_a_function_returns(worker: LimitedWorker) -> None:
    assert worker.call("number", f"{HERE}:add_one", x=2) == 3


@pytest.mark.parametrize("fault", ["abort", "sleep", "grow", "stumble"])
def test_a_fault_is_of_the_file_and_the_next_call_works(worker: LimitedWorker, fault: str) -> None:
    with pytest.raises(FileFormatError, match="file 'x'"):
        worker.call("file 'x'", f"{HERE}:{fault}", seconds=1)
    assert worker.call("number", f"{HERE}:add_one", x=2) == 3


def test_errors_of_intact_come_as_they_are(worker: LimitedWorker) -> None:
    with pytest.raises(QuantValueError, match="correct it"):
        worker.call("file 'x'", f"{HERE}:refuse")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_starts_a_process_of_its_own(worker: LimitedWorker) -> None:
    assert worker.call("number", f"{HERE}:add_one", x=1) == 2
    child = os.fork()
    if child == 0:
        os._exit(0 if worker.call("number", f"{HERE}:add_one", x=3) == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert worker.call("number", f"{HERE}:add_one", x=5) == 6

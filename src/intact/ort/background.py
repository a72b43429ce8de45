"""Threads for work behind a program's back: trials and guards. They end with the program."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from intact.processes import renew_in_child

_EXIT_SECONDS = 5.0
_MOST_CHECKS = 4
LOWEST_PRIORITY = 19


class Background:
    """Runs functions in daemon threads of low priority.

    Trials run one after the other, as do checks of guards; what would have to wait behind `_MOST_CHECKS`
    checks is left out. In a child of a fork nothing runs: ONNX Runtime's own threads are missing there.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._queues: dict[str, list[Callable[[], None]]] = {"trial": [], "check": []}
        self._threads: dict[str, threading.Thread] = {}
        self._busy = 0
        self._stops: list[Callable[[], None]] = []
        self.is_stopped = False
        self.is_child = False
        self.stopping = threading.Event()
        renew_in_child(self)
        atexit.register(self.stop)

    def after_fork(self) -> None:
        """Forget the threads and processes of the parent."""
        self._condition, self.stopping = threading.Condition(), threading.Event()
        self._queues, self._threads, self._stops = {"trial": [], "check": []}, {}, []
        self._busy, self.is_child = 0, True

    def submit(self, kind: str, work: Callable[[], None]) -> bool:
        """Run `work` soon; return False where it never will.

        Args:
            kind: "trial" or "check".
            work: It raises nothing.
        """
        with self._condition:
            queue = self._queues[kind]
            if self.is_stopped or self.is_child or (kind == "check" and len(queue) >= _MOST_CHECKS):
                return False
            queue.append(work)
            self._busy += 1
            thread = self._threads.get(kind)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(
                    target=self._work, args=(kind,), name=f"intact.ort {kind}", daemon=True
                )
                self._threads[kind] = thread
                thread.start()
            self._condition.notify_all()
        return True

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is left to do; return whether that came to pass in time."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._busy, seconds)

    def stop_later(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the program ends, unless `forget` comes first."""
        with self._condition:
            self._stops.append(stop)

    def forget(self, stop: Callable[[], None]) -> None:
        """Do not call `stop`."""
        with self._condition:
            if stop in self._stops:
                self._stops.remove(stop)

    def stop(self) -> None:
        """End everything: what runs now is stopped, what waits never runs."""
        with self._condition:
            self.is_stopped = True
            stops, self._stops = self._stops, []
            for queue in self._queues.values():
                self._busy -= len(queue)
                queue.clear()
            self._condition.notify_all()
            threads = list(self._threads.values())
        self.stopping.set()
        for stop in stops:
            with suppress(Exception):
                stop()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(_EXIT_SECONDS)

    def _work(self, kind: str) -> None:
        _lower_priority()
        queue = self._queues[kind]
        while True:
            with self._condition:
                self._condition.wait_for(lambda: bool(queue) or self.is_stopped)
                if self.is_stopped:
                    return
                work = queue.pop(0)
            try:
                work()
            except BaseException as error:  # SystemExit, too: nobody would miss a thread that ends here
                report_fault(error)
            finally:
                del work
                with self._condition:
                    self._busy -= 1
                    self._condition.notify_all()


faults: list[str] = []
"""Errors of INTact that no model is to blame for; ``INTACT_ORT=verbose`` shows them at the end."""


def report_fault(error: BaseException) -> None:
    """Keep an error for the end of the program."""
    if len(faults) < 100:
        faults.append(f"{type(error).__name__}: {error}"[:500])


def _lower_priority() -> None:
    """Give this thread the lowest priority, where the system has priorities of threads."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


background = Background()
"""Of this process."""

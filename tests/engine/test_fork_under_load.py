"""A child of fork runs what the parent ran, whatever other threads held when it was forked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import pytest

from intact.engine.lru_cache import Recent
from intact.kernels.pages import Pages
from intact.processes import cached_property

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def exit_code_of_fork(action: Callable[[], bool]) -> int:
    """Fork while another thread holds what `action` needs; 0: the child ran it within 20 seconds."""
    import signal

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if action() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Holder:
    """Holds a lock in a thread of its own."""

    def __init__(self, acquire: Callable[[], object]) -> None:
        self._held, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(acquire,))

    def _hold(self, acquire: Callable[[], object]) -> None:
        acquire()
        self._held.set()
        self._done.wait()

    def __enter__(self) -> None:
        self._thread.start()
        self._held.wait()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def test_a_cache_whose_lock_a_thread_holds_is_read_in_the_child() -> None:
    cache: Recent[int] = Recent()
    cache.put((1,), 5)
    with Holder(cache._lock.acquire):
        assert exit_code_of_fork(lambda: cache.get((1,), int) == 5 and cache.get((2,), int) == 0) == 0
    cache._lock.release()
    assert cache.get((1,), lambda: 0) == 5


def test_pages_whose_lock_a_thread_holds_are_given_in_the_child() -> None:
    import numpy as np

    pages, data = Pages(), np.arange(9, dtype=np.uint8)
    with Holder(pages._lock.acquire):
        assert exit_code_of_fork(lambda: bool((pages.copy(data) == data).all())) == 0
    pages._lock.release()


def test_a_property_that_a_thread_computes_is_computed_in_the_child() -> None:
    computing, go_on = threading.Event(), threading.Event()

    class Slow:
        is_slow = True

        @cached_property
        def number(self) -> int:
            if self.is_slow:
                computing.set()
                go_on.wait()
            return 3

    thread = threading.Thread(target=lambda: Slow().number)
    thread.start()
    computing.wait()

    def fast() -> bool:
        Slow.is_slow = False
        return Slow().number == 3

    assert exit_code_of_fork(fast) == 0
    go_on.set()
    thread.join()


UNDER_LOAD = """
import os, signal, threading, warnings
import numpy as np, onnx, intact
warnings.simplefilter("ignore")
text = '<ir_version: 8, opset_import: ["" : 17]> net (float[n, 8] x) => (float[n, 8] y) { y = %s }'
for node, threads in (("Relu(x)", 1), ("Relu(x)", 2), ("Hardmax<axis = 1>(x)", 2)):
    engine = intact.compile(onnx.parser.parse_model(text % node).SerializeToString(), threads=threads)
    xs = [np.random.default_rng(k).normal(size=(k, 8)).astype(np.float32) for k in (1, 2, 5)]
    want = [engine(x).tobytes() for x in xs]
    stop = False
    def work(i):
        while not stop:
            assert engine(xs[i % 3]).tobytes() == want[i % 3]
    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for each in workers: each.start()
    for k in range(6):
        child = os.fork()
        if not child:
            signal.alarm(30)
            os._exit(engine(xs[k % 3]).tobytes() != want[k % 3])
        assert os.waitpid(child, 0)[1] == 0, (node, threads)
    stop = True
    for each in workers: each.join()
"""


def test_children_of_a_process_whose_threads_run_the_engine_run_it() -> None:
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", UNDER_LOAD], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr

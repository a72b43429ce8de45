"""Engines and contexts at once, from several threads, in the child of a fork, and on too few cores."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import Codes, Table, Tensor
from intact.kernels.program import ThreadPool, available_cpus


@pytest.fixture
def plan(qdq, lower_graph):
    net = qdq()
    y = net.pair(net.input("x", ("n", 3, 20, 20)))
    for channels in (3, 16, 16):
        y = net.pair(net.node("Relu", net.conv(y, channels, 16)))
    flat = net.node("Flatten", net.pair(net.node("GlobalAveragePool", y)))
    return lower_graph(net, net.node("Gemm", flat, net.weight(10, 16), transB=1), sizes={"n": 1}).plan


def batches(count):
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((1 + i % 3, 3, 20, 20)).astype(np.float32)} for i in range(count)]


def answer(engine):
    (array,) = engine.values()
    return array


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_any_number_of_threads_gives_the_same(plan, threads):
    engine = Engine(plan, threads=threads)
    for feeds in batches(6):
        want = evaluate(plan, feeds)[plan.outputs[0]]
        np.testing.assert_array_equal(answer(engine.run(feeds)), want)


@pytest.mark.parametrize("engines", [1, 2])
def test_engines_run_from_several_threads_at_once(plan, engines):
    """Whoever finds the threads of an engine busy works alone; every run has an arena of its own."""
    built_engines = [Engine(plan, threads=2) for _ in range(engines)]
    feeds = batches(12)
    want = [answer(built_engines[0].run(f)) for f in feeds]
    wrong: list[int] = []

    def caller(number: int) -> None:
        engine = built_engines[number % engines]
        for i in range(60):
            j = (i * 5 + number) % len(feeds)
            if not np.array_equal(answer(engine.run(feeds[j])), want[j]):
                wrong.append(j)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(caller, range(5)))
    assert wrong == []


def lookups(count: int, size: int) -> Engine:
    """An engine of so many steps that turn all bits of codes round."""
    codes = Codes(1.0, 0, False, 0, 255)
    tensors = {f"x{i}": Tensor(f"x{i}", "codes", (size,), codes) for i in range(count + 1)}
    steps = tuple(Table(f"t{i}", (), f"x{i}", f"x{i + 1}", "t") for i in range(count))
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    return Engine(Plan(steps, tensors, {"t": table}, ("x0",), (f"x{count}",)), threads=1)


def test_other_threads_run_while_native_code_does():
    """The interpreter is free during a run: a thread that only counts gets on."""
    engine = lookups(50, 1 << 22)
    x = {"x0": np.zeros(1 << 22, np.uint8)}

    def count_running() -> int:
        running, count = threading.Event(), 0

        def run() -> None:
            engine.run(x)
            running.clear()

        running.set()
        thread = threading.Thread(target=run)
        thread.start()
        while running.is_set():
            count += 1
        thread.join()
        return count

    # With the interpreter held it would be 1 or so; on a busy machine now and then, too, but not every time.
    assert any(count_running() > 1000 for _ in range(50))


FORK = """
import os, sys
import numpy as np
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.steps import Codes, Table, Tensor

size = 300_000
codes = Codes(1.0, 0, False, 0, 255)
tensors = {f"x{i}": Tensor(f"x{i}", "codes", (size,), codes) for i in range(6)}
steps = tuple(Table(f"t{i}", (), f"x{i}", f"x{i + 1}", "t") for i in range(5))
table = np.arange(255, -1, -1, dtype=np.int16).astype(np.uint8)
engine = Engine(Plan(steps, tensors, {"t": table}, ("x0",), ("x5",)), threads=3)

def right(seed):
    data = np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)
    return all(np.array_equal(engine.run({"x0": data})["x5"], 255 - data) for _ in range(20))

assert right(0)
child = os.fork()
if child == 0:
    good = right(1)
    del engine
    os._exit(0 if good else 1)
assert right(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_parent_and_child_of_a_fork_both_run():
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr


def test_engines_come_and_go(plan):
    feeds = batches(1)[0]
    before = threading.active_count()
    results = [answer(Engine(plan, threads=3).run(feeds)) for _ in range(20)]
    assert all(np.array_equal(r, results[0]) for r in results)
    assert threading.active_count() == before


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_threads_end_with_their_engine(plan):
    from pathlib import Path

    feeds = batches(1)[0]

    def count() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = count()
    engine = Engine(plan, threads=4)
    assert count() == before, "threads are made when they are needed"
    engine.run(feeds)
    assert count() == before + 3
    engine.run(feeds)
    assert count() == before + 3
    del engine
    assert count() == before


def test_a_team_has_a_thread_for_each_processor_unless_told():
    assert ThreadPool().threads == available_cpus() >= 1
    assert ThreadPool(5).threads == 5


def test_two_runs_do_not_share_a_context(plan):
    program = Engine(plan, threads=1).prepare({"x": (1, 3, 20, 20)}).bound.program
    first, second = program.take(), program.take()
    assert first is not second
    program.give_back(first)
    assert program.take() is first

"""Runs on the threads of the program around: any host gives the bits of the library's own threads."""

from __future__ import annotations

import ctypes as c
import functools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.capi.library import CError, CPlan
from tests.capi.test_c_plans import save_plan
from tests.capi.test_c_programs import ROOT, compile_program, needs_compiler
from tests.engine.conftest import Qdq
from tests.fuzz.check import inputs
from tests.fuzz.graphs import make

from intact.engine.compare.c_interface import BAD_ARGUMENT, UNSUPPORTED, COptions
from intact.engine.lower import lower

THREADS = 5


def in_order(piece, count):
    for index in range(count):
        piece(index)


def backwards(piece, count):
    for index in reversed(range(count)):
        piece(index)


def on_fewer_threads(piece, count):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(piece, range(count)))


def on_a_thread_each(piece, count):
    threads = [threading.Thread(target=piece, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def on_none_but_the_last(piece, count):
    """Break the contract: all pieces but one are left out, and some come that nobody asked for."""
    piece(-1)
    piece(count)
    piece(count - 1)


HOSTS = [in_order, backwards, on_fewer_threads, on_a_thread_each, on_none_but_the_last]
hosts = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.__name__)


def same(got, want):
    return {name: a.tobytes() for name, a in got.items()} == {name: a.tobytes() for name, a in want.items()}


@hosts
def test_random_graphs_have_the_bits_of_the_librarys_own_threads(host, c_library, tmp_path):
    calls = []

    def count_and_run(piece, count):
        calls.append(count)
        host(piece, count)

    for seed in range(12):
        case = make(seed)
        try:
            save_plan(lower(case.proto), tmp_path / "plan")
            own = CPlan(c_library, tmp_path / "plan", THREADS)
        except CError as error:
            assert error.status == UNSUPPORTED
            continue
        hosted = CPlan(c_library, tmp_path / "plan", THREADS, count_and_run)
        for sizes in case.sizes:
            feeds = inputs(case.proto, sizes, "random", np.random.default_rng(seed))
            try:
                want = own.run(feeds)
            except CError:
                continue
            assert same(hosted.run(feeds), want), seed
        own.close()
        hosted.close()
    assert calls and min(calls) > 1 and max(calls) <= THREADS


@pytest.fixture
def conv_plan(tmp_path):
    """A plan that runs a few images at a time, and inputs of 16 images."""
    net = Qdq()
    y = net.pair(net.node("Relu", net.conv(net.pair(net.input("x", ("n", 3, 96, 96))), 3, 16)))
    z = net.pair(net.node("Relu", net.conv(y, 16, 16, group=16)))
    y = net.pair(net.node("Relu", net.node("Add", net.conv(z, 16, 16), y)))
    pooled = net.pair(net.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2]))
    save_plan(lower(net.proto(net.pair(net.node("GlobalAveragePool", pooled)), pooled)), tmp_path / "plan")
    return tmp_path / "plan", {"x": net.rng.standard_normal((16, 3, 96, 96)).astype(np.float32)}


@hosts
def test_images_that_repeat_in_memory_of_each_piece_have_the_same_bits(host, c_library, conv_plan):
    path, feeds = conv_plan
    want = CPlan(c_library, path, 1).run(feeds)
    hosted = CPlan(c_library, path, THREADS, host)
    for _ in range(3):
        assert same(hosted.run(feeds), want)
    assert len(hosted.profile(feeds)) > 3


@needs_compiler
@pytest.mark.parametrize("options", [[], ["-fopenmp"]], ids=["pthreads", "openmp"])
def test_the_example_in_c_has_the_same_bits_on_any_number_of_threads(options, c_library, tmp_path, conv_plan):
    program = compile_program(ROOT / "examples" / "c" / "host_pool.c", c_library, tmp_path, *options)
    path, _ = conv_plan
    shape = (1, 3, 96, 96)
    x = ((np.arange(np.prod(shape)) * 7 % 31 - 15) / 8).astype(np.float32).reshape(shape)
    want = [
        f"{name}: {functools.reduce(lambda sum, byte: (sum * 31 + byte) & 0xFFFFFFFF, y.tobytes(), 0):08x}"
        for name, y in CPlan(c_library, path).run({"x": x}).items()
    ]
    for threads in (1, 2, 7):
        words = [str(program), str(path), str(threads)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=600)
        assert ran.stdout.splitlines() == want, ran.stderr


def own_threads():
    return set(Path("/proc/self/task").iterdir())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux lists its threads")
def test_no_thread_of_its_own_begins(c_library, conv_plan):
    path, feeds = conv_plan
    before = own_threads()
    hosted = CPlan(c_library, path, THREADS, in_order)
    hosted.run(feeds)
    assert own_threads() <= before
    CPlan(c_library, path, THREADS).run(feeds)
    assert len(own_threads() - before) == THREADS - 1


def test_runs_within_pieces_of_other_runs_end(c_library, conv_plan):
    """A host that steals work may begin another session's run while it waits for a piece."""
    path, feeds = conv_plan
    want, depth, inner = CPlan(c_library, path, 1).run(feeds), [], []

    def run_another_first(piece, count):
        if len(depth) < 3:
            depth.append(count)
            inner.append(sessions[len(depth)].run(feeds))
            depth.pop()
        backwards(piece, count)

    hosted = CPlan(c_library, path, THREADS, run_another_first)
    sessions = [hosted.session() for _ in range(4)]
    assert same(sessions[0].run(feeds), want)
    assert len(inner) >= 3 and all(same(got, want) for got in inner)


def test_sessions_share_the_host_at_once(c_library, conv_plan):
    path, feeds = conv_plan
    want = CPlan(c_library, path, 1).run(feeds)
    with ThreadPoolExecutor(3) as pool, ThreadPoolExecutor(3) as callers:
        hosted = CPlan(c_library, path, 3, lambda piece, count: list(pool.map(piece, range(count))))
        sessions = [hosted.session() for _ in range(3)]
        runs = callers.map(lambda session: [session.run(feeds) for _ in range(4)], sessions)
        assert all(same(got, want) for outputs in runs for got in outputs)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library's rounding mode, by name")
def test_the_hosts_rounding_mode_changes_nothing_and_stays(c_library, conv_plan):
    path, feeds = conv_plan
    maths = c.CDLL("libm.so.6")
    modes = []

    def rounding_up(piece, count):
        upward = {"x86_64": 0x800, "aarch64": 0x400000}[os.uname().machine]
        for index in range(count):
            assert maths.fesetround(upward) == 0
            piece(index)
            modes.append(maths.fegetround() == upward)
            maths.fesetround(0)

    want = CPlan(c_library, path, 1).run(feeds)
    assert same(CPlan(c_library, path, THREADS, rounding_up).run(feeds), want)
    assert modes and all(modes)


def test_options_of_an_older_header_are_taken_and_odd_sizes_are_not(c_library, conv_plan):
    path, _ = conv_plan
    plan = CPlan(c_library, path)
    older = COptions.parallel_for.offset

    def opens(size):
        opened = c.c_void_p()
        options = COptions(size, 1, None)
        plan.call("open", os.fsencode(path), c.byref(options), c.byref(opened))
        plan._library.intact_close(opened)

    for size in (older, c.sizeof(COptions)):
        opens(size)
    for size in (0, older - 1, c.sizeof(COptions) + 8):
        with pytest.raises(CError, match="options") as caught:
            opens(size)
        assert caught.value.status == BAD_ARGUMENT


def test_one_thread_asks_no_host(c_library, conv_plan):
    path, feeds = conv_plan
    calls = []
    CPlan(c_library, path, 1, lambda piece, count: calls.append(count)).run(feeds)
    assert not calls

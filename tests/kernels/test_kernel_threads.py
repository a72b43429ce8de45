"""The thread pool: many callers, forked children, and control registers that another library has set."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from intact import kernels, numerics
from intact.spec import QuantSpec

FORK = """
import os, sys
import numpy as np
from intact import kernels, numerics
from intact.spec import QuantSpec
x = np.random.default_rng(0).standard_normal(400_000).astype(np.float32)
want = numerics.fake_quantize(x, 0.02, 0, QuantSpec())
def right():
    return bool((kernels.fake_quantize(x, 0.02, 0, QuantSpec(), threads=4) == want).all())
assert right()
child = os.fork()
if child == 0:
    grandchild = os.fork() if right() else -1
    if grandchild == 0:
        os._exit(0 if right() else 1)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) if grandchild > 0 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert right()
"""

FLUSH_TO_ZERO = """
import numpy as np, torch
from intact import kernels, numerics
from intact.spec import QuantSpec
x = (np.arange(-200, 300_000, dtype=np.float64) * 1e-43).astype(np.float32)
grad, spec = np.ones_like(x), QuantSpec()
low, high = np.float32(-1e-42), np.float32(1e-40)
mask = numerics.fake_quantize_grad(grad, x, low, high, spec)
ends, bins = numerics.minmax(x), numerics.count_pow2(x, -140, 512)
halves = np.array([3e-7], np.float16)
counted = np.zeros((2, 512), np.int64)
assert 0 < np.count_nonzero(mask) < 2000 and np.count_nonzero(bins[1]) > 10
assert torch.set_flush_denormal(True)
try:
    masks = [kernels.fake_quantize_grad(grad, x, low, high, spec, threads=n) for n in (1, 3)]
    got_ends = kernels.minmax(x)
    reach = kernels.collect_pow2(x, -140, *counted)
    got_half = kernels.absmax(halves)
finally:
    torch.set_flush_denormal(False)
assert all((got == mask).all() for got in masks)
assert got_ends == ends and ends[0] < 0
assert reach[:2] == tuple(map(float, ends)) and (counted == bins).all()
assert got_half == halves[0]
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_and_its_child_get_threads_of_their_own():
    run(FORK)


@pytest.mark.slow
def test_denormals_count_even_where_the_process_flushes_them():
    pytest.importorskip("torch")
    run(FLUSH_TO_ZERO)


def test_many_callers_at_once():
    spec = QuantSpec(axis=0)
    inputs = [np.random.default_rng(i).standard_normal((8, 40_000)).astype(np.float32) for i in range(6)]
    scale = np.linspace(0.01, 0.1, 8, dtype=np.float32)

    def right(x: np.ndarray) -> bool:
        want = numerics.fake_quantize(x, scale, 0, spec)
        return all((kernels.fake_quantize(x, scale, 0, spec, threads=4) == want).all() for _ in range(5))

    with ThreadPoolExecutor(6) as callers:
        assert all(callers.map(right, inputs))


@pytest.mark.parametrize("threads", [-1, 0, 64])
def test_any_thread_count_is_met(threads):
    x = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)
    assert kernels.absmax(x, threads=threads) == np.abs(x).max()

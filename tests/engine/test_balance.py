"""Work is divided evenly among many threads; the tests need none of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.engine.conftest import Qdq

from intact.engine.backend import Options
from intact.engine.cpu.backend import CpuBackend
from intact.engine.cpu.balance import divisions, speedup
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.kernels.registry import kernel_list

KERNELS = [k.name for k in kernel_list() if k.family == "gemm" and k.available and not k.refused]
TASKS = Path("/proc/self/task")


def layer(size, inputs, outputs, kernel=1, stride=1):
    net = Qdq()
    x = net.pair(net.input("x", ("n", inputs, size, size)))
    y = net.conv(x, inputs, outputs, kernel=kernel, strides=[stride] * 2)
    return lower(net.proto(net.pair(y)))


LAYERS = {
    "1x1 at 28": (layer(28, 128, 512), 28),
    "1x1 at 14": (layer(14, 256, 1024), 14),
    "1x1, stride 2": (layer(28, 256, 512, stride=2), 28),
    "3x3, stride 2": (layer(28, 128, 128, kernel=3, stride=2), 28),
    "3x3, few channels": (layer(56, 32, 64, kernel=3), 56),
}


@pytest.mark.parametrize("threads", [2, 3, 6, 8, 16])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_thread_has_much_more_than_the_others(monkeypatch, kernel, name, threads):
    """Tiles of 32 rows divide 28 x 28 pixels into 25 blocks: one of 8 threads has 4 of them, 1.28 times its
    share. Nothing needs to be less even than that."""
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    plan, size = LAYERS[name]
    (division,) = divisions(plan, {"x": (1, plan.tensors["x"].shape[1], size, size)}, threads)
    assert division.kernel.startswith(("gemm", "winograd")) and division.items >= threads - 3
    assert division.share < 1.36


@pytest.mark.skipif("gemm_amx" not in KERNELS, reason="no tiles on this machine")
def test_threads_keep_their_rows_where_weights_are_small(monkeypatch):
    """Two threads could have half of the channels each, evenly: every row would be read by both, and half of
    it was written by the other one. With 4 MB of weights for 49 rows that is less than all of them."""
    monkeypatch.setenv("INTACT_FORCE_KERNEL", "gemm_amx")
    by_rows, by_channels = layer(28, 128, 512), layer(7, 2048, 2048)
    (division,) = divisions(by_rows, {"x": (1, 128, 28, 28)}, 2)
    assert division.items > 2 and division.share < 1.05
    (division,) = divisions(by_channels, {"x": (1, 2048, 7, 7)}, 2)
    assert division.share < 1.05  # two blocks of 32 rows, of which one has 17


@pytest.mark.parametrize("batch", [1, 8])
def test_sixty_four_threads_are_not_left_with_what_was_cut_for_two(monkeypatch, batch):
    monkeypatch.setenv("INTACT_MAX_ISA", "none")
    plan, _ = LAYERS["1x1 at 28"]
    parts = divisions(plan, {"x": (batch, 128, 28, 28)}, 64)
    assert speedup(parts, 64) > 50


def test_one_thread_has_it_all_and_its_share(monkeypatch):
    monkeypatch.setenv("INTACT_MAX_ISA", "none")
    for plan, size in LAYERS.values():
        (division,) = divisions(plan, {"x": (1, plan.tensors["x"].shape[1], size, size)}, 1)
        assert division.share == 1 and speedup([division], 1) == 1
        assert division.products == plan.steps[1].macs(lambda n, p=plan, s=size: _shape(p, n, s))


def _shape(plan, name, size):
    if name in plan.constants:
        return plan.constants[name].shape
    _, channels, *rest = plan.tensors[name].shape
    positions = [n if isinstance(n, int) else size for n in rest]
    return (1, channels, *positions)


def test_the_share_is_what_dealing_out_alike_items_gives():
    """Of a step whose items are alike and at most 8 for each thread: each is dealt out alone."""
    plan, size = LAYERS["3x3, few channels"]
    for threads in (2, 3, 5, 16, 64):
        bound = CpuBackend(Options(threads)).compile(plan, {"x": (1, 32, size, size)}).bound
        alike = [
            i for i, kernel in enumerate(bound.program.kernels)
            if kernel.startswith("quantize") and bound.program.items(i) <= 8 * threads
        ]  # fmt: skip
        assert alike or threads < 16
        for index in alike:
            items = bound.program.items(index)
            assert bound.program.largest_share(index) == -(-items // threads) * threads / items


@pytest.mark.skipif(not TASKS.is_dir(), reason="threads are counted where the system lists them")
def test_nothing_is_started():
    plan, size = LAYERS["1x1 at 14"]
    before = len(list(TASKS.iterdir()))
    divisions(plan, {"x": (1, 256, size, size)}, 64)
    assert len(list(TASKS.iterdir())) == before


@pytest.mark.parametrize("threads", [3, 7, 16])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_cut_for_many_threads_gives_the_same_codes(monkeypatch, kernel, threads):
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    net = Qdq()
    x = net.pair(net.input("x", (2, 24, 9, 9)))
    y = net.pair(net.conv(x, 24, 80, kernel=3, strides=[2, 2]))
    plan = lower(net.proto(net.pair(net.conv(y, 80, 144, kernel=1))))
    x = np.random.default_rng(0).standard_normal((2, 24, 9, 9)).astype(np.float32)
    outputs, wanted = Engine(plan, threads=threads).run({"x": x}), evaluate(plan, {"x": x})
    for name in plan.outputs:
        np.testing.assert_array_equal(outputs[name], wanted[name])

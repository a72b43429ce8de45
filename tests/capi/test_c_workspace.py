"""`intact_workspace_size` says what runs take before a session is prepared, also in the caller's memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.capi.library import CError, CPlan
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq
from tests.fuzz.check import inputs
from tests.fuzz.graphs import make

from intact.engine.compare.c_interface import BAD_ARGUMENT, BAD_SHAPE, UNSUPPORTED
from intact.engine.lower import lower

GUARD = 256


class Memory:
    """Bytes at a multiple of 64, with guards on both sides."""

    def __init__(self, nbytes: int) -> None:
        self._bytes = np.full(nbytes + 2 * GUARD + 64, 0x5A, np.uint8)
        start = self._bytes.__array_interface__["data"][0]
        self._skip = -start % 64 + GUARD
        self.address, self.nbytes = start + self._skip, nbytes

    def assert_guards(self) -> None:
        """Nothing beyond the memory was written."""
        behind = self._bytes[self._skip + self.nbytes :]
        assert (self._bytes[: self._skip] == 0x5A).all() and (behind == 0x5A).all()


@pytest.mark.parametrize("part", range(4))
def test_plans_run_in_memory_of_exactly_the_size(c_library, tmp_path, part):
    runs = 0
    for seed in range(part, 60, 4):
        case = make(seed)
        path, rng, threads = tmp_path / "plan", np.random.default_rng(seed), 1 + seed % 3
        save_plan(lower(case.proto), path)
        try:
            handle, dense = CPlan(c_library, path, threads), CPlan(c_library, path, threads)
        except CError as error:
            assert error.status == UNSUPPORTED
            continue
        for sizes in case.sizes:
            feeds = inputs(case.proto, sizes, "random", rng)
            try:
                want = dense.run(feeds)
            except CError:
                continue
            arrays = [np.ascontiguousarray(feeds[name], dtype) for name, dtype in handle.inputs]
            shapes = [np.shape(feeds[name]) for name, _ in handle.inputs]
            fresh = handle.session()
            runs_bytes, binding_bytes = fresh.workspace_size(shapes)
            assert fresh.workspace == 0, "it is not prepared"
            fresh.prepare(shapes)
            assert fresh.workspace == runs_bytes + binding_bytes
            memory = Memory(runs_bytes)
            fresh.prepare_in(shapes, memory.address, runs_bytes)
            assert fresh.workspace == binding_bytes
            targets = [np.empty(array.shape, array.dtype) for array in want.values()]
            for _ in range(2):
                fresh.run_arrays(arrays, targets)
                assert [array.tobytes() for array in targets] == [
                    array.tobytes() for array in want.values()
                ], seed
            memory.assert_guards()
            with pytest.raises(CError, match="workspace") as caught:
                fresh.prepare_in(shapes, memory.address, runs_bytes - 1)
            assert caught.value.status == BAD_ARGUMENT
            fresh.close()
            runs += 1
        handle.close()
        dense.close()
    assert runs > 30


@pytest.fixture
def handle(c_library: Path, tmp_path: Path) -> CPlan:
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, "h", 8)))
    save_plan(lower(net.proto(net.pair(net.node("Relu", net.conv(x, 3, 4))))), tmp_path / "plan")
    return CPlan(c_library, tmp_path / "plan")


def test_a_prepared_session_stays_so(handle):
    x = np.random.default_rng(0).standard_normal((1, 3, 5, 8)).astype(np.float32)
    (want,) = handle.run({"x": x}).values()
    got = np.empty_like(want)
    for h in (9, 5, 200, 9):
        handle.workspace_size([(1, 3, h, 8)])
        handle.run_arrays([x], [got])
        np.testing.assert_array_equal(got, want)
    with pytest.raises(CError) as caught:
        handle.workspace_size([(1, 3, 5, 9)])
    assert caught.value.status == BAD_SHAPE
    handle.run_arrays([x], [got])
    np.testing.assert_array_equal(got, want)
    assert handle.prepare([(1, 3, 9, 8)]) == [(1, 4, 9, 8)]


def test_sizes_beyond_all_memory_are_refused_before_any_is_taken(handle):
    with pytest.raises(CError) as caught:
        handle.workspace_size([(2**40, 3, 5, 8)])
    assert caught.value.status == BAD_SHAPE


def test_many_sizes_leave_the_prepared_binding_alone(handle):
    """Bindings of more sizes than a session keeps."""
    x = np.random.default_rng(0).standard_normal((1, 3, 5, 8)).astype(np.float32)
    (want,) = handle.run({"x": x}).values()
    got = np.empty_like(want)
    for h in range(1, 6000):
        handle.workspace_size([(1, 3, h, 8)])
    handle.run_arrays([x], [got])
    np.testing.assert_array_equal(got, want)


def test_own_memory_and_the_callers_take_turns(handle):
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)
    (want,) = handle.run({"x": x}).values()
    got, shapes = np.empty_like(want), [x.shape]
    nbytes, _ = handle.workspace_size(shapes)
    places = [Memory(nbytes), Memory(nbytes + 640)]
    for place in (places[0], None, places[1], places[0], places[0], None, None):
        if place is None:
            handle.prepare(shapes)
        else:
            handle.prepare_in(shapes, place.address, place.nbytes)
        got[...] = 0
        handle.run_arrays([x], [got])
        np.testing.assert_array_equal(got, want)
    handle.prepare([(1, 3, 300, 8)])
    handle.prepare_in(shapes, places[1].address, places[1].nbytes)
    handle.run_arrays([x], [got])
    np.testing.assert_array_equal(got, want)
    for place in places:
        place.assert_guards()


def test_memory_that_does_not_fit_is_refused(handle):
    shapes = [(2, 3, 5, 8)]
    nbytes, _ = handle.workspace_size(shapes)
    place = Memory(nbytes)
    for address, size in (
        (0, nbytes),
        (place.address + 8, nbytes),
        (place.address, nbytes - 1),
        (place.address, 0),
    ):
        with pytest.raises(CError, match="workspace") as caught:
            handle.prepare_in(shapes, address, size)
        assert caught.value.status == BAD_ARGUMENT
    with pytest.raises(CError, match="memory: want its size"):
        handle.call("workspace_size", handle._session, None, None)

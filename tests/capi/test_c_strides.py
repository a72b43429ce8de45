"""Callers' arrays with gaps, turned axes and repeated elements give the codes of dense ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.capi.library import CError, CPlan
from tests.capi.test_c_plans import CORPUS, save_plan
from tests.engine.conftest import Qdq
from tests.fuzz.check import inputs
from tests.fuzz.graphs import make, read

from intact.engine.compare.c_interface import BAD_ARGUMENT, NOT_PREPARED, UNSUPPORTED
from intact.engine.lower import lower
from intact.errors import IntactError

GUARD = 64
"""Bytes on either side of an array, which no run may change."""


def scatter(array: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """A copy with turned axes, gaps and negative strides, and the memory in which it lies."""
    order = rng.permutation(array.ndim)
    gaps = rng.integers(1, 4, array.ndim)
    strides, reach = [0] * array.ndim, array.itemsize
    for axis in order:
        strides[axis] = reach * int(gaps[axis])
        reach = strides[axis] * max(1, array.shape[axis])
    memory = np.full(2 * GUARD + max(reach, 1), 0xA5, np.uint8)
    first = GUARD
    for axis in range(array.ndim):
        if array.shape[axis] and rng.integers(3) == 0:
            first += strides[axis] * (array.shape[axis] - 1)
            strides[axis] = -strides[axis]
    view = np.ndarray(array.shape, array.dtype, memory.data, first, tuple(strides))
    view[...] = array
    return view, memory


def bytes_between(view: NDArray[Any], memory: NDArray[np.uint8]) -> bytes:
    """The bytes of the memory that are no element's."""
    rest = memory.copy()
    offset = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    np.ndarray(
        (*view.shape, view.itemsize), np.uint8, rest.data, offset if view.size else 0, (*view.strides, 1)
    )[...] = 0
    return rest.tobytes()


def run_with_strides(
    opened: CPlan, feeds: dict[str, NDArray[Any]], rng: np.random.Generator
) -> dict[str, bytes]:
    """Run with arrays that `scatter` makes; the bytes of the outputs."""
    arrays = [np.asarray(feeds[name], dtype) for name, dtype in opened.inputs]
    for index in range(len(opened.outputs)):
        opened.set_strides("output", index, None)
    for index in range(len(arrays)):
        opened.set_strides("input", index, None)
    shapes = opened.prepare([array.shape for array in arrays])
    sources = [scatter(array, rng) if rng.integers(4) else (array, None) for array in arrays]
    targets = [
        scatter(np.zeros(shape, dtype), rng) if rng.integers(4) else (np.zeros(shape, dtype), None)
        for (_, dtype), shape in zip(opened.outputs, shapes, strict=True)
    ]
    for kind, views in (("input", sources), ("output", targets)):
        for index, (view, memory) in enumerate(views):
            opened.set_strides(kind, index, None if memory is None else view.strides)
    assert opened.prepare([array.shape for array in arrays]) == shapes
    before = [
        None if memory is None else bytes_between(view, memory) for view, memory in (*sources, *targets)
    ]
    opened.run_arrays([view for view, _ in sources], [view for view, _ in targets])
    after = [None if memory is None else bytes_between(view, memory) for view, memory in (*sources, *targets)]
    assert before == after, "bytes between the elements are nobody's"
    return {name: view.tobytes() for (name, _), (view, _) in zip(opened.outputs, targets, strict=True)}


def compare(case: Any, seed: int, library: Path, path: Path) -> tuple[int, int]:
    """Count the runs with strides that have the bits of dense arrays, and the refusals of both."""
    plan, rng, runs = lower(case.proto), np.random.default_rng([seed, 11]), 0
    save_plan(plan, path)
    opened, dense = CPlan(library, path, threads=1 + seed % 2), CPlan(library, path)
    for sizes in case.sizes:
        feeds = inputs(case.proto, sizes, "random", rng)
        try:
            want = dense.run(feeds)
        except CError:
            continue
        for _ in range(3):
            got = run_with_strides(opened, feeds, rng)
            assert got == {name: array.tobytes() for name, array in want.items()}, (seed, sizes)
            runs += 1
    opened.close()
    dense.close()
    return runs


@pytest.mark.parametrize("part", range(4))
def test_random_graphs_have_the_bits_of_dense_arrays(c_library, tmp_path, part):
    runs = 0
    for seed in range(part, 60, 4):
        try:
            runs += compare(make(seed), seed, c_library, tmp_path / "plan")
        except CError as error:
            assert error.status == UNSUPPORTED, (seed, error)
    assert runs > 50


@pytest.mark.parametrize("path", CORPUS[::3], ids=lambda path: path.stem)
def test_graphs_of_the_corpus_have_the_bits_of_dense_arrays(path, c_library, tmp_path):
    try:
        compare(read(path.read_bytes()), int(path.stem.removeprefix("seed-")), c_library, tmp_path / "plan")
    except (CError, IntactError) as error:
        assert getattr(error, "status", UNSUPPORTED) == UNSUPPORTED


@pytest.fixture
def image_plan(c_library, tmp_path):
    """Floats of an image in, and codes out."""
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, 6, 5)))
    y = net.quantize(net.node("Relu", net.conv(x, 3, 4)), 0.05, 0, "int8")
    plan = lower(net.proto(y))
    save_plan(plan, tmp_path / "plan")
    return CPlan(c_library, tmp_path / "plan")


def test_a_camera_s_pixels_need_no_copy_of_the_caller_s(image_plan):
    """Pixels of three interleaved channels in rows with a pitch are read where they lie."""
    rng = np.random.default_rng(0)
    frame = rng.standard_normal((2, 6, 8, 4)).astype(np.float32)  # three more columns, one more channel
    view = frame[:, :, :5, :3].transpose(0, 3, 1, 2)
    (want,) = image_plan.run({"x": view}).values()
    image_plan.set_strides("input", 0, view.strides)
    (shape,) = image_plan.prepare([view.shape])
    got = np.empty(shape, want.dtype)
    image_plan.run_arrays([view], [got])
    np.testing.assert_array_equal(got, want)
    kinds = [row[1] for row in image_plan.profile({"x": np.zeros(view.shape, np.float32)})]
    assert "input" not in kinds, "a step reads the caller's array"


def test_elements_of_an_input_may_repeat(image_plan):
    column = np.random.default_rng(1).standard_normal((1, 3, 1, 5)).astype(np.float32)
    view = np.broadcast_to(column, (2, 3, 6, 5))
    (want,) = image_plan.run({"x": view}).values()
    image_plan.set_strides("input", 0, view.strides)
    (shape,) = image_plan.prepare([view.shape])
    got = np.empty(shape, want.dtype)
    image_plan.run_arrays([view], [got])
    np.testing.assert_array_equal(got, want)


def test_floats_with_strides_stand_for_codes(image_plan):
    rng = np.random.default_rng(2)
    feeds = {"x": rng.standard_normal((2, 3, 6, 5)).astype(np.float32)}
    image_plan.set_type("output", 0, "float32")
    (want,) = image_plan.run(feeds).values()
    for _ in range(5):
        assert list(run_with_strides(image_plan, feeds, rng).values()) == [want.tobytes()]


def test_strides_of_axes_with_one_element_do_not_matter(image_plan):
    x = np.random.default_rng(3).standard_normal((1, 3, 6, 5)).astype(np.float32)
    (want,) = image_plan.run({"x": x}).values()
    for stride in (0, 3, -(2**63), 2**63 - 1):
        image_plan.set_strides("input", 0, (stride, *x.strides[1:]))
        image_plan.set_strides("output", 0, (stride, 30, 5, 1))
        (shape,) = image_plan.prepare([x.shape])
        got = np.empty(shape, want.dtype)
        image_plan.run_arrays([x], [got])
        np.testing.assert_array_equal(got, want)


DENSE = (360, 120, 20, 4)
HOSTILE = {
    "no multiple of the element": ("input", (360, 120, 20, 6)),
    "half an element": ("input", (360, 120, 20, 2)),
    "out of range": ("input", (2**62, 120, 20, 4)),
    "the least number": ("input", (-(2**63), 120, 20, 4)),
    "the largest number": ("input", (2**63 - 1, 120, 20, 4)),
    "a sum out of range": ("input", (2**44, 2**43, 2**42, 2**41)),
    "both ways out of range": ("input", (2**43, -(2**42), 2**41, -(2**42))),
    "elements of an output that repeat": ("output", (120, 30, 5, 0)),
    "rows of an output that overlap": ("output", (120, 30, 4, 1)),
    "images of an output that overlap": ("output", (-119, 30, 5, 1)),
    "axes of an output that cross": ("output", (120, 6, 5, 1)),
    "an output out of range": ("output", (2**63 - 1, 30, 5, 1)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_strides_that_no_array_has_are_refused(image_plan, case):
    kind, strides = HOSTILE[case]
    image_plan.set_strides(kind, 0, strides)
    with pytest.raises(CError, match=f"{kind} '.*strides") as caught:
        image_plan.prepare([(2, 3, 6, 5)])
    assert caught.value.status == BAD_ARGUMENT
    with pytest.raises(CError, match="not prepared") as caught:
        image_plan.run_arrays([np.zeros(1)], [np.zeros(1)])
    assert caught.value.status == NOT_PREPARED
    with pytest.raises(CError, match="strides"):
        image_plan.workspace_size([(2, 3, 6, 5)])
    image_plan.prepare([(0, 3, 6, 5)])  # no element, no stride that matters
    image_plan.set_strides(kind, 0, None)
    assert image_plan.prepare([(2, 3, 6, 5)]) == [(2, 4, 6, 5)]


def test_as_many_strides_as_axes_are_wanted(image_plan):
    for strides in ((), (4,), DENSE[1:], (*DENSE, 4), (4,) * 70):
        with pytest.raises(CError, match="one for each axis") as caught:
            image_plan.set_strides("input", 0, strides)
        assert caught.value.status == BAD_ARGUMENT
    for kind in ("input", "output"):
        with pytest.raises(CError, match="fewer ports"):
            image_plan.set_strides(kind, 1, DENSE)
        with pytest.raises(CError, match="session is wanted"):
            image_plan.call(f"set_{kind}_strides", None, 0, None, 0)


def test_strides_that_come_again_are_kept(image_plan):
    """Of one set of sizes, arrays that lie in several ways have a binding each."""
    ways = [None, DENSE, (720, 120, 20, 4), (4, 8, 24, 144)]
    for strides in ways:
        image_plan.set_strides("input", 0, strides)
        image_plan.prepare([(2, 3, 6, 5)])
    nbytes = image_plan.workspace
    for strides in ways:
        image_plan.set_strides("input", 0, strides)
        image_plan.prepare([(2, 3, 6, 5)])
        assert image_plan.workspace == nbytes


def test_dense_strides_cost_no_step(image_plan):
    image_plan.prepare([(2, 3, 6, 5)])
    count = image_plan._library.intact_step_count(image_plan._session)
    image_plan.set_strides("input", 0, DENSE)
    image_plan.set_strides("output", 0, (120, 30, 5, 1))
    image_plan.prepare([(2, 3, 6, 5)])
    assert image_plan._library.intact_step_count(image_plan._session) == count

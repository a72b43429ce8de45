"""Programs: what `Program.add` refuses, and what a run needs."""

from __future__ import annotations

import numpy as np
import pytest

from intact.kernels import moves, pointwise, pool
from intact.kernels.program import SLACK, Context, Program, ThreadPool, View
from intact.kernels.window import PixelWindow

ARENA = 1000


@pytest.fixture
def program():
    """Blocks 1 (constant), 2 (input) and 3 (output), of 100, 200 and 300 bytes."""
    prepared = Program(1)
    prepared.arena(ARENA)
    assert prepared.constant(np.zeros(100, np.uint8)) == 1
    assert prepared.input(200) == 2
    assert prepared.output(300) == 3
    return prepared


def row(block, offset, size, stride=1):
    return View(block, offset, "uint8", (size,), (stride,))


@pytest.mark.parametrize(
    ("view", "words"),
    [
        pytest.param(row(9, 0, 1), "a block that does not exist", id="block"),
        pytest.param(row(0, ARENA - 9, 10), "leaves its block", id="last byte"),
        pytest.param(row(3, 5, 7, -1), "leaves its block", id="backwards"),
        pytest.param(row(0, 0, 2, 1 << 45), "leaves its block", id="far"),
        pytest.param(row(0, 0, 2, 1 << 47), "too far", id="farther"),
        pytest.param(row(0, 1 << 62, 1), "leaves its block", id="offset"),
        pytest.param(row(1, 0, 5), "writes into an input or a constant", id="constant"),
        pytest.param(row(2, 0, 5), "writes into an input or a constant", id="input"),
    ],
)
def test_views_that_are_refused(program, view, words):
    with pytest.raises(ValueError, match=words):
        program.add(moves.fill(view, 0))
    assert len(program) == 0


@pytest.mark.parametrize(
    ("offset", "halo", "fits"),
    [
        pytest.param(0, (0, 0, 0, 0), True, id="none"),
        pytest.param(40, (1, 0, 0, 0), True, id="row above"),
        pytest.param(39, (1, 0, 0, 0), False, id="row above begins too early"),
        pytest.param(44, (1, 1, 0, 0), True, id="row above, column before"),
        pytest.param(43, (1, 1, 0, 0), False, id="column before begins too early"),
        pytest.param(1000 - 120, (0, 0, 1, 0), False, id="row below"),
        pytest.param(1000 - 160, (0, 0, 1, 0), True, id="row below ends with the block"),
        pytest.param(1000 - 159, (0, 0, 1, 0), False, id="row below ends too late"),
    ],
)
def test_halos_lie_within_the_block(program, offset, halo, fits):
    """3 rows of 10 pixels of 4 bytes, row pitch 40."""
    image = View(0, offset, "uint8", (1, 3, 10, 4), (120, 40, 4, 1), halo)
    step = moves.halo(image, 0) if any(halo) else moves.fill(image, 0)
    if fits:
        program.add(step)
    else:
        with pytest.raises(ValueError, match="leaves its block"):
            program.add(step)


ONE = PixelWindow((1, 1))


@pytest.mark.parametrize(
    ("offset", "sizes", "halo", "fits"),
    [
        pytest.param(5000, (1, 0, 10, 4), (0, 0, 0, 0), True, id="nothing is touched anywhere"),
        pytest.param(5000, (0, 3, 10, 4), (9, 9, 9, 9), True, id="no image"),
        pytest.param(5000, (1, 3, 10, 0), (9, 9, 9, 9), True, id="no channels"),
        pytest.param(5000, (1, 0, 10, 4), (0, 9, 0, 9), True, id="no rows, halo included"),
        pytest.param(880, (1, 0, 10, 4), (0, 0, 3, 0), True, id="rows below nothing"),
        pytest.param(881, (1, 0, 10, 4), (0, 0, 3, 0), False, id="rows below nothing end too late"),
        pytest.param(120, (1, 0, 10, 4), (3, 0, 0, 0), True, id="rows above nothing"),
        pytest.param(119, (1, 0, 10, 4), (3, 0, 0, 0), False, id="rows above nothing begin too early"),
        pytest.param(1000, (1, 0, 10, 4), (1, 0, 0, 0), True, id="no row is the one that lies behind"),
        pytest.param(1001, (1, 0, 10, 4), (1, 0, 0, 0), False, id="the row above ends too late"),
        pytest.param(0, (1, 0, 0, 4), (0, 0, 1, 10), True, id="one row of halo"),
        pytest.param(0, (1, 0, 0, 4), (0, 0, 99, 99), False, id="more halo than block"),
    ],
)
def test_the_halo_of_an_image_without_pixels_lies_within_the_block_too(program, offset, sizes, halo, fits):
    """It is read, although no element is: nothing was checked where a size was 0."""
    image = View(0, offset, "uint8", sizes, (120, 40, 4, 1), halo)
    step = pool.max_pool(image, View(0, 0, "uint8", (*sizes[:1], 0, 0, *sizes[3:]), (0, 0, 4, 1)), ONE)
    if fits:
        program.add(step)
    else:
        with pytest.raises(ValueError, match="leaves its block"):
            program.add(step)


def test_elements_are_aligned(program):
    x = View(2, 0, "float32", (4,), (4,))
    for y in (View(0, 2, "float32", (4,), (4,)), View(0, 0, "float32", (4,), (6,))):
        with pytest.raises(ValueError, match="no multiple of its element"):
            program.add(moves.copy(x, y))
    program.add(moves.copy(x, View(0, 8, "float32", (4,), (4,))))
    odd = np.zeros(201, np.uint8)[1:]
    with pytest.raises(ValueError, match="does not lie at a multiple"):
        program.run([odd], [np.zeros(300, np.uint8)])


def test_nothing_is_read_of_an_empty_view(program):
    program.add(moves.copy(row(2, 10**6, 0), row(3, 0, 0)))
    program.run([np.zeros(200, np.uint8)], [np.zeros(300, np.uint8)])


def test_the_arena_is_given_before_steps(program):
    program.add(moves.fill(row(0, 0, 5), 1))
    with pytest.raises(ValueError, match="before the first step"):
        program.arena(10)


@pytest.mark.parametrize("sizes", [(199, 300), (200, 301)])
def test_inputs_and_outputs_have_the_size_of_their_block(program, sizes):
    with pytest.raises(ValueError, match="another size than its block"):
        program.run([np.zeros(sizes[0], np.uint8)], [np.zeros(sizes[1], np.uint8)])


def test_a_run_needs_every_input_and_output(program):
    with pytest.raises(ValueError, match="zip"):
        program.run([], [np.zeros(300, np.uint8)])


def test_a_context_runs_when_everything_has_a_place(program):
    program.add(moves.fill(row(3, 0, 300), 7))
    context = program.take()
    with pytest.raises(ValueError, match="has no place yet"):
        context.run(0, 1)
    program.place(context, [np.zeros(200, np.uint8)], [np.zeros(300, np.uint8)])
    context.run(0, 1)
    with pytest.raises(ValueError, match="fewer steps"):
        context.run(0, 2)


def test_a_run_and_its_times(program):
    program.add(moves.copy(row(2, 0, 200), row(0, 64, 200)))
    program.add(moves.fill(row(3, 0, 300), 7))
    program.add(moves.copy(row(0, 64, 200), row(3, 100, 200)))
    x, y, times = np.arange(200, dtype=np.uint8), np.zeros(300, np.uint8), np.full(3, -1.0)
    program.run([x], [y], times)
    np.testing.assert_array_equal(y, [7] * 100 + list(range(200)))
    assert (times >= 0).all()
    with pytest.raises(ValueError, match="one time for each step"):
        program.run([x], [y], np.zeros(2))


def test_steps_of_one_program_are_named(program):
    program.add(moves.fill(row(3, 0, 300), 7))
    program.add(moves.copy(row(2, 0, 200), row(0, 0, 200), {"transpose": "transpose_ref"}))
    assert program.kernels == ["fill", "transpose_ref"]


def test_constants_live_as_long_as_their_program():
    program = Program(1)
    block = program.constant(np.arange(256, dtype=np.uint8)[::-1].copy())  # nobody else holds it
    x, y = program.input(256), program.output(256)
    program.add(pointwise.lookup(row(x, 0, 256), row(block, 0, 256), row(y, 0, 256)))
    filler = [np.full(256, 9, np.uint8) for _ in range(100)]
    out = np.zeros(256, np.uint8)
    program.run([np.arange(256, dtype=np.uint8)], [out])
    np.testing.assert_array_equal(out, np.arange(256)[::-1])
    assert len(filler) == 100


def test_the_arena_is_zero_and_has_its_size(program):
    arena = program.take().arena()
    assert arena.nbytes == ARENA and not arena.any() and SLACK == 64


def test_windows_move_on_and_threads_have_their_own(program):
    """Rows of an input become rows of an output by way of memory that each thread has for itself."""
    program = Program(3)
    program.arena(3 * 64)
    x, y = program.input(40), program.output(40)
    window, out, own = (
        program.window(x, 0, 40, 5, 8), program.window(y, 0, 40, 5, 8), program.thread_memory(0, 64)
    )  # fmt: skip
    program.repeat(8)
    program.add(moves.copy(row(window, 0, 5), row(own, 3, 5)))
    program.add(moves.copy(View(own, 7, "uint8", (5,), (-1,)), row(out, 0, 5)))
    program.repeat(1)
    source, target = np.arange(40, dtype=np.uint8), np.zeros(40, np.uint8)
    times = np.full(2, -1.0)
    program.run([source], [target], times)
    np.testing.assert_array_equal(target, source.reshape(8, 5)[:, ::-1].ravel())
    assert (times >= 0).all()
    with pytest.raises(ValueError, match="all or not at all"):
        program.take().run(0, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param((9, 0, 40, 5, 8), "a block that does not exist", id="block"),
        pytest.param((2, 0, 40, 5, 0), "one part or more", id="none"),
        pytest.param((2, 0, 40, 6, 8), "leaves its tensor", id="stride"),
        pytest.param((2, 0, 40, 1 << 63, 8), "leaves its tensor", id="far"),
        pytest.param((2, 0, 1 << 50, 5, 8), "leaves its tensor", id="large"),
    ],
)
def test_windows_that_are_refused(program, arguments, words):
    with pytest.raises(ValueError, match=words):
        program.window(*arguments)


def test_steps_that_name_windows(program):
    window = program.window(3, 0, 40, 5, 8)
    with pytest.raises(ValueError, match="a window on a window"):
        program.window(window, 0, 5, 1, 2)
    with pytest.raises(ValueError, match="steps that are repeated"):
        program.add(moves.fill(row(window, 0, 5), 1))
    program.repeat(7)
    with pytest.raises(ValueError, match="a part for each time"):
        program.add(moves.fill(row(window, 0, 5), 1))
    program.repeat(8)
    with pytest.raises(ValueError, match="leaves its block"):
        program.add(moves.fill(row(window, 0, 6), 1))
    with pytest.raises(ValueError, match="overwrites what it made before"):
        program.add(moves.fill(row(3, 0, 5), 1))
    with pytest.raises(ValueError, match="leaves its block"):
        program.add(moves.fill(row(program.window(3, 290, 40, 5, 8), 0, 5), 1))
    with pytest.raises(ValueError, match="multiple of its element"):
        program.add(moves.copy(View(program.window(2, 0, 90, 10, 8), 0, "float32", (4,), (4,)),
                               View(program.window(3, 0, 72, 8, 8), 0, "float32", (4,), (4,))))  # fmt: skip
    with pytest.raises(ValueError, match="only inputs and outputs are placed"):
        program.take().place(window, np.zeros(5, np.uint8))


def test_a_window_stays_within_its_tensor(program):
    program.tensor(0, 64)
    program.repeat(2)
    with pytest.raises(ValueError, match="leaves its tensor"):
        program.add(moves.fill(row(program.window(0, 32, 64, 32, 2), 0, 5), 1))


def test_fewer_parts_than_threads(program):
    program.native.window(0, 0, 100, 50, 2, by_thread=True)
    with pytest.raises(ValueError, match="fewer parts than threads"):
        Context(program.native, ThreadPool(3).native, False)

"""Products and convolutions of floats equal numerics.float_product and float_conv, on every kernel of this
machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import numerics
from intact.kernels import float_gemm
from intact.kernels.program import View
from intact.kernels.registry import Kernels, kernels_in_use
from intact.kernels.window import PixelWindow

SEEDS = st.integers(0, 2**32 - 1)
WILD = np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-42, -1e-42])


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Of sizes so far apart that their order counts; in one of four, what is no number, or hardly one."""
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 13, shape)).astype(np.float32)
    if rng.integers(4) == 0 and x.size:
        x.reshape(-1)[rng.integers(0, x.size, 3)] = rng.choice(WILD, 3)
    return x


def using(kernel: str) -> Kernels:
    """The chosen kernels, but for products of floats."""
    return {**kernels_in_use(), "float_gemm": kernel}


def permuted_view(run: Any, rng: np.random.Generator, x: np.ndarray, batch: tuple[int, ...]) -> View:
    """A view in any order of axes, under the leading axes `batch`."""
    view = run.input(x, tuple(rng.permutation(x.ndim).tolist()), gap=int(rng.integers(0, 3)))
    lead = len(batch) + 2 - x.ndim
    sizes, strides = (1,) * lead + x.shape, (0,) * lead + tuple(view.strides)
    spread = [0 if n == 1 else s for n, s in zip(sizes, strides, strict=True)]
    return View(view.block, view.offset, "float32", (*batch, *sizes[-2:]), spread)


@pytest.mark.rule("N51")
@settings(deadline=None, max_examples=60)
@given(
    seed=SEEDS,
    batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    sizes=st.tuples(st.integers(1, 27), st.integers(0, 20), st.integers(1, 75)),
)
def test_products_of_two_tensors(
    runner: Any, assert_same_bits: Any, float_gemm_kernel: str, seed: int, batch: tuple[int, ...], sizes: Any
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = sizes
    a, b = floats(rng, *(s if rng.integers(3) else 1 for s in batch), m, k), floats(rng, *batch, k, n)
    run = runner()
    y = run.output((*batch, m, n), np.float32, tuple(rng.permutation(len(batch) + 2).tolist()), 1)
    views = [permuted_view(run, rng, x, batch) for x in (a, b)]
    start = floats(rng, n) if rng.integers(2) else None
    start_view = None if start is None else run.constant(start)
    got = run.run(float_gemm.matmul(views[0], y, views[1], start_view, using(float_gemm_kernel)))
    assert_same_bits(got, np.broadcast_to(numerics.float_product(a, b, start), got.shape))
    assert run.only_wrote(y)


@settings(deadline=None, max_examples=60)
@given(
    seed=SEEDS,
    batch=st.lists(st.integers(1, 4), max_size=2).map(tuple),
    sizes=st.tuples(st.integers(1, 30), st.integers(0, 20), st.integers(1, 140)),
)
def test_products_with_a_packed_matrix(
    runner: Any, assert_same_bits: Any, float_gemm_kernel: str, seed: int, batch: tuple[int, ...], sizes: Any
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = sizes
    a, b = floats(rng, *batch, m, k), floats(rng, k, n)
    run = runner(2)
    y = run.output((*batch, m, n), np.float32)
    packed = float_gemm.pack(b, float_gemm_kernel)
    got = run.run(
        float_gemm.matmul(permuted_view(run, rng, a, batch), y, packed, None, using(float_gemm_kernel))
    )
    assert_same_bits(got, numerics.float_product(a, b))


@pytest.mark.parametrize("shape", [(100, 700, 40), (1, 900, 500), (200, 70, 1200), (60, 2000, 3)], ids=str)
@pytest.mark.parametrize("packs", [True, False])
def test_larger_products_are_cut_and_stay_one_chain(
    runner: Any, assert_same_bits: Any, float_gemm_kernel: str, shape: tuple[int, ...], packs: bool
) -> None:
    """Against the plain kernel, which the small ones hold against numerics: NumPy would take seconds."""
    rng = np.random.default_rng(5)
    m, k, n = shape
    a, b, start = floats(rng, m, k), floats(rng, k, n), floats(rng, n)

    def multiply(kernel: str, threads: int) -> np.ndarray:
        run = runner(threads)
        right = float_gemm.pack(b, kernel) if packs else run.input(b)
        y = run.output((m, n), np.float32)
        return run.run(float_gemm.matmul(run.input(a), y, right, run.constant(start), using(kernel)))

    assert_same_bits(multiply(float_gemm_kernel, 2), multiply("float_gemm_ref", 1))


def check_convolution(
    run: Any, assert_same_bits: Any, kernel: str, arrays: tuple[Any, Any, Any], window: PixelWindow,
    groups: int = 1,
) -> None:  # fmt: skip
    """A convolution of x by w from a start equals numerics', and writes nothing else."""
    (x, w, start), pads = arrays, window.pads
    want = numerics.float_conv(
        x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2), start, stride=window.strides,
        padding=((pads[0], pads[2]), (pads[1], pads[3])), dilation=window.dilations, groups=groups,
    ).transpose(0, 2, 3, 1)  # fmt: skip
    y = run.output(want.shape, np.float32, halo=(1, 0, 0, 1))
    packed = float_gemm.pack_filters(w, groups, kernel)
    view = run.input(x, halo=pads, fill=0)
    start_view = None if start is None else run.constant(start)
    step = float_gemm.conv(view, y, packed, window, groups=groups, start=start_view, kernel=kernel)
    assert_same_bits(run.run(step), want)
    assert run.only_wrote(y)


@pytest.mark.rule("N51")
@settings(deadline=None, max_examples=80)
@given(
    seed=SEEDS,
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    kind=st.sampled_from(["plain", "groups", "depthwise"]),
)
def test_convolution(
    runner: Any, assert_same_bits: Any, float_gemm_kernel: str, seed: int, kernel: Any, strides: Any,
    dilations: Any, pads: Any, kind: str,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    groups = {"plain": 1, "groups": 2, "depthwise": int(rng.choice([2, 5, 19, 40]))}[kind]
    depth, each = (1, 1) if kind == "depthwise" else rng.integers(1, [6, 36]).tolist()
    n, sizes = int(rng.integers(1, 3)), [
        max(1, (k - 1) * d + 1 - before - behind) + int(rng.integers(0, 9))
        for k, d, before, behind in zip(kernel, dilations, pads[:2], pads[2:], strict=True)
    ]  # fmt: skip
    x, w = floats(rng, n, *sizes, depth * groups), floats(rng, each * groups, *kernel, depth)
    start = floats(rng, each * groups) if rng.integers(2) else None
    window = PixelWindow(kernel, strides, dilations, pads)
    check_convolution(runner(), assert_same_bits, float_gemm_kernel, (x, w, start), window, groups)


@settings(deadline=None, max_examples=60)
@given(
    seed=SEEDS,
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 12)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 9)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    outputs=st.integers(1, 5),
    width=st.integers(1, 300),
)
def test_filters_of_one_channel(
    runner: Any, assert_same_bits: Any, float_gemm_kernel: str, seed: int, kernel: Any, strides: Any,
    dilations: Any, pads: Any, outputs: int, width: int,
) -> None:  # fmt: skip
    """With few channels, lanes are pixels."""
    rng = np.random.default_rng(seed)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    beyond = int(rng.integers(strides[1]))  # pixels that no window reads
    sizes = max(1, reach[0] - pads[0] - pads[2]) + 2, reach[1] + (width - 1) * strides[1] + beyond
    x, w = floats(rng, 2, *sizes, 1), floats(rng, outputs, *kernel, 1)
    start = floats(rng, outputs) if rng.integers(2) else None
    window = PixelWindow(kernel, strides, dilations, pads)
    check_convolution(runner(), assert_same_bits, float_gemm_kernel, (x, w, start), window)


def test_makers_refuse_what_does_not_fit(runner: Any) -> None:
    def view(*sizes: int, dtype: str = "float32", halo: Any = (0, 0, 0, 0)) -> View:
        strides = [4 * int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
        return View(1, 0, dtype, sizes, strides, halo)

    matrix, image = (
        float_gemm.pack(np.ones((3, 5))),
        float_gemm.pack_filters(np.ones((5, 3, 3, 2), np.float32)),
    )
    window = PixelWindow((3, 3), pads=(1, 1, 1, 1))
    halo = (1, 1, 1, 1)
    for step, message in [
        (
            lambda: float_gemm.matmul(view(2, 3), view(2, 6), matrix, None, using("float_gemm_ref")),
            "another size",
        ),
        (lambda: float_gemm.matmul(view(2, 3), view(2, 5), view(4, 5)), "do not fit each other"),
        (lambda: float_gemm.matmul(view(2, 3), view(3, 5), matrix), "differ in their sizes"),
        (lambda: float_gemm.matmul(view(2, 3, dtype="uint8"), view(2, 5), matrix), "is of float32"),
        (lambda: float_gemm.matmul(view(2, 3), view(2, 5), matrix, view(4)), "one for each column"),
        (lambda: float_gemm.conv(view(1, 4, 4, 2), view(1, 4, 4, 5), image, window), "beyond the input"),
        (
            lambda: float_gemm.conv(view(1, 4, 4, 3, halo=halo), view(1, 4, 4, 5), image, window),
            "another size",
        ),
        (lambda: float_gemm.conv(view(1, 4, 4, 3), view(1, 4, 4, 4), image, window, groups=2), "no multiple"),
    ]:
        with pytest.raises(ValueError, match=message):
            step()

"""Every operation of every type equals the reference, wherever operands lie and however they broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.kernels.program import View
from intact.kernels.registry import kernels_in_use
from intact.numerics import ELEMENTWISE, elementwise
from intact.numerics.elementwise import CASTS, takes

DTYPES = ("bool", "uint8", "int8", "uint16", "float16", "int32", "int64", "float32", "float64")


def signatures() -> list[tuple[str, list[str], str]]:
    """(operation, dtypes of its operands, dtype that it makes), all that there are among `DTYPES`."""
    cases = []
    for name, operation in ELEMENTWISE.items():
        for dtype in DTYPES:
            read = ["bool" if name == "where" and i == 0 else dtype for i in range(operation.operands)]
            output_dtypes = sorted(CASTS) if name == "cast" else [operation.makes or dtype]
            cases += [
                (name, read, output_dtype)
                for output_dtype in output_dtypes
                if takes(name, read, output_dtype)
            ]
    return cases


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small ones, so that some are equal; the ends, zeros, and what is no number."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "f":
        odd = np.array(
            [0.0, -0.0, 0.5, -2.5, np.nan, np.inf, -np.inf, 300.0, -1e4, 3e38 if dtype != "float16" else 9]
        )
        return np.where(rng.random(shape) < 0.5, rng.integers(-3, 4, shape), rng.choice(odd, shape)).astype(
            dtype
        )
    ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype)
    few = rng.integers(0 if kind == "u" else -3, 4, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.3, rng.choice(ends, shape), few)


@pytest.mark.rule("N53")
@pytest.mark.parametrize(
    ("name", "read", "output_dtype"), signatures(), ids=lambda v: v if isinstance(v, str) else v[-1]
)
def test_operation(
    runner: Any, elementwise_kernel: str, name: str, read: list[str], output_dtype: str
) -> None:
    """Longer than a chunk; one number for all of an operand; with gaps; axes in other orders; empty."""
    rng = np.random.default_rng(0)
    for shape, singles in (
        ((3, 5000), ()),
        ((4, 7, 9), (0,)),
        ((4, 7, 9), (1,)),
        ((6, 11), (0, 1, 2)),
        ((), ()),
        ((3, 0, 2), ()),
    ):
        for turned in (False, True):
            operands = [
                numbers(rng, dtype, (1,) * len(shape) if i in singles else shape)
                for i, dtype in enumerate(read)
            ]
            order = tuple(range(len(shape)))[::-1] if turned else None
            run = runner(2)
            views = [run.input(x, order=order, gap=0 if turned else 2) for x in operands]
            wide = [
                view.part(view.offset, shape, [0] * len(shape)) if i in singles else view
                for i, view in enumerate(views)
            ]
            y = run.output(shape, np.dtype(output_dtype).type, gap=1 if turned else 0)
            kernels = {**kernels_in_use(), "elementwise": elementwise_kernel}
            got = run.run(moves.elementwise(name, wide, y, kernels))
            want = np.broadcast_to(elementwise(name, operands, output_dtype), shape)
            np.testing.assert_array_equal(got, want)
            assert run.only_wrote(y)


@pytest.mark.parametrize(
    ("name", "read", "output_dtype", "message"),
    [
        ("nothing", ["int32"], "int32", "no operation has this name"),
        ("add", ["int32"], "int32", "as many operands"),
        ("add", ["uint8", "uint8"], "uint8", "no such operation on these types"),
        ("less", ["int32", "int32"], "int32", "no such operation on these types"),
        ("less", ["int32", "int64"], "bool", "operands differ"),
        ("where", ["uint8", "int32", "int32"], "int32", "what chooses is bool"),
        ("where", ["bool", "int32", "float32"], "float32", "operands differ"),
        ("where", ["bool", "int32", "int32"], "float32", "no such operation on these types"),
        ("cast", ["uint16"], "int32", "no such operation on these types"),
    ],
)
def test_refusals(name: str, read: list[str], output_dtype: str, message: str) -> None:
    views = [
        View(i + 1, 0, dtype, (4,), (np.dtype(dtype).itemsize,))
        for i, dtype in enumerate([*read, output_dtype])
    ]
    with pytest.raises(ValueError, match=message):
        moves.elementwise(name, views[:-1], views[-1])


def test_views_of_other_sizes_are_refused() -> None:
    x, y = View(1, 0, "int32", (4,), (4,)), View(2, 0, "int32", (5,), (4,))
    with pytest.raises(ValueError, match="differ in their sizes"):
        moves.elementwise("neg", [x], y)

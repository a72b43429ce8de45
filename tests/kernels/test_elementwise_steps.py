"""Every operation of every type equals the reference, however operands lie and broadcast."""

from __future__ import annotations

import numpy as np
import pytest
from tests.one_step import check, one_step

from intact.engine.steps import Elementwise
from intact.numerics.elementwise import CASTS, ELEMENTWISE, takes

DTYPES = ("bool", "uint8", "int8", "uint16", "float16", "int32", "int64", "float32", "float64")


def signatures() -> list[tuple[str, list[str], str]]:
    """(operation, dtypes of its operands, dtype that it makes), all that there are among `DTYPES`."""
    cases = []
    for name, operation in ELEMENTWISE.items():
        for dtype in DTYPES:
            read = ["bool" if name == "where" and i == 0 else dtype for i in range(operation.operands)]
            output_dtypes = sorted(CASTS) if name == "cast" else [operation.makes or dtype]
            cases += [(name, read, output) for output in output_dtypes if takes(name, read, output)]
    return cases


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small ones, so that some are equal; the ends, zeros, and what is no number."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "f":
        far = 3e38 if dtype != "float16" else 9
        odd = np.array([0.0, -0.0, 0.5, -2.5, np.nan, np.inf, -np.inf, 300.0, -1e4, far])
        x = np.where(rng.random(shape) < 0.5, rng.integers(-3, 4, shape), rng.choice(odd, shape))
        return x.astype(dtype)
    ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype)
    few = rng.integers(0 if kind == "u" else -3, 4, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.3, rng.choice(ends, shape), few)


@pytest.mark.rule("N53")
@pytest.mark.parametrize(
    ("name", "read", "output"), signatures(), ids=lambda v: v if isinstance(v, str) else v[-1]
)
def test_operation(name: str, read: list[str], output: str) -> None:
    """Longer than a chunk; one number for all of an operand; empty."""
    rng = np.random.default_rng(0)
    shapes = (
        ((3, 5000), ()),
        ((4, 7, 9), (0,)),
        ((4, 7, 9), (1,)),
        ((6, 11), (0, 1, 2)),
        ((), ()),
        ((3, 0, 2), ()),
    )
    for shape, singles in shapes:
        feeds = {
            f"x{i}": numbers(rng, dtype, (1,) * len(shape) if i in singles else shape)
            for i, dtype in enumerate(read)
        }
        if name in ("max", "min") and output == "float64":
            # Which of two zeros NumPy takes depends on its loops for the machine.
            feeds = {operand: x + 0.0 for operand, x in feeds.items()}
        step = Elementwise("s", (), name, tuple(feeds), "y")
        check(one_step(step, feeds, dtypes={"y": output}), moves=shape == (4, 7, 9))

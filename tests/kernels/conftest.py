"""Every kernel is tested by force: a test that asks for `<family>_kernel` gets each one of the registry."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pytest

from intact import kernels


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for family in sorted({k.family for k in kernels.kernel_list()}):
        if f"{family}_kernel" in metafunc.fixturenames:
            names = [k.name for k in kernels.kernel_list() if k.family == family and k.available]
            metafunc.parametrize(f"{family}_kernel", names)


@contextmanager
def _force_kernels(*names: str) -> Iterator[None]:
    before = os.environ.get("INTACT_FORCE_KERNEL")
    os.environ["INTACT_FORCE_KERNEL"] = ",".join(names)
    try:
        yield
    finally:
        del os.environ["INTACT_FORCE_KERNEL"]
        if before is not None:
            os.environ["INTACT_FORCE_KERNEL"] = before


@pytest.fixture(scope="session")
def force_kernels() -> Callable[..., AbstractContextManager[None]]:
    """``with forced("reduce_ref"):`` calls use that kernel."""
    return _force_kernels


def _assert_same_bits(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    bits = np.dtype(f"u{want.dtype.itemsize}")
    got_bits, want_bits = (np.ascontiguousarray(a).view(bits) for a in (got, want))
    missing = np.isnan(want.astype(np.float64)).reshape(want_bits.shape)
    np.testing.assert_array_equal(np.isnan(got.astype(np.float64)).reshape(missing.shape), missing)
    np.testing.assert_array_equal(got_bits[~missing], want_bits[~missing])


@pytest.fixture(scope="session")
def assert_same_bits() -> Callable[[np.ndarray, np.ndarray], None]:
    """Equality of shape, dtype and every bit, the sign of zero included; NaN equals NaN."""
    return _assert_same_bits

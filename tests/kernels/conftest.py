"""Every kernel is tested by force: a test that asks for `<family>_kernel` gets each one of the registry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
from tests import one_step
from tests.kernel_paths import environment

from intact import kernels


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for family in sorted({k.family for k in kernels.kernel_list()}):
        if f"{family}_kernel" in metafunc.fixturenames:
            names = [k.name for k in kernels.kernel_list() if k.family == family and k.available]
            metafunc.parametrize(f"{family}_kernel", names)


@pytest.fixture(scope="session")
def force_kernels() -> Callable[..., AbstractContextManager[None]]:
    """``with forced("reduce_ref"):`` calls use that kernel."""
    return lambda *names: environment(INTACT_FORCE_KERNEL=",".join(names))


@pytest.fixture(scope="session")
def assert_same_bits() -> Callable[[np.ndarray, np.ndarray], None]:
    """Equality of shape, dtype and every bit, the sign of zero included; NaN equals NaN."""
    return one_step.assert_same_bits

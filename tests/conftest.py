"""Fixtures of all tests: the data folder, seeds, hypothesis profiles, and one thread per xdist worker."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from tests.slow_tests import slow_tests

# Before anything imports torch or NumPy's BLAS: xdist workers share the cores, so each keeps to one thread.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Before anything imports Triton, which only then decides: kernels of `intact.torch.triton` run on the CPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

os.environ.setdefault("INTACT_LM_CACHE", "off")  # each test makes its models itself
os.environ.setdefault("INTACT_CHECK_PASSES", "1")  # the specification of a graph, behind each pass

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that took long when they were last measured."""
    slow = slow_tests()
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The shared data folder, named by INTACT_SHARED; its README lists what lies there.

    Without it the test is skipped, or fails where INTACT_REQUIRE_SHARED says that it must run.
    """
    named = os.environ.get("INTACT_SHARED", "")
    if named and Path(named).is_dir():
        return Path(named)
    reason = f"the shared data is needed: INTACT_SHARED is {named!r}, want its folder"
    if os.environ.get("INTACT_REQUIRE_SHARED"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _seed_generators() -> None:
    """The same random numbers in every run and every order; torch only where the test imported it."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of its own for every test."""
    return np.random.default_rng(0)

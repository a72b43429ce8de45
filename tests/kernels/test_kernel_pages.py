"""Memory for weights."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from intact.kernels import pages


def test_copies_are_equal_aligned_and_apart():
    pool = pages.Pages()
    arrays = [np.full(n, n % 251, np.uint8) for n in (1, 63, 64, 65, 1000, 0, 5)]
    copies = [pool.copy(array) for array in arrays]
    for got, want in zip(copies, arrays, strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.ctypes.data % pages.ALIGNMENT == 0
    starts = sorted((a.ctypes.data, a.size) for a in copies if a.size)
    assert all(start + size <= after for (start, size), (after, _) in itertools.pairwise(starts))


def test_an_array_larger_than_a_chunk(monkeypatch):
    monkeypatch.setattr(pages, "CHUNK", 4096)
    pool = pages.Pages()
    small, large = pool.copy(np.ones(10, np.uint8)), pool.copy(np.full(3 * pages.LARGE_PAGE, 7, np.uint8))
    assert (small == 1).all() and (large == 7).all()


@pytest.mark.parametrize("large_pages", [True, False])
def test_threads_share_a_pool(monkeypatch, large_pages):
    if not large_pages:
        monkeypatch.delattr(pages.mmap, "MADV_HUGEPAGE", raising=False)
    pool = pages.Pages()
    with ThreadPoolExecutor(4) as thread_pool:
        copies = list(thread_pool.map(lambda i: pool.copy(np.full(1000 + i, i, np.uint8)), range(200)))
    assert all(array.size == 1000 + i and (array == i).all() for i, array in enumerate(copies))

"""``pycuda.tools`` on host memory: pools that allocate, and contexts that are there already."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from intact.trt.host import pycuda_driver


class DeviceMemoryPool:
    """Gives memory as `pycuda.driver.mem_alloc` does, and keeps none."""

    def allocate(self, size: int) -> Any:
        """Allocate memory of `size` bytes."""
        return pycuda_driver.mem_alloc(size)

    def free_held(self) -> None:
        """Do nothing: no memory is pooled."""

    stop_holding = free_held


class PageLockedMemoryPool:
    """Gives arrays as `pycuda.driver.pagelocked_empty` does, and keeps none."""

    def allocate(self, shape: Any, dtype: Any, order: str = "C") -> Any:
        """Allocate an array."""
        return pycuda_driver.pagelocked_empty(shape, dtype, order)

    def free_held(self) -> None:
        """Do nothing: no memory is pooled."""

    stop_holding = free_held


def get_default_device(default: int = 0) -> Any:
    """Return the device: the host."""
    return pycuda_driver.Device(default)


def make_default_context(ctx_maker: Callable[[Any], Any] | None = None) -> Any:
    """Return a context of the host, from `ctx_maker` where it is given."""
    return pycuda_driver.Context() if ctx_maker is None else ctx_maker(get_default_device())


def clear_context_caches() -> None:
    """Do nothing: nothing is cached by context."""


def context_dependent_memoize(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cache the results of `function`: there is one context."""
    return cache(function)


mark_cuda_test = context_dependent_memoize

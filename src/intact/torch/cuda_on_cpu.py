"""Run code that names CUDA devices on the CPU: `.cuda()`, `device="cuda"`, events and streams.

Guides and scripts of `pytorch_quantization` end in ``model.cuda()``. `install` makes that the CPU, for the
rest of the process. `torch.cuda.is_available()` goes on saying what is true, so that scripts which ask take
their own branch for CPUs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["VARIABLE", "install"]

VARIABLE = "INTACT_CUDA_ON_CPU"
"""Environment variable that tells new processes to `install`, too."""

_CUDA = re.compile(r"cuda(:\d+)?")
_CPU = torch.device("cpu")
_TYPES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
_state = SimpleNamespace(mode=None)


def install(*, force: bool = False) -> bool:
    """Let CUDA devices mean the CPU in this process, in the thread that calls it, and in those it starts.

    Args:
        force: Also where there is a GPU.
    Returns:
        Whether they do.
    """
    if _state.mode is not None:
        return True
    if torch.cuda.is_available() and not force:
        return False
    os.environ[VARIABLE] = "1"
    _state.mode = _CudaOnCpu()
    _state.mode.__enter__()
    for name, stand_in in _STAND_INS.items():
        setattr(torch.cuda, name, stand_in)
    for name in _TYPES:
        setattr(torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, _function(lambda: None))
    torch.load = _load_on_cpu(torch.load)
    torch.set_default_device = _with_cpu(torch.set_default_device)
    return True


class _CudaOnCpu(TorchFunctionMode):
    """Replaces the CUDA devices among the arguments of torch's functions."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("cuda", "pin_memory"):
            return args[0]
        if name == "record_stream":
            return None
        named = {
            key: _number_on_cpu(x) if key == "device" else _on_cpu(x) for key, x in (kwargs or {}).items()
        }
        if name in ("to", "_parse_to") and args:  # of a tensor, and of a module
            args = tuple(map(_number_on_cpu, args))
        return func(*map(_on_cpu, args), **named)


def _on_cpu(x: Any) -> Any:
    """Return the CPU for a CUDA device, and anything else as it is."""
    if isinstance(x, torch.device):
        return _CPU if x.type == "cuda" else x
    return "cpu" if isinstance(x, str) and _CUDA.fullmatch(x) else x


def _number_on_cpu(x: Any) -> Any:
    """Return the CPU also for the number of a device."""
    return _CPU if isinstance(x, int) and not isinstance(x, bool) else _on_cpu(x)


def _with_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda device=None: function(_number_on_cpu(device))


def _load_on_cpu(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return `torch.load` that puts tensors of CUDA devices on the CPU."""

    def load_on_cpu(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(map_location, dict):
            map_location = {source: _on_cpu(target) for source, target in map_location.items()}
        place = _CPU if map_location is None else _on_cpu(map_location)
        return load(f, place, *args, **kwargs)

    return load_on_cpu


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing: the CPU has finished when a function returns."""


class _Event:
    """A `torch.cuda.Event` that reads the clock of the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._seconds = 0.0

    def record(self, stream: Any = None) -> None:
        self._seconds = time.perf_counter()

    def elapsed_time(self, end_event: _Event) -> float:
        """Return milliseconds."""
        return (end_event._seconds - self._seconds) * 1000

    def query(self) -> bool:
        return True

    synchronize = wait = _nothing


class _Stream:
    """A `torch.cuda.Stream` in which everything has been done already."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = _CPU

    def record_event(self, event: _Event | None = None) -> _Event:
        event = event or _Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    synchronize = wait_event = wait_stream = _nothing


def _function(result: Callable[[], Any]) -> Callable[..., Any]:
    """Return a function that takes anything and returns `result()`.

    Dynamo wants another object under each name.
    """
    return lambda *args, **kwargs: result()


def _memory(*args: Any, **kwargs: Any) -> tuple[int, int]:
    pages = (os.sysconf(name) for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"))
    free, total = (count * os.sysconf("SC_PAGE_SIZE") for count in pages)
    return free, total


def _properties(device: Any = None) -> SimpleNamespace:
    return SimpleNamespace(
        name="CPU", major=0, minor=0, total_memory=_memory()[1], multi_processor_count=os.cpu_count() or 1
    )


_STAND_INS: dict[str, Any] = {
    "Event": _Event, "Stream": _Stream, "get_device_properties": _properties, "mem_get_info": _memory,
    **{name: _function(_Stream) for name in ("current_stream", "default_stream")},
    **{name: _function(nullcontext) for name in ("device", "device_of", "stream")},
    "current_device": _function(lambda: 0), "get_device_name": _function(lambda: "CPU"),
    "get_device_capability": _function(lambda: (0, 0)), "memory_summary": _function(str),
    **{name: _function(lambda: None) for name in (
        "init", "ipc_collect", "reset_max_memory_allocated", "reset_peak_memory_stats", "set_device",
        "synchronize",
    )},
}  # fmt: skip
"""Functions of `torch.cuda` that raise where there is no GPU, by name."""

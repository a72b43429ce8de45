"""A pytest plugin for torch_tensorrt's own tests: what asks PyTorch for a GPU gets the CPU.

Import it behind `intact.trt`'s alias, and in front of torch_tensorrt, which looks for a GPU as it loads.
"""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import cuda_as_cpu
import torch


class DeviceProperties:
    """Answers as a GPU of compute capability 9.0."""

    major, minor, multi_processor_count, total_memory = 9, 0, 1, 2**34
    name, gcnArchName = "CPU", ""


class Stream:
    """A stream on which work is done at once."""

    cuda_stream, device = 0, torch.device("cpu")

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def synchronize(self) -> None: ...
    def wait_stream(self, *_: Any) -> None: ...
    def wait_event(self, *_: Any) -> None: ...
    def record_event(self, *_: Any) -> None: ...
    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None: ...


class Event:
    """An event that has happened."""

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def record(self, *_: Any) -> None: ...
    def synchronize(self) -> None: ...
    def wait(self, *_: Any) -> None: ...
    def elapsed_time(self, _: Any) -> float:
        return 0.0


def answer_as_gpu() -> None:
    """Let `torch.cuda` answer as one GPU does."""
    constants = {
        "is_available": True, "current_device": 0, "device_count": 1, "get_device_capability": (9, 0),
        "get_device_properties": DeviceProperties, "get_device_name": "CPU", "mem_get_info": (2**33, 2**34),
        "memory_allocated": 0, "max_memory_allocated": 0, "set_device": None, "set_stream": None,
        "empty_cache": None, "reset_peak_memory_stats": None, "set_rng_state": None, "synchronize": None,
    }  # fmt: skip
    for name, value in constants.items():
        setattr(torch.cuda, name, lambda *_, value=value, **__: value)
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    torch.cuda.current_stream = torch.cuda.default_stream = lambda *_: Stream()
    torch.cuda.stream = lambda *_: contextlib.nullcontext()
    torch.cuda.get_rng_state = lambda *_: torch.get_rng_state()
    if not hasattr(torch._C, "_CudaDeviceProperties"):
        torch._C._CudaDeviceProperties = DeviceProperties


answer_as_gpu()
cuda_as_cpu.read_as_cpu()


def pytest_configure() -> None:
    """Let torch_tensorrt's devices be the CPU."""
    from torch_tensorrt._Device import Device

    convert = Device.to
    Device.to = lambda self, kind: torch.device("cpu") if kind is torch.device else convert(self, kind)


def pytest_collection_finish() -> None:
    """Keep what is loaded out of the collections that the suite asks for behind each test."""
    gc.collect()
    gc.freeze()

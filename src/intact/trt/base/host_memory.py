"""IHostMemory: the bytes that builders, engines and timing caches are serialized to."""

from __future__ import annotations

from typing import Self

from intact.trt.base.enums import DataType


class IHostMemory(bytes):
    """Serialized bytes, with TensorRT's ``nbytes``."""

    dtype = property(lambda self: DataType.INT8)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return len(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

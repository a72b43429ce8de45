"""Which TensorRT is spoken: 8.x and 10.x differ in what a Quantize layer may be given.

    rule                                        "8.x"                        "10.x" (the default)
    axis not set                                an error                     per-tensor
    a scale for each channel of an activation   allowed                      refused: weights only
    a zero point that is not zero               no effect, with a warning    refused

The environment variable INTACT_TRT_DIALECT chooses for scripts that cannot be edited.
"""

from __future__ import annotations

import os
from typing import Literal, cast, get_args

from intact.errors import QuantValueError

Dialect = Literal["8.x", "10.x"]

_chosen: list[Dialect] = []


def get_dialect() -> Dialect:
    """The dialect that new networks are checked by."""
    if _chosen:
        return _chosen[-1]
    return _checked(os.environ.get("INTACT_TRT_DIALECT", "10.x"), "INTACT_TRT_DIALECT")


def set_dialect(name: Dialect) -> None:
    """Choose the dialect for networks that are made from now on.

    Args:
        name: "8.x" or "10.x".
    Raises:
        QuantValueError: It is neither.
    """
    _chosen[:] = [_checked(name, "dialect")]


def message_of(dialect: Dialect, message: str) -> str:
    """A message that `dialect` alone gives, with the name of the other one."""
    other = next(name for name in get_args(Dialect) if name != dialect)
    return f"{message} (TensorRT {dialect}; trt.set_dialect('{other}') follows {other}, which allows it)"


def _checked(name: str, where: str) -> Dialect:
    if name not in get_args(Dialect):
        raise QuantValueError(where, repr(name), "'8.x' or '10.x'", "choose one of the two")
    return cast(Dialect, name)

"""Load models that were pickled whole, as by ``torch.save(model, path)``, without running code from the file.

A pickle names classes and calls them. Here it may name classes of `torch.nn`, of `pytorch_quantization`
(replaced by those of `intact.torch`), NumPy's arrays, and what the caller allows. Any other name is an error,
as for ``torch.load(weights_only=True)``.
"""

from __future__ import annotations

import inspect
import io
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from intact.errors import FileFormatError
from intact.reading import read_bytes
from intact.torch import calib, descriptor
from intact.torch import nn as quant_nn
from intact.torch.alias import OLD_NAME
from intact.torch.nn.modules.clip import Clip
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer, name_quantizers

__all__ = ["load_pickled"]

_REFUSALS = (
    OSError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError, TypeError, LookupError,
    AttributeError, AssertionError,
)  # fmt: skip
"""Exceptions that torch raises for a file that is damaged, or that names a forbidden class."""


def load_pickled(path: str | os.PathLike[str], *, allow: Iterable[type | Callable[..., Any]] = ()) -> Any:
    """Load a file of ``torch.save(model, path)``; modules of `pytorch_quantization` become ours.

    Keep it with `save_checkpoint`, which stores no code.

    Args:
        path: The file: of a model, or of a dictionary that holds one.
        allow: The model's own classes, and other classes and functions that the file may name. Only what may
            be called with any arguments.
    Returns:
        The same, on the CPU. Quantizers have their ranges, switches, and what their calibrators collected.
    Raises:
        FileAccessError: The file cannot be read.
        FileFormatError: It is damaged, or names something that is not allowed: the message says what.
    """
    named: list[Any] = [
        *_allowed_globals(),
        *((allowed, f"{allowed.__module__}.{allowed.__qualname__}") for allowed in allow),
    ]
    data = read_bytes(path)
    try:
        with torch.serialization.safe_globals(named):
            loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except _REFUSALS as error:
        stranger = re.search(r"(?:GLOBAL|recognized function|but got) (\S+)", str(error))
        raise FileFormatError(
            str(path),
            f"{stranger[1]}, which is not allowed" if stranger else "no pickle that can be read",
            "a model that torch.save wrote, of classes that are known",
            "name the model's own classes in allow=[...], if you trust the file; else save it again",
        ) from error
    for model in _modules_in(loaded):
        name_quantizers(model)
    return loaded


def _allowed_globals() -> Iterator[tuple[Any, str]]:
    """Yield (class, the name that a pickle may call it by)."""
    for cls in vars(nn).values():
        if inspect.isclass(cls) and issubclass(cls, nn.Module):
            yield cls, f"{cls.__module__}.{cls.__qualname__}"
    own = [cls for cls in vars(quant_nn).values() if inspect.isclass(cls)]
    own += [TensorQuantizer, Clip, calib.MaxCalibrator, calib.HistogramCalibrator, calib.MergeableCalibrator]
    own += [descriptor.QuantDescriptor]
    for cls in dict.fromkeys(own):
        yield cls, f"{cls.__module__}.{cls.__qualname__}"
        yield cls, f"{cls.__module__.replace('intact.torch', OLD_NAME)}.{cls.__qualname__}"
    yield descriptor.QuantDescriptor, f"{OLD_NAME}.tensor_quant.ScaledQuantDescriptor"
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        yield np._core.multiarray._reconstruct, f"{module}._reconstruct"  # type: ignore[attr-defined]
        yield np._core.multiarray.scalar, f"{module}.scalar"  # type: ignore[attr-defined]
    yield np.ndarray, "numpy.ndarray"
    yield np.dtype, "numpy.dtype"
    for code in "?bBhHiIlLqQefd":
        kind = type(np.dtype(code))
        yield kind, f"{kind.__module__}.{kind.__qualname__}"


def _modules_in(loaded: Any) -> Iterator[nn.Module]:
    if isinstance(loaded, nn.Module):
        yield loaded
    elif isinstance(loaded, dict):
        yield from (value for value in loaded.values() if isinstance(value, nn.Module))

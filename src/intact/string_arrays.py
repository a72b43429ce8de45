"""Converts arrays of types that NumPy lacks: strings as ONNX Runtime takes them, and bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError


def as_strings(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return an array of strings as a dense one of Python's strings.

    Args:
        array: Of NumPy's strings ("<U5", StringDType) or of Python's (dtype object), any shape.
        where: What it is for, in errors.
    Returns:
        The same shape, dtype object.
    Raises:
        QuantValueError: It holds anything else, or text that is no Unicode; names `where`.
    """
    try:
        strings = array.astype(object) if array.dtype.kind in "UT" else array
        if strings.dtype.kind != "O":
            raise TypeError(f"dtype {array.dtype}")
        "".join(strings.reshape(-1).tolist()).encode()
    except (TypeError, ValueError, SystemError) as error:  # the last is NumPy's, for code points too large
        raise QuantValueError(
            where, str(error), "an array of strings", "convert it to strings, with astype(str) for one"
        ) from error
    return np.require(strings, requirements=["C"])


def without_bfloat16(tensor: Any) -> Any:
    """Return a torch tensor of bfloat16 as one of float32, because NumPy takes no bfloat16; others as they
    are.
    """
    return tensor.detach().float() if str(getattr(tensor, "dtype", "")) == "torch.bfloat16" else tensor

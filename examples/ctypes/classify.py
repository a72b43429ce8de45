"""Classifies an image with a plan file, through the C library and ctypes: `intact` is not imported.

    python classify.py libintact.so.0 resnet18.plan photo.ppm

The image is a binary PPM (P6) of the size that the network wants. Channels are normalized with ImageNet's
mean and deviation, as torchvision's models want it. The five largest outputs are printed, one line each.
"""

from __future__ import annotations

import ctypes as c
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
FLOAT32, MAX_RANK = 8, 6


class Error(c.Structure):
    """`intact_error`."""

    _fields_ = [("size", c.c_size_t), ("status", c.c_int), ("text", c.c_char * 1000)]


class Shape(c.Structure):
    """`intact_shape`."""

    _fields_ = [("rank", c.c_int32), ("sizes", c.c_int64 * MAX_RANK)]


class Classifier:
    """A plan of one input and one output, and a session of it.

    Args:
        library: Path of libintact.
        plan: Path of the plan file.
    """

    def __init__(self, library: str, plan: str) -> None:
        self._library = c.CDLL(library)
        self._plan, self._session = c.c_void_p(), c.c_void_p()
        self._call("open", os.fsencode(plan), None, c.byref(self._plan))
        self._call("session_new", self._plan, c.byref(self._session))
        # Floats also where the plan has codes.
        self._call("set_input_type", self._session, c.c_size_t(0), FLOAT32)
        self._call("set_output_type", self._session, c.c_size_t(0), FLOAT32)

    def __call__(self, image: NDArray[np.float32]) -> NDArray[np.float32]:
        """The scores of a dense image [1, 3, height, width]."""
        shape = Shape(image.ndim, (c.c_int64 * MAX_RANK)(*image.shape))
        self._call("prepare", self._session, c.byref(shape))
        self._call("output_shape", self._session, c.c_size_t(0), c.byref(shape))
        scores = np.empty(tuple(shape.sizes[: shape.rank]), np.float32)
        self._call("run", self._session, pointer(image), pointer(scores))
        return scores

    def close(self) -> None:
        """Free the session and the plan."""
        self._library.intact_session_free(self._session)
        self._library.intact_close(self._plan)

    def _call(self, name: str, *arguments: Any) -> None:
        error = Error(c.sizeof(Error))
        if getattr(self._library, f"intact_{name}")(*arguments, c.byref(error)):
            raise SystemExit(f"intact_{name}: {error.text.decode()}")


def pointer(array: NDArray[Any]) -> Any:
    """An array of one pointer, as `intact_run` takes them."""
    return (c.c_void_p * 1)(array.ctypes.data)


def read_ppm(path: str) -> NDArray[np.float32]:
    """An image [1, 3, height, width], normalized."""
    data = Path(path).read_bytes()
    header = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    if header is None:
        raise SystemExit(f"{path}: it cannot be used")
    width, height = map(int, header.groups())
    pixels = np.frombuffer(data, np.uint8, 3 * width * height, header.end()).reshape(height, width, 3)
    planes = ((pixels.astype(np.float32) / np.float32(255) - MEAN) / DEVIATION).transpose(2, 0, 1)
    return np.ascontiguousarray(planes[None])


def main() -> None:
    """Classify one image."""
    if len(sys.argv) != 4:
        raise SystemExit("usage: classify.py libintact.so.0 model.plan image.ppm")
    classifier = Classifier(*sys.argv[1:3])
    scores = classifier(read_ppm(sys.argv[3])).reshape(-1)
    for best in np.argsort(-scores, kind="stable")[:5]:
        print(f"class {best}: {scores[best]:.6f}")
    classifier.close()


if __name__ == "__main__":
    main()

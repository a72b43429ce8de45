"""Polygraphy's wrapper of CUDA, whose library a CPU has not, keeps its memory on the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGE = """
import numpy as np


class Cuda:
    def __init__(self):
        raise RuntimeError("there is no libcudart.so")


G_CUDA = None


def wrapper():
    global G_CUDA
    if G_CUDA is None:
        G_CUDA = Cuda()
    return G_CUDA
"""
SCRIPT = """
import numpy as np
{before}
import tensorrt
from polygraphy.cuda import wrapper

cuda, sent, back = wrapper(), np.arange(5.0), np.zeros(5)
stream, there = cuda.create_stream(), cuda.malloc(sent.nbytes)
cuda.memcpy(dst=there, src=sent.ctypes.data, nbytes=sent.nbytes, kind=None, stream_ptr=stream)
cuda.memcpy(back.ctypes.data, there, back.nbytes, None)
cuda.stream_synchronize(stream)
cuda.destroy_stream(stream)
cuda.free(there)
print(back.tolist())
"""


def output_of(folder: Path, script: str) -> str:
    """Return the output of a script whose Polygraphy is a wrapper without a library."""
    inner = folder / "polygraphy" / "cuda"
    inner.mkdir(parents=True)
    (folder / "polygraphy" / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("from polygraphy.cuda.cuda import wrapper\n")
    (inner / "cuda.py").write_text(PACKAGE)
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "intact.trt", "script.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or done.stderr


def test_its_device_memory_is_the_hosts(tmp_path: Path) -> None:
    assert output_of(tmp_path, SCRIPT.format(before="")) == "[0.0, 1.0, 2.0, 3.0, 4.0]"


def test_a_wrapper_that_is_loaded_already_is_replaced(tmp_path: Path) -> None:
    before = "import polygraphy.cuda.cuda as own, intact.trt.alias as names\nown.Cuda = None\nnames.alias()"
    assert output_of(tmp_path, SCRIPT.format(before=before)) == "[0.0, 1.0, 2.0, 3.0, 4.0]"

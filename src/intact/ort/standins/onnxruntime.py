"""Loads the real onnxruntime, and lets INTact look at its sessions: for processes that programs start."""

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

_FOLDER = Path(__file__).absolute().parent


def _load_real() -> None:
    path = sys.path[:]
    sys.path[:] = [folder for folder in path if Path(folder).absolute() != _FOLDER]
    del sys.modules["onnxruntime"]
    invalidate_caches()
    try:
        try:
            from intact.ort import install

            install()
        except ImportError:  # another environment's Python, which inherited PYTHONPATH
            pass
        import_module("onnxruntime")
    finally:
        sys.path[:] = path


_load_real()

"""ONNX Runtime's Python interface over INTact: programs that call onnxruntime run in int8, and are guarded.

``python -m intact.ort app.py`` runs a program so, `install` in a program does the same, and ``import
intact.ort as ort`` gives everything that onnxruntime has. Models run in ONNX Runtime first. What is close
enough to float and faster on the program's own inputs then runs in the engine
(docs/how-to/run-onnxruntime-programs.md).
"""

from __future__ import annotations

from typing import Any

from intact.ort.install import install, is_installed, uninstall
from intact.ort.policies import Policy, policy

__all__ = ["Policy", "install", "is_installed", "policy", "status", "uninstall", "wait"]


def status(*, everything: bool = False) -> list[Any]:
    """Return a `intact.ort.result_cache.ModelRecord` for each model that this program has run.

    Args:
        everything: Those in the cache folder instead, of all programs.
    """
    from intact.ort.reports import process_records, stored_records

    return stored_records() if everything else process_records()


def wait(seconds: float = 600.0) -> bool:
    """Wait until nothing is being quantized or compared; return whether that came to pass in time."""
    from intact.ort.background import background

    return background.wait(seconds)


def __getattr__(name: str) -> Any:
    from intact.ort.install import import_onnxruntime, watched_session_class

    if name.startswith("__") and name != "__version__":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = import_onnxruntime()
    if name == "InferenceSession":
        if is_installed():
            return module.InferenceSession
        globals()[name] = watched_session_class()
        return globals()[name]
    try:
        return getattr(module, name)
    except AttributeError:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    from intact.ort.install import import_onnxruntime

    return sorted({*__all__, *dir(import_onnxruntime())})

"""ONNX Runtime's Python interface over INTact: programs that call onnxruntime run in int8, and are guarded.

``python -m intact.ort app.py`` runs a program so, `install` in a program does the same, and ``import
intact.ort as ort`` gives everything that onnxruntime has. Models run in ONNX Runtime first. What is close
enough to float and faster on the program's own inputs then runs in the engine
(docs/how-to/run-onnxruntime-programs.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from intact.ort.install import install, is_installed, uninstall
from intact.ort.policies import Policy, policy

__all__ = [
    "Policy", "disable", "enable", "install", "is_installed", "policy", "status", "uninstall", "wait",
]  # fmt: skip


def status(*, everything: bool = False) -> list[Any]:
    """Return a `intact.ort.records.ModelRecord` for each model that this program has run.

    Args:
        everything: Those in the cache folder instead, of all programs.
    """
    from intact.ort.reports import process_records, stored_records

    return stored_records() if everything else process_records()


def enable(*, user: bool = False) -> Path:
    """Call `install` in all programs of this Python environment; return the file that was written.

    Args:
        user: In the folder of the user's own packages.

    Raises:
        FileAccessError: The system refuses it.
    """
    from intact.ort import environment_file

    return environment_file.enable(user)


def disable(*, user: bool = False) -> Path | None:
    """Undo `enable`; return the file that was removed, None where there was none.

    Raises:
        FileAccessError: The system refuses it.
    """
    from intact.ort import environment_file

    return environment_file.disable(user)


def wait(seconds: float = 600.0) -> bool:
    """Wait until nothing is being quantized or compared; return whether that came to pass in time."""
    from intact.ort.background import background

    return background.wait(seconds)


def __getattr__(name: str) -> Any:
    from intact.ort.install import import_onnxruntime, session_class_to_watch

    if name.startswith("__") and name != "__version__":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = import_onnxruntime()
    if name == "InferenceSession":
        if is_installed():
            return module.InferenceSession
        globals()[name] = session_class_to_watch()
        return globals()[name]
    try:
        return getattr(module, name)
    except AttributeError:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    from intact.ort.install import import_onnxruntime

    return sorted({*__all__, *dir(import_onnxruntime())})

"""Lets programs that import onnxruntime run on the engine: now, or when they import it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from intact.errors import MissingExtraError
from intact.ort.background import report_fault
from intact.ort.policies import is_switched_off

MODULE = "onnxruntime"
STANDINS = Path(__file__).with_name("standins")
"""A folder with a module of the name, for processes in which nobody calls `install`."""

_originals: dict[tuple[Any, str], Any] = {}
"""The attributes that `install` has replaced, by class and name."""


def install() -> None:
    """Let sessions of ONNX Runtime that are made from now on be watched, quantized and guarded.

    It changes three methods of `onnxruntime.InferenceSession` itself, so that what a program imported before
    has them, too. onnxruntime is imported when the program does, and not by this call. ``INTACT_ORT=off`` in
    the environment makes it do nothing.
    """
    if is_switched_off():
        return
    if _is_loaded():
        _patch(sys.modules[MODULE])
    elif not any(isinstance(finder, _ImportHook) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ImportHook())  # no importlib.abc: slow to import


def uninstall() -> None:
    """Take back what `install` did. Sessions that were made meanwhile run in ONNX Runtime from now on."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _ImportHook)]
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


def is_installed() -> bool:
    """Return whether sessions are watched, or will be when onnxruntime is imported."""
    return bool(_originals) or any(isinstance(finder, _ImportHook) for finder in sys.meta_path)


def standins() -> list[Path]:
    """Return the folders in which processes that this one starts find the names."""
    return [STANDINS]


def import_onnxruntime() -> ModuleType:
    """Return the real onnxruntime.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError.of(
            error.name or MODULE, "onnxruntime", "standing in for ONNX Runtime"
        ) from error
    module: ModuleType = onnxruntime
    return module


def session_class() -> Any:
    """Return ONNX Runtime's own class of sessions, with its own methods or those that `install` set."""
    from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession

    return InferenceSession


def session_class_to_watch() -> Any:
    """Return a class of sessions that are watched whether `install` was called or not."""
    from intact.ort.session_methods import session_methods

    sessions = session_class()
    if _originals:
        return sessions
    names = {"__module__": "intact.ort", "__qualname__": "InferenceSession", "__doc__": sessions.__doc__}
    return type("InferenceSession", (sessions,), {**session_methods(sessions), **names})


def _is_loaded() -> bool:
    return hasattr(sys.modules.get(MODULE), "InferenceSession")


def _patch(module: Any) -> None:
    """Set the methods on ONNX Runtime's classes; whatever fails leaves them as they are."""
    if _originals:
        return
    try:
        from intact.ort import reports  # noqa: F401  it writes records when the program ends
        from intact.ort.session_methods import note_altered_options, session_methods

        sessions = session_class()
        replacements = [
            (sessions, session_methods(sessions)),
            (module.SessionOptions, note_altered_options(module.SessionOptions)),
        ]
        for owner, methods in replacements:
            for name, method in methods.items():
                _originals[owner, name] = getattr(owner, name)
                setattr(owner, name, method)
    except Exception as error:  # an ONNX Runtime that is built in another way: it stays as it is
        for (owner, name), original in _originals.items():
            with suppress(Exception):
                setattr(owner, name, original)
        _originals.clear()
        report_fault(error)


class _ImportHook:
    """Waits for the import of onnxruntime, and changes it when it has been loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return onnxruntime's spec with a loader that calls `install`; None for other names."""
        if fullname != MODULE:
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        spec = importlib.util.find_spec(MODULE)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _Loader(spec.loader, _patch)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads a module as another loader does, then calls a function.

    The module keeps its own loader, which `importlib.resources` asks for its files.
    """

    def __init__(self, loader: Any, then: Callable[[ModuleType], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module, or None for the usual one."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code, then the function."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

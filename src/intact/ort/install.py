"""Lets programs that import onnxruntime run on the engine: now, or when they import it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from intact.errors import MissingExtraError
from intact.ort.background import report_fault
from intact.ort.policies import current_policy, is_switched_off

MODULE = "onnxruntime"
_QUANTIZATION = f"{MODULE}.quantization"
STANDINS = Path(__file__).with_name("standins")
"""A folder with a module of the name, for processes in which nobody calls `install`."""

_originals: dict[tuple[Any, str], Any] = {}
"""The attributes that `install` has replaced, by class and name."""


def install() -> None:
    """Let sessions of ONNX Runtime that are made from now on be watched, quantized and guarded.

    It changes three methods of `onnxruntime.InferenceSession` itself, so that what a program imported before
    has them, too. Functions of `onnxruntime.quantization` ask the policy. onnxruntime is imported when the
    program does, and not by this call. ``INTACT_ORT=off`` in the environment makes it do nothing.
    """
    if is_switched_off():
        return
    for name, patch in _PATCHES.items():
        if _is_loaded(name):
            patch(sys.modules[name])
        elif not _is_awaited(name):
            sys.meta_path.insert(0, _ImportHook(name, patch))  # no importlib.abc: slow to import


def uninstall() -> None:
    """Take back what `install` did. Sessions that were made meanwhile run in ONNX Runtime from now on."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _ImportHook)]
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


def is_installed() -> bool:
    """Return whether sessions are watched, or will be when onnxruntime is imported."""
    return bool(_originals) or _is_awaited(MODULE)


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
    if (sessions, "__init__") in _originals:
        return sessions
    names = {"__module__": "intact.ort", "__qualname__": "InferenceSession", "__doc__": sessions.__doc__}
    return type("InferenceSession", (sessions,), {**session_methods(sessions), **names})


def _is_loaded(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and (name != MODULE or hasattr(module, "InferenceSession"))


def _is_awaited(name: str) -> bool:
    return any(isinstance(finder, _ImportHook) and finder.name == name for finder in sys.meta_path)


def _session_replacements(module: Any) -> list[tuple[Any, dict[str, Any]]]:
    from intact.ort import reports  # noqa: F401  it writes records when the program ends
    from intact.ort.session_methods import note_altered_options, session_methods

    sessions = session_class()
    return [
        (sessions, session_methods(sessions)),
        (module.SessionOptions, note_altered_options(module.SessionOptions)),
    ]


def _function_replacements(module: Any) -> list[tuple[Any, dict[str, Any]]]:
    from intact.ort.quantization import patch_functions

    return patch_functions(module, _quantization_target)


def _weight_replacements(module: Any) -> list[tuple[Any, dict[str, Any]]]:
    from intact.ort.quantization import patch_matmul_nbits

    return patch_matmul_nbits(module, _quantization_target)


def _quantization_target() -> str:
    return current_policy().quantization if is_installed() and not is_switched_off() else "off"


def _patch(module: Any, replace: Callable[[Any], list[tuple[Any, dict[str, Any]]]]) -> None:
    """Set attributes of ONNX Runtime's classes and modules; whatever fails leaves them as they are."""
    done: list[tuple[Any, str]] = []
    try:
        for owner, attributes in replace(module):
            for name, attribute in attributes.items():
                if (owner, name) in _originals:
                    return
                done.append((owner, name))
                _originals[owner, name] = getattr(owner, name)
                setattr(owner, name, attribute)
    except Exception as error:  # an ONNX Runtime that is built in another way: it stays as it is
        for owner, name in done:
            with suppress(Exception):
                setattr(owner, name, _originals.pop((owner, name)))
        report_fault(error)


_PATCHES: dict[str, Callable[[Any], None]] = {
    MODULE: partial(_patch, replace=_session_replacements),
    _QUANTIZATION: partial(_patch, replace=_function_replacements),
    f"{_QUANTIZATION}.matmul_nbits_quantizer": partial(_patch, replace=_weight_replacements),
}
"""Changes of modules, which are made as soon as these are loaded."""


class _ImportHook:
    """Waits for the import of a module, and changes it when it has been loaded."""

    def __init__(self, name: str, patch: Callable[[Any], None]) -> None:
        self.name, self._patch = name, patch

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's spec with a loader that changes it; None for other names."""
        if fullname != self.name:
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _Loader(spec.loader, self._patch)  # type: ignore[assignment]
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

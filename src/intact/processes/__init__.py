"""Processes: what a fork must renew, and limited processes that read the files of strangers.

What starts processes is loaded when it is asked for: with subprocess and tempfile that takes 10 ms, and every
``import intact`` comes through here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from intact.processes.forks import Renewable, cached_property, never_free, renew_in_child
from intact.processes.user_cache import user_cache

if TYPE_CHECKING:
    from intact.processes.limited_worker import LimitedWorker
    from intact.processes.script_process import ScriptProcess
    from intact.processes.untrusted import reads_untrusted_files, try_file, try_in_worker, untrusted_files

__all__ = [
    "LimitedWorker", "Renewable", "ScriptProcess", "cached_property", "never_free", "reads_untrusted_files",
    "renew_in_child", "try_file", "try_in_worker", "untrusted_files", "user_cache",
]  # fmt: skip
_MODULES = {
    "LimitedWorker": "limited_worker", "ScriptProcess": "script_process",
    **dict.fromkeys(("reads_untrusted_files", "try_file", "try_in_worker", "untrusted_files"), "untrusted"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return globals()[name]

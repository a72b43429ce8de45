"""Processes: what a fork must renew, and limited processes that read the files of strangers."""

from intact.processes.forks import Renewable, cached_property, never_free, renew_in_child
from intact.processes.limited_worker import LimitedWorker
from intact.processes.script_process import ScriptProcess
from intact.processes.untrusted import reads_untrusted_files, try_file, try_in_worker, untrusted_files
from intact.processes.user_cache import user_cache

__all__ = [
    "LimitedWorker", "Renewable", "ScriptProcess", "cached_property", "never_free", "reads_untrusted_files",
    "renew_in_child", "try_file", "try_in_worker", "untrusted_files", "user_cache",
]  # fmt: skip

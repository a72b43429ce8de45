"""Runs a script that was written for another library, with INTact in its place."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def run_script(tool: str, prepare: Callable[[], Iterable[Path]]) -> None:
    """Run ``python -m TOOL script.py [arguments]`` or ``python -m TOOL -m module [arguments]``.

    Args:
        tool: The package, for messages.
        prepare: Registers the old names, and gives the folders that new processes find them in: they lead
            the path that those inherit, so that a process and what it starts import the same.
    """
    module = sys.argv[1:2] == ["-m"]
    if len(sys.argv) < 2 + module:
        sys.exit(f"usage: python -m {tool} script.py [arguments], or -m package.module [arguments]")
    del sys.argv[: 1 + module]
    if not module and not Path(sys.argv[0]).is_file():
        sys.exit(f"python -m {tool}: no file {sys.argv[0]!r}")
    folders = [str(folder) for folder in prepare()]
    sys.path += folders
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*folders, os.environ.get("PYTHONPATH")]))
    if module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")

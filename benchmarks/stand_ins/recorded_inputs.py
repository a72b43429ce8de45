"""Runs a script on the inputs that its log shows, where the script draws others in each run.

    python benchmarks/stand_ins/recorded_inputs.py LOG script.py

Before each ``setup(data)`` of the wrapper classes in `tensorrt_cookbook`, the arrays of the next case in LOG
take the places of those of the same name and size, but for those that the log does not show in full.
"""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from intact.trt.alias import alias

DECLARED = re.compile(r"^Input ->\S+ .*\), (\S+)$")
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


def inputs_of(log: str) -> Iterator[dict[str, np.ndarray]]:
    """For each run that a log shows: its inputs by name, flat."""
    for case in re.split(r"^=+ Start \[", log, flags=re.M)[1:]:
        lines = case.splitlines()
        names = [result[1] for line in lines if (result := DECLARED.match(line))]
        if names:
            yield {name: array for name in names if (array := _array(lines, name)) is not None}


def _array(lines: list[str], name: str) -> np.ndarray | None:
    if name not in lines:
        return None
    text, depth = "", 0
    for line in lines[lines.index(name) + 1 :]:
        text += f"{line} "
        depth += line.count("[") - line.count("]")
        if depth <= 0:
            break
    return None if "..." in text else np.array([float(n) for n in NUMBER.findall(text)])


def feed(log: Path) -> None:
    """Let the wrappers set up what `log` shows."""
    recorded = inputs_of(log.read_text(errors="replace"))
    module = importlib.import_module("tensorrt_cookbook")

    def feeding(setup: Callable[..., Any]) -> Callable[..., Any]:
        def fed(self: Any, data: dict[str, Any] | None = None, **options: Any) -> Any:
            arrays = next(recorded, {})
            for name, value in (data or {}).items():
                if name in arrays and arrays[name].size == np.size(value):
                    inputs = np.asarray(value)
                    data[name] = arrays[name].astype(inputs.dtype).reshape(inputs.shape)
            return setup(self, data, **options)

        return fed

    for name in dir(module):
        kind = getattr(module, name)
        if name.startswith("TRTWrapper") and "setup" in vars(kind):
            kind.setup = feeding(kind.setup)


if __name__ == "__main__":
    log, script = Path(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(script).resolve().parent)
    alias()
    feed(log)
    runpy.run_path(script, run_name="__main__")

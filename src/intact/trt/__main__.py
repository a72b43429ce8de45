"""``python -m intact.trt script.py [arguments]``: run a script written for `tensorrt` and CUDA's Python.

``python -m intact.trt -m package.module [arguments]`` runs a module. Processes that it
starts know the names too.
"""

from __future__ import annotations

from pathlib import Path

from intact.standins import run_script
from intact.trt.alias import alias, standins


def _prepare() -> list[Path]:
    alias()
    return standins()


if __name__ == "__main__":
    run_script("intact.trt", _prepare)

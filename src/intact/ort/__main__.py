"""``python -m intact.ort script.py [arguments]``: run a program that calls onnxruntime on INTact's engine.

``python -m intact.ort -m package.module [arguments]`` runs a module. Processes that it starts do so, too.
"""

from __future__ import annotations

from pathlib import Path

from intact.ort.install import install, standins
from intact.standins import run_script


def _prepare() -> list[Path]:
    install()
    return standins()


if __name__ == "__main__":
    run_script("intact.ort", _prepare)

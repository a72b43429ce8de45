"""``python -m intact.torch script.py [arguments]``: run a script written for `pytorch_quantization`.

``python -m intact.torch -m package.module [arguments]`` runs a module. Processes that it starts, workers that
load data or trainers of several ranks, know the old name too.
"""

from __future__ import annotations

from pathlib import Path

from intact.standins import run_script
from intact.torch.alias import STANDINS, alias


def _prepare() -> list[Path]:
    alias()
    return [STANDINS]


if __name__ == "__main__":
    run_script("intact.torch", _prepare)

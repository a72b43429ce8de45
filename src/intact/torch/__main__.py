"""``python -m intact.torch [--cpu] script.py [arguments]``: run a script written for `pytorch_quantization`.

``python -m intact.torch -m package.module [arguments]`` runs a module. Processes that it starts, workers that
load data or trainers of several ranks, know the old name too. Without a GPU, or with ``--cpu``, CUDA devices
mean the CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

from intact.standins import run_script
from intact.torch import cuda_on_cpu
from intact.torch.alias import STANDINS, alias


def _prepare(cpu: bool) -> list[Path]:
    alias()
    cuda_on_cpu.install(force=cpu)
    return [STANDINS]


def _main() -> None:
    cpu = sys.argv[1:2] == ["--cpu"]
    if cpu:
        del sys.argv[1]
    run_script("intact.torch", lambda: _prepare(cpu))


if __name__ == "__main__":
    _main()

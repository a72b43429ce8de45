"""``python -m intact.torch script.py [arguments]``: run a script written for `pytorch_quantization`.

``python -m intact.torch -m package.module [arguments]`` runs a module. Processes that it starts, workers that
load data or trainers of several ranks, know the old name too.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from intact.torch.alias import STANDINS, alias


def main() -> None:
    module = sys.argv[1:2] == ["-m"]
    if len(sys.argv) < 2 + module:
        sys.exit("usage: python -m intact.torch script.py [arguments], or -m package.module [arguments]")
    del sys.argv[: 1 + module]
    if not module and not Path(sys.argv[0]).is_file():
        sys.exit(f"python -m intact.torch: no file {sys.argv[0]!r}")
    alias()
    sys.path.append(str(STANDINS))
    inherited = [path for path in (os.environ.get("PYTHONPATH"), str(STANDINS)) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(inherited)
    if module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()

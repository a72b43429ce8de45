"""``python -m intact.trt script.py [arguments]``: run a script written for `tensorrt` and CUDA's Python."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from intact.trt.alias import alias

USAGE = "usage: python -m intact.trt script.py [arguments]"


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(USAGE)
    script = sys.argv[1]
    if not Path(script).is_file():
        sys.exit(f"python -m intact.trt: no file {script!r}")
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    alias()
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

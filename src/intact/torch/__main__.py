"""``python -m intact.torch script.py [arguments]``: run a script written for `pytorch_quantization`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from intact.torch.alias import alias


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m intact.torch script.py [arguments]")
    script = sys.argv[1]
    if not Path(script).is_file():
        sys.exit(f"python -m intact.torch: no file {script!r}")
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    alias()
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

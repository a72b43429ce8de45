"""The command ``intact``: one module per verb; the console script calls `main`.

Verbs raise `IntactError`, and the system its own about files; either is printed here, once, without a
traceback, and the exit status is 2. Status 1 belongs to verbs: it says that files differ, or that there are
findings. What nobody foresaw is a fault of this program: its traceback, and status 70.
Typer and rich load with `main`, the frameworks with the verb that needs them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb with `arguments` (default: the process's) and exit with its status."""
    from intact.cli.error_handling import run_verb, warnings_in_lines

    with warnings_in_lines():
        sys.exit(run_verb(arguments))
